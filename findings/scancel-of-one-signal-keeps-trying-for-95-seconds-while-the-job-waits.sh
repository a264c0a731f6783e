#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12): slurmctld, slurmd, slurm-client; one node, on loopback. 24.11.5 (Debian 13) does the same.
#
# One would expect: scancel --signal=USR1 of a job that has not started is refused at once, for there is no process to
# get it, or does nothing. It is a command to send one signal, now.
# What it does: it tries again, for a minute and a half, in silence, and fails then. If the job starts meanwhile,
# it gets the signal, seconds after the command was given: the sign to write a checkpoint or to stop comes to one
# that has just begun. A program that signals its jobs one by one stands still for 95 s at each one that waits.
# With --state=RUNNING it ends at once, with exit code 0.
#
# Seen:
#   a held job                               95 s, Job can not be altered now, try again later, exit 228
#   held, released 6 s after the command     11 s, exit 0, and (nearly always) the job got USR1
#   running                                  0 s, exit 0
#   held, with --state=RUNNING               0 s, exit 0
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

send() { # NAME SCANCEL-ARGUMENT...
    local name=$1 begin=$(date +%s) code=0 seconds
    shift
    scancel -b -s USR1 "$@" 2> error.$name || code=$?
    seconds=$(($(date +%s) - begin))
    if [ $seconds -ge 60 ]; then seconds='over a minute'
    elif [ $seconds -ge 4 ]; then seconds='some seconds'
    else seconds='at once'; fi
    [ $code -eq 0 ] || code='not 0'
    echo "$name: $seconds, exit $code $(sed 's/.*: /(/; s/$/)/' error.$name)" > said.$name
}
cat > job <<'JOB'
#!/bin/sh
trap 'touch /slurm/came' USR1
sleep 600 &
while :; do wait; done
JOB
held=$(submit -H job)
late=$(submit -H job)
send held "$held" &
first=$!
(sleep 6; scontrol release "$late") &
send late "$late"
for try in 1 2 3 4 5 6 7 8 9 10; do [ -e came ] || sleep 0.5; done
# It has no trap yet if it comes in the moment of its start.
if [ -e came ]; then echo 'and it got the signal'; else echo 'and it did not get the signal'; fi >> said.late
send running "$late"
send state --state=RUNNING "$held"
wait $first
echo "$(squeue -h -j"$held" -o %T)" >> said.held
cat said.held said.late said.running said.state
SCRIPT

expected='held: over a minute, exit not 0 (Job can not be altered now, try again later)
PENDING
late: some seconds, exit 0 
running: at once, exit 0 
state: at once, exit 0 '
unpack bookworm 22.05.8
seen=$(run bookworm)
diff <(echo "$expected") <(echo "$seen" | sed '/^and it/d') || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
