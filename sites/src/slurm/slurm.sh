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
    lines "$(limited sinfo -h -R -o '%N: %E' 2> /dev/null)" drained
    # Slurm need not keep accounts, and whoever keeps them need not answer.
    lines "$(seconds=4 && limited sacctmgr -nP show assoc "user=$user" format=account,qos \
        2> /dev/null)" assoc
    lrm_load
}

# What the job under $tag is called in the queue, in $name.
named() {
    { read -r name < "spool/$tag/name"; } 2> /dev/null || name=$tag
}

# All of the account's jobs; with `runs` also Slurm's names of their runs.
lrm_queue() {
    run=
    [ "${1-}" != runs ] || run=,%s
    # Times as seconds since 1970; not for all commands, or jobs would get this variable too.
    queue=$(SLURM_TIME_FORMAT=%s timeout -k 2 "$seconds" squeue -h -t all -u "$user" \
        -o "%i$run|%T|%r|%C|%V|%S|%e|%Z|%j|%k" 2>&1) || fail unsent "$queue"
    lines "$queue" queue
}

# What the accounts keep of attempts $@ that are not in the queue any more, if anybody keeps any. Those
# whose numbers are known may have other names by now.
lrm_accounts() {
    names= numbers= first= last= week=604800
    for tag; do
        numbered
        if [ -n "$number" ]; then
            numbers=$numbers${numbers:+,}$number
        else
            named
            names=$names${names:+,}$name
        fi
        # Looked for around their submission, whatever the clock of this machine says of now.
        at=$(find "spool/$tag/name" -printf '%T@' 2> /dev/null)
        at=${at%%.*}
        [ -n "$at" ] || continue
        [ -n "$first" ] && [ "$first" -le "$at" ] || first=$at
        [ -n "$last" ] && [ "$last" -ge "$at" ] || last=$at
    done
    [ -z "$first" ] || set -- -S "uts$((first - week))" -E "uts$((last + week))"
    [ -n "$first" ] || set -- -S now-7days
    # A number may have been given out twice.
    [ -z "$numbers" ] || lrm_kept "$@" --duplicates --jobs="$numbers"
    [ -z "$names" ] || lrm_kept "$@" --name="$names"
}

lrm_kept() {
    kept=$(SLURM_TIME_FORMAT=%s timeout -k 2 8 sacct -n -P -X -u "$user" "$@" \
        -o JobIDRaw,State,NCPUS,Submit,Start,End,ElapsedRaw,TimelimitRaw,WorkDir,JobName 2>&1)
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

# Those that are not over and are ours: below this root, with our name or our number.
lrm_jobs() {
    named
    numbered
    queue=$(limited squeue -h -u "$user" -o '%i %T %Z|%j|%k' 2>&1) || {
        printf '%s\n' "$queue"
        return 1
    }
    # Of many jobs few are looked at closely.
    printf '%s\n' "$queue" | grep -F -e "$tag" ${number:+-e "$number "} | while read -r job state whose; do
        case $whose in
        "$root|$name|$tag") printf '%s %s\n' "$job" "$state" ;;
        "$root|"*)
            is_ours "$job" "${whose#"$root|"}" || continue
            case $whose in
            "$root|$name|"*) printf '%s %s\n' "$job" "$state" ;;
            *) printf '%s %s renamed\n' "$job" "$state" ;;
            esac
            ;;
        esac
    done
}

# Whether job $1, which is called `NAME|COMMENT` now, is that of $tag. Without a number half of its
# name is enough. With one it must not be another's: a controller that was killed gives out numbers
# again, and then the later attempt has it.
is_ours() {
    comment=${2##*|} last=${2%|*}
    if [ -z "$number" ]; then
        [ "$last" = "$name" ] || [ "$comment" = "$tag" ]
        return
    fi
    [ "$1" = "$number" ] || return
    for word in "${last##*.}" "$comment"; do
        case $word in */* | "$tag") continue ;; c*-*-*-*) ;; *) continue ;; esac
        [ -d "spool/$word" ] || continue
        other=
        { read -r other < "spool/$word/job"; } 2> /dev/null
        [ -n "$other" ] && [ "$other" != "$number" ] || return 1
    done
    case "|$2|" in *"|$name|"* | *"|$tag|"*) return 0 ;; esac
    [ -z "$(find spool -mindepth 2 -maxdepth 2 -name job -newer "spool/$tag/job" \
        -exec grep -lxF "$number" {} + 2> /dev/null)" ]
}

# Only by the number of a job that was just looked at, and while it has our name by that as well:
# numbers are given out again. Fine if there is nothing to end; of what ended after scancel had
# looked it tells by its code alone (ESLURM_ALREADY_DONE, 2021 modulo 256).
end_by() {
    named
    how=$1
    shift
    [ "$how" = renamed ] || set -- --name="$name" "$@"
    said=$(limited scancel --user="$user" "$@" 2>&1) && return
    case $?:$said in
    229: | *'already completing'* | *'Invalid job id'* | *'not running'* | *'already completed'*) ;;
    *) fail unknown "$said" ;;
    esac
}

# TERM to the wrapper alone, so that it says how the payload ended. A job that waits, or whose
# processes are stopped, has nobody who could hear it.
lrm_end() {
    case $2 in
    RUNNING) end_by "${3-}" --batch --signal=TERM "$1" ;;
    COMPLETING) ;;
    *) end_by "${3-}" "$1" ;;
    esac
}

lrm_kill() {
    end_by "${3-}" "$1"
}

lrm_withdraw() {
    end_by '' --state=PENDING "$1"
}
