# Slurm's part of what is done at a site; see agent.sh. What a query could not find out is
# `unsent`: nothing was changed.

# Prints each line of $1 behind the word $2.
lines() {
    [ -z "$1" ] || printf '%s\n' "$1" | sed "s/^/$2 /"
}

lrm_describe() {
    config=$(limited scontrol show config 2>&1) || fail unsent "$config"
    lines "$(printf '%s\n' "$config" \
        | grep -E '^(ClusterName|SLURM_VERSION|KillWait|MinJobAge|ProctrackType|SelectTypeParameters) ')" config
    nodes=$(limited sinfo -e -h -o '%P|%D|%c|%m|%G|%f|%d' 2>&1) || fail unsent "$nodes"
    lines "$nodes" nodes
    # Slurm need not keep accounts, and whoever keeps them need not answer.
    lines "$(seconds=4 && limited sacctmgr -nP show assoc "user=$user" format=account,qos \
        2> /dev/null)" assoc
    lrm_load
}

# What the job under $tag is called in the queue, in $name.
named() {
    { read -r name < "spool/$tag/name"; } 2> /dev/null || name=$tag
}

# All of the account's jobs, or those under tag $1.
lrm_queue() {
    [ -z "${1-}" ] || named
    # Times as seconds since 1970; not for all commands, or jobs would get this variable too.
    queue=$(SLURM_TIME_FORMAT=%s timeout -k 2 "$seconds" squeue -h -t all -u "$user" ${1:+-n "$name"} \
        -o '%i|%T|%r|%C|%V|%S|%e|%Z|%j|%k' 2>&1) || fail unsent "$queue"
    lines "$queue" queue
}

# What the accounts keep of attempts $@ that are not in the queue any more, if anybody keeps any.
lrm_accounts() {
    names= first= last= week=604800
    for tag; do
        named
        names=$names${names:+,}$name
        # Looked for around their submission, whatever the clock of this machine says of now.
        at=$(find "spool/$tag/name" -printf '%T@' 2> /dev/null)
        at=${at%%.*}
        [ -n "$at" ] || continue
        [ -n "$first" ] && [ "$first" -le "$at" ] || first=$at
        [ -n "$last" ] && [ "$last" -ge "$at" ] || last=$at
    done
    [ -z "$first" ] || set -- -S "uts$((first - week))" -E "uts$((last + week))"
    [ -n "$first" ] || set -- -S now-7days
    kept=$(SLURM_TIME_FORMAT=%s timeout -k 2 8 sacct -n -P -X -u "$user" "$@" \
        --name="$names" -o JobIDRaw,State,NCPUS,Submit,Start,End,WorkDir,JobName 2>&1)
    code=$?
    case $code:$kept in
    0:*disabled*) printf 'unkept here\n' ;;
    0:*) lines "$kept" kept ;;
    *disabled* | 127:*) printf 'unkept here\n' ;;
    *) fail unsent "$kept" ;;
    esac
}

lrm_load() {
    load=$(limited sinfo -h -o '%P|%a|%C|%l|%L' 2>&1) || fail unsent "$load"
    lines "$load" load
    lrm_bookings "$@"
}

# Those that are not over, if directory, name and comment all say that they are ours.
lrm_jobs() {
    named
    queue=$(limited squeue -h -u "$user" -n "$name" -o '%i %T %Z|%j|%k' 2>&1) || {
        printf '%s\n' "$queue"
        return 1
    }
    printf '%s\n' "$queue" | while read -r number state whose; do
        [ "$whose" != "$root|$name|$tag" ] || printf '%s %s\n' "$number" "$state"
    done
}

# Never by the number alone: numbers are given out again. Fine if there is nothing to end; of what
# ended after scancel had looked it tells by its code alone (ESLURM_ALREADY_DONE, 2021 modulo 256).
by_name() {
    named
    said=$(limited scancel --name="$name" --user="$user" "$@" 2>&1) && return
    case $?:$said in
    229: | *'already completing'* | *'Invalid job id'* | *'not running'* | *'already completed'*) ;;
    *) fail unknown "$said" ;;
    esac
}

# TERM to the wrapper alone, so that it says how the payload ended. A job that waits, or whose
# processes are stopped, has nobody who could hear it.
lrm_end() {
    case $2 in
    RUNNING) by_name --batch --signal=TERM "$1" ;;
    COMPLETING) ;;
    *) by_name "$1" ;;
    esac
}

lrm_kill() {
    by_name "$1"
}

lrm_withdraw() {
    by_name --state=PENDING "$1"
}
