#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12) and 24.11.5 (Debian 13): slurmctld, slurmd, slurm-client; one node, on loopback.
#
# One would expect: squeue --jobs answers for each number alike, however many are asked for. A job that has ended
# and is forgotten is an error, or it is not listed.
# What it does: asked for one number that it does not know, it fails with "Invalid job id specified"; asked for two that
# it does not know, it prints nothing and exits with 0. The exit code 1 is also that of a controller that does not
# answer. A poller that was tried with several jobs and takes 1 for "Slurm is away, ask again" waits for ever for
# the last job of a list; one that was tried with one job and takes 1 for "gone" does so for all of a list too when
# the controller is away. Writing the one number twice gives the answer of two.
#
# Seen, by both versions, of numbers that no job has:
#   squeue -j900         exit 1, slurm_load_jobs error: Invalid job id specified
#   squeue -j900,901     (nothing), exit 0
#   squeue -j900,900     (nothing), exit 0
#   squeue -j900,1       job 1 only, exit 0
#   squeue -j1 without slurmctld: exit 1
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

job=$(submit -H --wrap true)
ask() {
    squeue -h -o %i -j"$1" > out 2> error && code=0 || code=$?
    echo "squeue -j$1: $(cat out error | paste -sd,), exit $code"
}
ask 900
ask 900,901
ask 900,900
ask 900,$job
scontrol shutdown slurmctld
# It takes its file away at its end.
while [ -e slurmctld.pid ]; do sleep 0.2; done
squeue -h -j$job > out 2> error && code=0 || code=$?
echo "without slurmctld: exit $code"
SCRIPT

expected='squeue -j900: slurm_load_jobs error: Invalid job id specified, exit 1
squeue -j900,901: , exit 0
squeue -j900,900: , exit 0
squeue -j900,1: 1, exit 0
without slurmctld: exit 1'
unpack bookworm 22.05.8 &
unpack trixie 24.11.5
wait $!
for suite in bookworm trixie; do
    seen=$(run $suite)
    diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
done
echo "$seen"
