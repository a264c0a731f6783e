#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12) and 24.11.5 (Debian 13): slurmctld, slurmd, slurm-client; one node, on loopback.
#
# One would expect: sbatch --wait exits with 0 if the job ran and went well, as the manual's "exits with the exit code
# of the job" reads, and otherwise not; a script goes on from there with what the job has written.
# What it does: if the job is cancelled before it starts, sbatch --wait exits with 0, in both versions, and says
# nothing. That is so for scancel, by whomever, for the tasks of an array that were cancelled while they waited, and
# for a job that Slurm itself cancels because the job that it depends on has failed (--kill-on-invalid-dep=yes).
# A job that is cancelled while it runs gives another code, and so does one that could not start by its --deadline.
#
# Seen, by both versions:
#   the job exits with 3                           sbatch --wait: 3
#   cancelled while it runs                        sbatch --wait: not 0
#   cancelled while it waits                       sbatch --wait: 0 (CANCELLED, ExitCode=0:0)
#   afterok of one that failed, cancelled by Slurm sbatch --wait: 0 (CANCELLED, ExitCode=0:0)
#   array: one task ends well, one is cancelled    sbatch --wait: 0
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Debian's packages and what they need are unpacked below the directory; nothing is installed.
unpack() { # SUITE VERSION
    local root=$dir/$1 apt=$dir/$1.apt mirror part deb
    mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
    mkdir -p "$apt/lists" "$apt/cache" "$root"/{dev,proc,sys,run,tmp,root,etc,slurm} "$root"/usr/{bin,sbin,lib,lib64}
    for part in bin sbin lib lib64; do ln -s "usr/$part" "$root/$part"; done
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$apt/list"
    : > "$apt/status"
    local options=(-qq -y -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    apt-get "${options[@]}" --no-install-recommends --download-only install "slurmctld=$2*" "slurmd=$2*" \
        "slurm-client=$2*" munge dash coreutils sed iproute2 > /dev/null 2>&1
    for deb in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share/doc/*'
    done
    rm -r "$apt"
    for part in slurmctld slurmd slurmstepd; do ln -sf "$part-wlm" "$root/usr/sbin/$part"; done
    ln -sf dash "$root/usr/bin/sh"
    echo root:x:0:0:root:/root:/bin/sh > "$root/etc/passwd"
    echo root:x:0: > "$root/etc/group"
    echo 127.0.0.1 localhost > "$root/etc/hosts"
    # An older one refuses this file, a newer one wants systemd without it.
    [ "$1" = bookworm ] || echo CgroupPlugin=disabled > "$root/slurm/cgroup.conf"
    cat > "$root/slurm/slurm.conf" <<'CONF'
ClusterName=c
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthInfo=socket=/slurm/munge
StateSaveLocation=/slurm/state
SlurmdSpoolDir=/slurm/spool
SlurmctldPidFile=/slurm/slurmctld.pid
SlurmdPidFile=/slurm/slurmd.pid
SlurmctldLogFile=/slurm/slurmctld.log
SlurmdLogFile=/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=node NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=node Default=YES MaxTime=60
CONF
}

# Runs the file `script` under a Slurm of one node, with processes, network and mounts of its own, which end with it.
run() { # SUITE
    cp "$dir/script" "$dir/$1/slurm/script"
    timeout 200 unshare --pid --fork --kill-child --net --mount --uts --ipc sh -ec '
        cd "$0"
        mount --rbind /dev dev
        mount -t proc proc proc
        mount --rbind /sys sys
        echo localhost > proc/sys/kernel/hostname
        exec env -i HOME=/root PATH=/usr/sbin:/usr/bin SLURM_CONF=/slurm/slurm.conf LC_ALL=C \
            chroot . sh /slurm/script' "$dir/$1" 2> "$dir/$1.err" || { cat "$dir/$1.err" >&2; exit 1; }
}

cat > "$dir/script" <<'SCRIPT'
set -e
ip link set lo up
# Names are found only where there is an address besides those of the loopback.
ip address add 192.0.2.1/32 dev lo
cd /slurm
mkdir state spool
head -c 1024 /dev/urandom > key
chmod 400 key
munged --force --key-file=/slurm/key --socket=/slurm/munge --pid-file=/slurm/munge.pid \
    --log-file=/slurm/munge.log --seed-file=/slurm/seed
slurmctld
slurmd -N node
until [ -n "$(sinfo -h -t idle -o %N)" ]; do sleep 0.2; done
submit() { sbatch --parsable -o /dev/null "$@"; }
await() { until [ "$(squeue -h -t all -j"$1" -o %T)" = "$2" ]; do sleep 0.2; done; }

# Submits with --wait; `job` is its number, `end` gives its exit code in `code`.
begin() {
    sbatch --wait --parsable -o /dev/null "$@" > number 2> error &
    waiter=$!
    until [ -s number ]; do sleep 0.1; done
    job=$(cat number)
    rm number
}
end() { wait $waiter && code=0 || code=$?; }
state() { scontrol show job "$job" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p; s/.*\(ExitCode=[0-9:]*\).*/\1/p' | paste -sd' '; }

begin --wrap 'exit 3'
failed=$job
end
echo "exits with 3: $code"
begin --wrap 'sleep 600'
await "$job" RUNNING
scancel "$job"
end
[ "$code" -eq 0 ] || code='not 0'
echo "cancelled while it runs: $code"
begin -H --wrap 'sleep 600'
await "$job" PENDING
scancel "$job"
end
echo "cancelled while it waits: $code, $(state)"
begin -d afterok:"$failed" --kill-on-invalid-dep=yes --wrap true
end
echo "afterok of one that failed: $code, $(state)"
begin -a 1-2%1 --wrap 'sleep 3'
await "${job}_1" RUNNING
scancel "${job}_2"
end
echo "one of two tasks cancelled while it waits: $code"
cat error
SCRIPT

expected='exits with 3: 3
cancelled while it runs: not 0
cancelled while it waits: 0, CANCELLED ExitCode=0:0
afterok of one that failed: 0, CANCELLED ExitCode=0:0
one of two tasks cancelled while it waits: 0'
unpack bookworm 22.05.8 &
unpack trixie 24.11.5
wait $!
for suite in bookworm trixie; do
    seen=$(run $suite)
    diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
done
echo "$seen"
