#!/usr/bin/env bash
# bash 5.2.15 (Debian 12: bash 5.2.15-2+b*), next to dash 0.5.12: a script, as one for Slurm, has traps
# of its own for TERM and CONT and waits for its program by `wait`. Slurm ends a job by SIGCONT and
# SIGTERM, one right after the other.
#
# One would expect: the traps of both signals run, as POSIX says of signals that arrive during `wait`,
# and as dash does. Which number a signal has does not matter.
# What it does: of two signals that arrive together only the trap of the one with the higher number
# runs; the other signal is lost, and `wait` says nothing of it. CONT (18) swallows TERM (15), and the
# job is killed later without its clean-up; TERM swallows USR1 (10), the sign to write a checkpoint.
# With --posix it is the same.
#
# Seen, of 20 rounds each, in how many the trap of the lower number did not run (URG, 23, stands for CONT,
# which here has the script go on):
#   dash          TERM with URG   0   USR1 with TERM   0
#   bash          TERM with URG  20   USR1 with TERM  20
#   bash --posix  TERM with URG  20   USR1 with TERM  20
set -euo pipefail
apt-get update -qq >/dev/null
apt-get install -qq -y --no-install-recommends 'bash=5.2.15-2*' 'dash=0.5.12-2*' >/dev/null 2>&1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cat > "$place/job.sh" <<'JOB'
trap 'echo lower >> "$said"' "$lower"
trap 'echo higher >> "$said"' "$higher"
sleep 0.4 &
echo ready >> "$said"
wait "$!"
wait
JOB

# In how many of 20 rounds the lower signal's trap did not run: lost SHELL LOWER HIGHER
lost() {
    local shell=$1 round pid count=0
    export lower=$2 higher=$3
    for round in $(seq 20); do
        export said=$place/$round
        : > "$said"
        $shell "$place/job.sh" &
        pid=$!
        until grep -q ready "$said"; do sleep 0.01; done
        sleep 0.05
        # Stopped meanwhile, it gets both at the same moment.
        kill -STOP "$pid"
        kill "-$lower" "$pid"
        kill "-$higher" "$pid"
        kill -CONT "$pid"
        wait "$pid" || true
        grep -q higher "$said" || { echo 'the trap of the higher number did not run' >&2; exit 1; }
        grep -q lower "$said" || count=$((count + 1))
    done
    echo "$count"
}

code=0
for shell in dash bash 'bash --posix'; do
    for pair in 'TERM URG' 'USR1 TERM'; do
        count=$(lost "$shell" $pair)
        echo "$shell: $pair: the first was lost in $count of 20"
        case $shell in
        dash) [ "$count" -eq 0 ] || code=1 ;;
        *) [ "$count" -ge 10 ] || code=1 ;;
        esac
    done
done
[ "$code" -eq 0 ] || { echo 'It behaves otherwise now.' >&2; exit 1; }
