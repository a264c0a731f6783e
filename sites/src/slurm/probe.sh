# Finds out what there is at a cluster, and changes nothing but for `trial`. POSIX shell.
#
# usage: sh -c TEXT script ROOT SITE SECONDS VERB NONCE [OPTION]...     options of sbatch
#
# Each line of the answer begins with a word that tells what it is about; `done` is the last.

# Prints what $2... says, a line each, behind the word $1; behind $1_failed if it failed.
tell() {
    word=$1
    shift
    said=$(limited "$@" 2>&1) || word=${word}_failed
    lines "$said" "$word"
    [ -n "$said" ] || [ "$word" = "${word%_failed}" ] || printf '%s no answer\n' "$word"
}

probe() {
    printf 'account %s\nhost %s\n' "$(id -un)" "$(uname -n)"
    [ -z "$unset" ] || printf 'unset%s\n' "$unset"
    [ -z "${TMPDIR-}" ] || { [ -d "$TMPDIR" ] && [ -w "$TMPDIR" ]; } || printf 'tmpdir %s\n' "$TMPDIR"
    for tool in sbatch squeue scancel sinfo scontrol head find timeout mkfifo mktemp; do
        command -v "$tool" > /dev/null 2>&1 || printf 'missing %s\n' "$tool"
    done
    command -v sha256sum > /dev/null 2>&1 || printf 'lacks sha256sum\n'
    # Some of them try for a minute.
    seconds=8
    tell version sbatch --version
    tell partition sinfo -h -o '%P|%a|%l|%C|%D|%m|%G|%d'
    shift
    # What the first could not find out the others cannot either.
    [ "$word" != partition ] || more "$@"
    directory
}

more() {
    lines "$(limited scontrol show config 2>&1 | grep -E '^(ClusterName|KillWait|ProctrackType|SlurmUser) ')" config
    lines "$(limited sinfo -h -R -o '%N: %E' 2> /dev/null)" drained
    tell submission sbatch --test-only -n 1 -t 1 --wrap true "$@"
    tell level sacctmgr -nP show user "name=$(id -un)" format=adminlevel
    tell limits sacctmgr -nP show assoc "user=$(id -un)" \
        format=account,partition,qos,maxjobs,maxsubmit,maxwall,grptres
}

directory() {
    printf 'root %s\n' "$root"
    at=$root
    while [ ! -d "$at" ]; do at=$(dirname "$at"); done
    [ "$at" = "$root" ] && printf 'root_is there\n' || printf 'root_is missing\n'
    [ -w "$at" ] || printf 'root_is unwritable\n'
    [ ! -e "$root/site-id" ] || printf 'site_id %s\n' "$(head -n 1 "$root/site-id")"
    printf 'file_system %s\n' "$(stat -f -c %T "$at" 2> /dev/null)"
    printf 'free_kb %s\n' "$(df -Pk "$at" 2> /dev/null | awk 'NR == 2 { print $4 }')"
}

# What the job of a trial does on its node: it writes file $1 in the root, whole, with what it sees.
# What start files there set, scripts get.
# shellcheck disable=SC2016
trial_job='cd "$SLURM_SUBMIT_DIR" && printf "seen_by %s\n" "$(uname -n)" > "$1.new" || exit
printf "#!/bin/sh\n" > "$1.run" && chmod u+x "$1.run"
"./$1.run" || printf "noexec yes\n" >> "$1.new"
temporary=$(bash -l -c env 2> /dev/null < /dev/null | sed -n "s/^TMPDIR=//p")
[ -z "$temporary" ] || { [ -d "$temporary" ] && [ -w "$temporary" ]; } \
    || printf "node_tmpdir %s\n" "$temporary" >> "$1.new"
mv "$1.new" "$1"'

# A job of one processor says what it sees: a file in the root, or none.
trial() {
    name=cospan-check-$1
    file=check-$1
    shift
    cd "$root" 2> /dev/null || fail refused "$root cannot be entered"
    said=$(limited sbatch --parsable --export=NIL -J "$name" -n 1 -t 1 -o /dev/null "$@" \
        --wrap "set -- $file; $trial_job" 2>&1) || fail refused "$said"
    state=PENDING tries=20
    while [ ! -s "$file" ] && [ "$tries" -gt 0 ]; do
        sleep 1
        tries=$((tries - 1))
        state=$(limited squeue -h -t all -u "$(id -un)" -n "$name" -o '%T (%r)' 2>&1)
        case $state in
        PENDING* | CONFIGURING* | RUNNING* | COMPLETING*) ;;
        *) [ "$tries" -le 5 ] || tries=5 ;;
        esac
    done
    if [ -s "$file" ]; then
        cat "$file"
    else
        printf 'unseen %s\n' "$state"
        limited scancel --name="$name" --user="$(id -un)" 2> /dev/null
    fi
    rm -f "$file" "$file.new" "$file.run"
}

main() {
    set -f
    export LC_ALL=C
    nl='
'
    root=$1 site=$2 seconds=$3 verb=$4
    shift 4
    # Without links on the way, as a root must be named.
    [ -n "$root" ] || root=$(cd "$HOME" 2> /dev/null && pwd -P || printf '%s' "$HOME")/cospan-$site
    case $verb in
    probe) probe "$@" ;;
    clock) printf 'clock %s\n' "$(date +%s.%N)" ;;
    trial) trial "$@" ;;
    esac
    printf 'done\n'
}

main "$@"
