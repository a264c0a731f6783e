#!/usr/bin/env bash
# A promised start on a real Slurm, as a user has it: asked for, kept, and given back; and one that jobs
# share. Run as the ordinary user whose account may make reservations there.
#
#   promise.sh PROGRAM SLURM_CONF DIRECTORY PORT
#
# DIRECTORY is made, and left.
set -euo pipefail

program=$1 directory=$3
export SLURM_CONF=$2 COSPAN_CONFIG=$3/cospan.toml HOME=$3
mkdir "$directory"
cd "$directory"
cat > cospan.toml << END
[server]
data_directory = "$directory/data"
listen = ["127.0.0.1:$4"]
[[site]]
name = "there"
kind = "slurm"
root = "$directory/there"
slurm_conf = "$SLURM_CONF"
processors = 64
grants_reservations = true
END

cospan() {
    "$program" "$@"
}

fail() {
    echo "promise: $*" >&2
    cospan reservation list >&2 || true
    scontrol show reservation >&2 || true
    squeue >&2 || true
    exit 1
}

is_reserved() {
    [ "$(scontrol -o show reservation | grep -c '^ReservationName=')" -eq "$1" ]
}

# Whether jobs run on so many processors.
runs() {
    [ "$(squeue -h -t running -o %C | awk '{ sum += $1 } END { print sum + 0 }')" -eq "$1" ]
}

await() {
    local what=$1 tries=300
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$what: not within a minute"
        sleep 0.2
    done
}

# Somebody who knows nothing of all this wants the whole cluster for an hour.
greed() {
    sbatch --quiet -n "$1" -t 60 -o /dev/null --wrap 'sleep 600'
}

kept() {
    local began
    began=$(cospan logs "$1" | tail -n 1)
    echo "promised $promised, began $began"
    [ "$began" -ge "$promised" ] && [ "$began" -le $((promised + 10)) ] \
        || fail "it began at $began and not at $promised"
}

cospan serve --background
trap 'cospan stop > /dev/null; scancel --user "$(id -un)"' EXIT

echo "== a promise to one job"
promised=$(date -d '+20 seconds' +%s)
cospan submit --start "$(date -d "@$promised" '+%Y-%m-%d %H:%M:%S')" -n 40 --wall-time 1m -- date +%s
await "Slurm knows of it" is_reserved 1
greed 24
greed 40
cospan wait last || fail "the job did not succeed"
kept last
await "it is given back" is_reserved 0
await "the other gets what it had" runs 64
scancel --user "$(id -un)"
await "nothing runs" runs 0

echo "== a reservation that jobs share"
promised=$(date -d '+20 seconds' +%s)
cospan reservation create course --site there=64 --for 5m \
    --start "$(date -d "@$promised" '+%Y-%m-%d %H:%M:%S')"
await "Slurm knows of it" is_reserved 1
cospan submit --reservation course -n 32 --wall-time 1m -- sh -c 'date +%s; sleep 2'
cospan submit --reservation course -n 32 --wall-time 1m -- sh -c 'date +%s; sleep 2'
greed 1
cospan wait 2,3 || fail "a job in it did not succeed"
kept 2
kept 3
runs 0 || fail "somebody else got in"
cospan reservation cancel course
await "it is given back" is_reserved 0
await "the other gets what it had" runs 1
