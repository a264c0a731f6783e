#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12) and 24.11.5 (Debian 13): slurmctld, slurmd, slurm-client; one node, on loopback.
#
# One would expect: --dependency=afterok:N starts a job only if N has ended well. If Slurm knows nothing of N (any
# more; it forgets a job when MinJobAge has passed since its end, by default 300 s), it can not say so, and refuses.
# What it does: 22.05 takes a job that it does not know for one that has done what is asked of it, whatever that is.
# A second step submitted soon after the first one failed never starts; submitted some minutes later, it
# starts on what is not there. The same holds for a mistyped number that no job ever had. afternotok:N, the clean-up
# for the other case, starts as well. 24.11 refuses afterok and afternotok, but not aftercorr, whose meaning is afterok
# task by task: it starts.
#
# Seen, of a job 1 that failed, and 999, which never was:
#                             22.05.8                          24.11.5
#   afterok:1, not forgotten  DependencyNeverSatisfied         DependencyNeverSatisfied
#   afterok:1, forgotten      runs                             refused: Job dependency problem
#   afternotok:1, forgotten   runs                             refused
#   aftercorr:1, forgotten    runs                             runs
#   afterok:999               runs                             refused
#   aftercorr:999             runs                             runs
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
MinJobAge=15
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

failed=$(submit --wrap 'exit 1')
await "$failed" FAILED
job=$(submit -d afterok:"$failed" --wrap true)
until [ "$(squeue -h -j"$job" -o %r)" = DependencyNeverSatisfied ]; do sleep 0.2; done
echo "afterok:$failed, not forgotten: never satisfied"
while scontrol show job "$failed" > /dev/null 2>&1; do sleep 1; done
for kind in afterok:"$failed" afternotok:"$failed" aftercorr:"$failed" afterok:999 aftercorr:999; do
    if job=$(submit -d $kind --wrap true 2> error); then
        # It ends well and is forgotten in its turn.
        while state=$(squeue -h -t all -j"$job" -o %T 2> /dev/null) && [ -n "$state" ] && [ "$state" != COMPLETED ]; do
            sleep 0.2
        done
        [ "$state" != COMPLETED ] || state=runs
    else
        state=$(sed 's/.*: /refused: /' error)
    fi
    echo "$kind: $state"
done
SCRIPT

early='afterok:1, not forgotten: never satisfied'
old="$early
afterok:1: runs
afternotok:1: runs
aftercorr:1: runs
afterok:999: runs
aftercorr:999: runs"
new="$early
afterok:1: refused: Job dependency problem
afternotok:1: refused: Job dependency problem
aftercorr:1: runs
afterok:999: refused: Job dependency problem
aftercorr:999: runs"
unpack bookworm 22.05.8 &
unpack trixie 24.11.5
wait $!
for suite in bookworm trixie; do
    seen=$(run $suite)
    [ $suite = bookworm ] && expected=$old || expected=$new
    diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
    echo "== $suite"
    echo "$seen"
done
