#!/usr/bin/env bash
# A small cluster under Slurm on this machine's loopback, for tests: its own munge key, ports,
# directories and users' jobs; nothing of the installation's own Slurm is touched. Debian, as root.
#
#   slurm.sh free                       fail if other people's Slurm or munge runs here
#   slurm.sh up NAME PROCESSORS PORT [pair|granting]
#                                       start what of it does not run; PORT and the next two are its
#                                       own. With `pair` a small second node is in a partition `pair`
#                                       together with the first; with `granting` the user that tests
#                                       run as is Slurm's own, and may make reservations
#   slurm.sh conf NAME                  print the path of its slurm.conf, for SLURM_CONF
#   slurm.sh kill NAME                  kill its slurmctld with SIGKILL; `up` starts it again
#   slurm.sh obey NAME DIRECTORY        do to its slurmctld what a file `order` in a directory says
#                                       (kill, freeze, thaw, up; renumber: up, with numbers of jobs
#                                       that it never gave out) or to a job of it (suspend N,
#                                       resume N), remove the file, and look again; once it was killed,
#                                       put nodes that Slurm drained for it back into service
#   slurm.sh down NAME                  end its jobs and daemons, and remove what it left (`ssh`: the
#                                       SSH server)
#   slurm.sh user                       print the ordinary user that tests run as; made if missing
#   slurm.sh ssh PORT                   an SSH server on loopback for that user, who can log in by
#                                       `ssh -F CONFIG testbed`; prints the path of that CONFIG
#   slurm.sh remove                     end all of them, and remove everything that was made or
#                                       installed for them, the user too
#
# COSPAN_TESTBED is where everything lies (default /var/tmp/cospan-testbed).
set -euo pipefail

base=${COSPAN_TESTBED:-/var/tmp/cospan-testbed}
user=cospan-test
address=127.0.0.1

fail() {
    echo "testbed: $*" >&2
    exit 1
}

packages() {
    local missing=()
    for package in "$@"; do
        dpkg -s "$package" > /dev/null 2>&1 || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get > /dev/null || fail "missing: ${missing[*]}, and there is no apt-get: this is for Debian"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update > /dev/null || fail "apt-get update failed"
    # The services that come along are not to be started.
    local policy=/usr/sbin/policy-rc.d ours=
    [ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy" && ours=1; }
    printf '%s\n' "${missing[@]}" >> "$base/installed"
    local code=0
    apt-get -qq install --no-install-recommends "${missing[@]}" > /dev/null || code=$?
    [ -z "$ours" ] || rm "$policy"
    [ "$code" -eq 0 ] || fail "apt-get could not install ${missing[*]}"
}

# Ours are those whose numbers are below the base. Those with a network of their own are in nobody's way.
is_free() {
    local daemon number
    for daemon in munged slurmctld slurmd; do
        for number in $(pgrep -x --ns $$ --nslist net "$daemon" || true); do
            grep -qsx "$number" "$base"/*/run/"$daemon"*.pid \
                || fail "$daemon runs here already (process $number), and is not ours: use another machine"
        done
    done
}

# Runs a daemon in the background and remembers its number; what it prints goes to a log.
daemon() {
    local name=$1
    shift
    setsid "$@" > "$home/log/$name.out" 2>&1 < /dev/null &
    echo $! > "$home/run/$name.pid"
}

is_up() {
    [ -s "$home/run/$1.pid" ] && kill -0 "$(cat "$home/run/$1.pid")" 2> /dev/null
}

await() {
    local what=$1 tries=300
    shift
    until "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$what does not come up; see $home/log"
        sleep 0.1
    done
}

configuration() {
    cat << END
ClusterName=$name
SlurmctldHost=localhost($address)
SlurmctldPort=$port
SlurmUser=$owner
AuthType=auth/munge
AuthInfo=socket=$home/munge/socket
CredType=cred/munge
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool/%n
SlurmctldPidFile=$home/run/slurmctld.own
SlurmdPidFile=$home/run/slurmd.%n.own
SlurmctldLogFile=$home/log/slurmctld.log
SlurmdLogFile=$home/log/slurmd.%n.log
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
DebugFlags=NO_CONF_HASH
FirstJobId=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,bf_resolution=1,bf_continue
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobSubmitPlugins=lua
KillWait=5
NodeName=${name}0 NodeHostname=localhost NodeAddr=$address Port=$((port + 1)) CPUs=$processors RealMemory=64000 State=UNKNOWN
PartitionName=normal Nodes=${name}0 Default=YES MaxTime=1-0 DefaultTime=60 PriorityTier=10 State=UP
PartitionName=urgent Nodes=${name}0 MaxTime=1-0 DefaultTime=10 PriorityTier=100 PreemptMode=OFF State=UP
END
    [ -z "$pair" ] || cat << END
NodeName=${name}1 NodeHostname=localhost NodeAddr=$address Port=$((port + 2)) CPUs=4 RealMemory=64000 State=UNKNOWN
PartitionName=pair Nodes=${name}0,${name}1 MaxTime=1-0 DefaultTime=10 PriorityTier=10 State=UP
END
}

# What sites have to check submissions: it writes into their comments, and refuses jobs of 13
# processors without a reason.
submission_check() {
    cat << 'END'
function slurm_job_submit(job, partitions, user)
    if job.min_cpus == 13 then
        return slurm.ERROR
    end
    job.comment = (job.comment or "") .. " checked"
    return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
    return slurm.SUCCESS
end
END
}

up() {
    packages slurmctld slurmd slurm-client munge
    export SLURM_CONF=$home/slurm.conf
    mkdir -p "$home"/{munge,state,spool,log,run}
    configuration > "$SLURM_CONF"
    submission_check > "$home/job_submit.lua"
    ! needs_no_cgroups || echo CgroupPlugin=disabled > "$home/cgroup.conf"
    [ -s "$home/munge/key" ] || head -c 1024 /dev/urandom > "$home/munge/key"
    chown -R munge: "$home/munge"
    chmod 400 "$home/munge/key"
    chown "$owner:" "$home/state" "$home/log" "$home/run"
    is_up munged || daemon munged setpriv --reuid=munge --regid=munge --clear-groups \
        munged --foreground --force \
        --key-file="$home/munge/key" --socket="$home/munge/socket" \
        --pid-file="$home/munge/pid" --log-file="$home/munge/log" --seed-file="$home/munge/seed"
    await munged munge -S "$home/munge/socket" -n
    start_controller
    is_up slurmd || daemon slurmd slurmd -D -N "${name}0"
    [ -z "$pair" ] || is_up slurmd1 || daemon slurmd1 slurmd -D -N "${name}1"
    await "the node" sh -c "sinfo -h -p normal -t idle,mixed,allocated -o %N | grep -q ."
    [ -z "$pair" ] || await "the second node" sh -c \
        "sinfo -h -n ${name}1 -t idle,mixed,allocated -o %N | grep -q ."
}

# An older slurmd needs no groups for processes that are tracked by their parents. A newer one takes
# those of the machine unless it is told not to, and needs systemd for them.
needs_no_cgroups() {
    dpkg --compare-versions "$(dpkg-query -W -f='${Version}' slurmd)" ge 23.11
}

owner_of() {
    sed -n 's/^SlurmUser=//p' "$home/slurm.conf"
}

start_controller() {
    is_up slurmctld || daemon slurmctld setpriv --reuid="$(owner_of)" --regid="$(owner_of)" --clear-groups slurmctld -D
    await slurmctld timeout 1 scontrol ping
}

down() {
    if [ -e "$home/slurm.conf" ]; then
        export SLURM_CONF=$home/slurm.conf
        timeout 2 scontrol ping > /dev/null 2>&1 && scancel --user="$user" && sleep 1
    fi
    local numbers=()
    for daemon in sshd slurmd slurmd1 slurmctld munged; do
        if is_up "$daemon"; then numbers+=("$(cat "$home/run/$daemon.pid")"); fi
    done
    [ ${#numbers[@]} -eq 0 ] || end "${numbers[@]}"
    # Connections outlive their server.
    [ "$name" != ssh ] || pkill -KILL -u "$user" '^sshd' || true
    rm -rf "$home"
}

# Ends processes, and returns when they are gone: whoever comes next takes them for another's.
end() {
    local tries=100
    kill "$@" 2> /dev/null || true
    while kill -0 "$@" 2> /dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || kill -KILL "$@" 2> /dev/null || true
        [ "$tries" -gt -100 ] || fail "processes do not end: $*"
        sleep 0.1
    done
}

# The user of the tests may not touch the controller, and may write there.
obey() {
    local directory=$1 order= killed= turns=0
    export SLURM_CONF=$home/slurm.conf
    while [ -d "$directory" ]; do
        turns=$((turns + 1))
        [ -z "$killed" ] || [ $((turns % 20)) -ne 0 ] || put_into_service
        if read -r order 2> /dev/null < "$directory/order" || [ -n "${order:-}" ]; then
            case $order in
                kill) kill_controller && killed=1 ;;
                freeze) kill -STOP "$(cat "$home/run/slurmctld.pid")" ;;
                thaw) kill -CONT "$(cat "$home/run/slurmctld.pid")" ;;
                up) start_controller ;;
                renumber) renumber ;;
                suspend\ * | resume\ *) scontrol ${order% *} "${order#* }" ;;
                *) fail "an order $order is not known" ;;
            esac
            order=
            rm "$directory/order"
        fi
        sleep 0.05
    done
}

# Slurm drains a node if a number that it gave out twice meets itself there.
put_into_service() {
    if timeout 2 sinfo -h -t drain -o %N 2> /dev/null | grep -q .; then
        timeout 2 scontrol update nodename="${name}0" state=resume || true
    fi
}

# Slurm cancels a job if its node remembers another one of that number, which a killed controller
# gave out and forgot.
renumber() {
    local first
    first=$(sed -n 's/^FirstJobId=//p' "$SLURM_CONF")
    kill -CONT "$(cat "$home/run/slurmctld.pid")" 2> /dev/null || true
    ! is_up slurmctld || end "$(cat "$home/run/slurmctld.pid")"
    sed -i "s/^FirstJobId=.*/FirstJobId=$((first + 1000))/" "$SLURM_CONF"
    start_controller
}

kill_controller() {
    kill -KILL "$(cat "$home/run/slurmctld.pid")" && rm "$home/run/slurmctld.pid"
}

# What is left of all clusters, and what was installed for them.
remove() {
    local directory
    for directory in "$base"/*/run; do
        [ -d "$directory" ] || continue
        home=${directory%/run} name=$(basename "${directory%/run}")
        down
    done
    if [ -s "$base/installed" ]; then
        DEBIAN_FRONTEND=noninteractive xargs apt-get -qq purge --autoremove < "$base/installed" > /dev/null
    fi
    [ ! -e "$base/user" ] || userdel --remove "$user" 2> /dev/null || true
    rm -rf "$base"
}

need_user() {
    id "$user" > /dev/null 2>&1 && return 0
    useradd --create-home --shell /bin/bash --password '*' "$user"
    : > "$base/user"
}

# Keys of its own: nobody else's configuration is read or written.
serve_ssh() {
    packages openssh-server openssh-client
    need_user
    home=$base/ssh
    mkdir -p "$home"/{log,run} /run/sshd
    for key in host client; do
        [ -e "$home/$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$home/$key"
    done
    install -m 644 "$home/client.pub" "$home/authorized"
    chown "$user": "$home/client"
    printf '[%s]:%s %s\n' "$address" "$port" "$(cut -d' ' -f1,2 "$home/host.pub")" > "$home/known"
    cat > "$home/config" << END
Host testbed
    HostName $address
    Port $port
    User $user
    IdentityFile $home/client
    IdentitiesOnly yes
    UserKnownHostsFile $home/known
END
    if ! is_up sshd; then
        daemon sshd "$(command -v sshd)" -D -e -f /dev/null -p "$port" \
            -o ListenAddress=$address -o HostKey="$home/host" -o AuthorizedKeysFile="$home/authorized" \
            -o PasswordAuthentication=no -o StrictModes=no -o UsePAM=no -o PidFile=none
    fi
    await sshd setpriv --reuid="$user" --regid="$user" --clear-groups \
        ssh -F "$home/config" -o BatchMode=yes testbed true
    echo "$home/config"
}

[ "$(id -u)" -eq 0 ] || fail "run it as root: it starts daemons under users of their own"
mkdir -p "$base"
chmod 755 "$base"
command=${1:-}
case $command in
    up)
        name=${2:?NAME} processors=${3:?PROCESSORS} port=${4:?PORT} pair=${5:-} owner=slurm
        [ "$pair" != granting ] || { owner=$user && pair=; }
        ;;
    conf | kill | down) name=${2:?NAME} ;;
    obey) name=${2:?NAME} directory=${3:?DIRECTORY} ;;
    ssh) port=${2:?PORT} ;;
    free | user | remove) ;;
    *) fail "free, up, conf, kill, obey, down, user, ssh or remove? The beginning of $0 says more" ;;
esac
home=$base/${name:-}
case $command in
    free) is_free ;;
    up) need_user && up ;;
    conf) echo "$home/slurm.conf" ;;
    kill) kill_controller ;;
    obey) obey "$directory" ;;
    down) down ;;
    remove) remove ;;
    ssh) serve_ssh ;;
    user) need_user && echo "$user" ;;
esac
