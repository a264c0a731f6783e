# Puts a batch script beside its work directory and becomes it. POSIX shell.
#
# usage: sh -c TEXT NAME SCRIPT WORD... -- ARGUMENT...
#
# Words: `login`: with what the account gets when it logs in; `cd=DIRECTORY`; `output=PATTERN`
# and `error=PATTERN`: files at the site, kept as they are with `append`; else NAME=VALUE, as Slurm
# would set it: it does not count under Slurm, which sets such variables itself.

fail() {
    printf 'cospan: %s: %s\n' "$name" "$1" >&2
    exit 1
}

# What every account has, as far as it is missing.
account() {
    me=$(id -un) host=$(uname -n)
    IFS=: read -r _ _ _ _ _ home shell << END
$(getent passwd "$(id -u)" 2> /dev/null)
END
    export PATH="${PATH-/usr/local/bin:/usr/bin:/bin}"
    export USER="${USER-$me}" LOGNAME="${LOGNAME-$me}"
    export HOME="${HOME-${home:-/}}" SHELL="${SHELL-${shell:-/bin/sh}}"
}

# The number of the array. Where Slurm has numbers of its own it is none that Slurm ever gives a job:
# `scancel` of it must not end another's.
array() {
    group=$COSPAN_GROUP
    [ -z "${SLURM_JOB_ID-}" ] || group=$((4230000000 + group % 60000000))
    export SLURM_ARRAY_JOB_ID="$group"
}

# What Slurm tells a job, as far as it has not.
job() {
    [ -z "${COSPAN_GROUP-}" ] || array
    export SLURM_JOB_ID="${SLURM_JOB_ID-$COSPAN_JOB}"
    export SLURM_JOBID="$SLURM_JOB_ID" SLURM_SUBMIT_DIR="$PWD"
    export SLURMD_NODENAME="${SLURMD_NODENAME-$host}"
    export SLURM_JOB_NODELIST="${SLURM_JOB_NODELIST-$host}"
    export SLURM_NODELIST="$SLURM_JOB_NODELIST"
    export SLURM_JOB_USER="${SLURM_JOB_USER-$me}" SLURM_JOB_UID="${SLURM_JOB_UID-$(id -u)}"
}

# Adds number $1 to $file, with zeros in front of it up to $width digits; Slurm takes ten at most.
padded() {
    number=$1
    [ "${#width}" -le 1 ] || width=10
    while [ "${#number}" -lt "${width:-0}" ]; do number=0$number; done
    file=$file$number
}

# The file that the pattern $1 names, in $file.
named() {
    rest=$1 file=
    while [ "$rest" != "${rest#*%}" ]; do
        file=$file${rest%%\%*}
        rest=${rest#*%}
        width=${rest%%[!0-9]*}
        rest=${rest#"$width"}
        letter=${rest%"${rest#?}"}
        rest=${rest#?}
        case $letter in
        A) padded "${SLURM_ARRAY_JOB_ID-$SLURM_JOB_ID}" ;;
        a) padded "${SLURM_ARRAY_TASK_ID-4294967294}" ;;
        b) padded "$((${SLURM_ARRAY_TASK_ID-4294967294} % 10))" ;;
        j | J) padded "$SLURM_JOB_ID" ;;
        N) file=$file${SLURMD_NODENAME%%.*} ;;
        n | s | t) padded 0 ;;
        u) file=$file$USER ;;
        x) file=$file$SLURM_JOB_NAME ;;
        *) file=$file$letter ;;
        esac
    done
    file=$file$rest
}

# Makes the file $1, or empties it.
opened() {
    if [ -n "$append" ]; then printf '' >> "$1"; else printf '' > "$1"; fi \
        || fail "$1 cannot be written"
}

# Standard output and standard error go where the script says; what is printed here tells where.
streams() {
    named "$output"
    out=$file
    named "$error"
    err=$file
    [ -z "$out" ] || printf 'cospan: output goes to %s\n' "$out"
    [ -z "$err" ] || printf 'cospan: errors go to %s\n' "$err"
    [ -z "$out" ] || opened "$out"
    [ -z "$err" ] || [ "$err" = "$out" ] || opened "$err"
    [ -z "$out" ] || exec >> "$out"
    [ -z "$out" ] || [ -n "$err" ] || exec 2>&1
    [ -z "$err" ] || exec 2>> "$err"
}

# A script that puts its own job back into the queue asks for another run: nothing else of this one
# goes on, and Slurm, which knows one attempt of several, is not asked.
stand_in='#!/bin/sh
command=${0##*/} here=${0%/*}
case $1 in
requeue | requeuehold)
    case ",${2#jobid=}," in
    ",$SLURM_JOB_ID," | ",${SLURM_ARRAY_JOB_ID-?}," | ",${SLURM_ARRAY_JOB_ID-?}_${SLURM_ARRAY_TASK_ID-?},")
        : > "$COSPAN_ATTEMPT_DIR/requeued" && kill -s TERM 0
        exit
        ;;
    esac
    ;;
esac
IFS=:
for directory in $PATH; do
    [ "$directory" = "$here" ] || [ ! -x "$directory/$command" ] || exec "$directory/$command" "$@"
done
printf "%s: not found\n" "$command" >&2
exit 127'

# Puts it first on the path; start files of the script set another path, but leave functions of Bash.
stand_in_function='BASH_FUNC_scontrol%%=() { "$COSPAN_ATTEMPT_DIR/program/bin/scontrol" "$@"; }'

name=$0 folder=$COSPAN_ATTEMPT_DIR/program
script=$folder/$name
{ [ -d "$folder/bin" ] || mkdir -p "$folder/bin"; } && printf %s "$1" > "$script" \
    && printf %s "$stand_in" > "$folder/bin/scontrol" && chmod u+rx "$script" "$folder/bin/scontrol" \
    || fail "it cannot be put into $folder"
shift
login= append= output= error=
account
while [ "$1" != -- ]; do
    case $1 in
    login) login=1 ;;
    append) append=1 ;;
    cd=*) cd "${1#*=}" || fail "${1#*=} cannot be entered" ;;
    output=*) output=${1#*=} ;;
    error=*) error=${1#*=} ;;
    *) [ -n "${SLURM_JOB_ID-}" ] || export "$1" ;;
    esac
    shift
done
shift
job
streams
if [ -n "$login" ] && command -v bash > /dev/null; then
    # Start files can end the shell, or become another program: then the script was not started.
    unstarted=$COSPAN_ATTEMPT_DIR/unstarted
    printf '' > "$unstarted" || fail "$unstarted cannot be written"
    # What start files print belongs to nobody.
    exec bash -l -c 'rm -f "$COSPAN_ATTEMPT_DIR/unstarted" && cd "$1" && shift &&
        exec env PATH="$COSPAN_ATTEMPT_DIR/program/bin:$PATH" "$@" >&3 2>&4 3>&- 4>&-' "$name" "$PWD" \
        "$stand_in_function" "$script" "$@" 3>&1 4>&2 > /dev/null 2>&1
fi
exec env PATH="$folder/bin:$PATH" "$stand_in_function" "$script" "$@"
