#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12) and 24.11.5 (Debian 13): slurmctld, slurmd, slurm-client; one node, on loopback.
#
# One would expect: a number that no job can have is refused, as 2x is, and 4000000000, which no job has.
# Slurm's own numbers have 32 bits, those of others have more (Flux numbers its jobs with 64).
# What it does: all commands of both versions keep the low 32 bits and say nothing, so 2^32 + 1 is job 1. One
# looks at, changes, awaits and ends a job that was never meant, and the exit code is 0. squeue and scontrol
# show another number than was asked for, which a program that looks only at the state does not see.
#
# Seen, asked for 4294967297, by both versions:
#   squeue             prints 1
#   scontrol show job  prints JobId=1
#   sbatch -d afterok  awaits job 1
#   scontrol update    gives job 1 the comment
#   scontrol release   starts job 1
#   scancel            ends job 1, exit 0
#   (scontrol show job 4000000000: exit 1; scancel 2x: exit 1)
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

job=$(submit -H --wrap 'sleep 600')
long=$((4294967296 + job))
echo "squeue: $(squeue -h -j$long -o %i)"
echo "scontrol show job: $(scontrol show job $long -o | cut -d' ' -f1)"
later=$(submit -H -d afterok:$long --wrap true)
echo "sbatch -d afterok: $(squeue -h -j$later -o %E)"
scontrol update jobid=$long comment=here
echo "scontrol update: job $job has the comment $(squeue -h -j$job -o %k)"
scontrol release $long
await $job RUNNING
echo "scontrol release: job $job is RUNNING"
scancel $long && code=0 || code=$?
await $job CANCELLED
echo "scancel: job $job is CANCELLED, exit $code"
scontrol show job 4000000000 > /dev/null 2>&1 && code=0 || code=$?
echo "scontrol show job 4000000000: exit $code"
scancel 2x > /dev/null 2>&1 && code=0 || code=$?
echo "scancel 2x: exit $code"
SCRIPT

expected='squeue: 1
scontrol show job: JobId=1
sbatch -d afterok: afterok:1(unfulfilled)
scontrol update: job 1 has the comment here
scontrol release: job 1 is RUNNING
scancel: job 1 is CANCELLED, exit 0
scontrol show job 4000000000: exit 1
scancel 2x: exit 1'
unpack bookworm 22.05.8 &
unpack trixie 24.11.5
wait $!
for suite in bookworm trixie; do
    seen=$(run $suite)
    diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
done
echo "$seen"
