#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12) and 24.11.5 (Debian 13): slurmctld, slurmd, slurm-client; one node, on loopback.
#
# One would expect: what squeue prints as the number of a job is what squeue --jobs takes. The tasks of an
# array that have not started are one line, 1_[1-3%1]; scancel takes 1_[2-3].
# What it does: squeue --jobs takes whatever is no digit after the underscore for 0, in both versions. It
# answers for task 0: that tasks 1 to 3, which wait, are running. If the array has no task 0, it
# prints nothing and exits with 0, which is what a job that has ended looks like. One who polls the
# numbers of a first squeue takes waiting tasks for running or ended ones.
#
# Seen, of the arrays 0-3%1, whose task 0 runs, and 1-3, which is held:
#   squeue                   1_0 RUNNING, 1_[1-3%1] PENDING, 2_[1-3] PENDING
#   squeue -j'1_[1-3%1]'     1_0 RUNNING, exit 0
#   squeue -j'2_[1-3]'       (nothing), exit 0
#   scancel '1_[2-3]' '2_[1-2]' leaves 1_0, 1_1 and 2_3, as it should
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

one=$(submit -a 0-3%1 --wrap 'sleep 600')
two=$(submit -H -a 1-3 --wrap true)
await ${one}_0 RUNNING
until [ "$(squeue -h -t R -o %i)" = ${one}_0 ]; do sleep 0.2; done
list() { squeue -h -S i -o '%i %T' "$@" | paste -sd,; }
echo "all: $(list)"
for asked in $(squeue -h -t PD -S i -o %i); do
    squeue -h -j"$asked" > /dev/null && code=0 || code=$?
    echo "$asked: $(list -j"$asked"), exit $code"
done
scancel "${one}_[2-3]" "${two}_[1-2]"
echo "after scancel: $(list)"
SCRIPT

expected='all: 1_0 RUNNING,1_[1-3%1] PENDING,2_[1-3] PENDING
1_[1-3%1]: 1_0 RUNNING, exit 0
2_[1-3]: , exit 0
after scancel: 1_0 RUNNING,1_[1%1] PENDING,2_[3] PENDING'
unpack bookworm 22.05.8 &
unpack trixie 24.11.5
wait $!
for suite in bookworm trixie; do
    seen=$(run $suite)
    diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
done
echo "$seen"
