# Runs one attempt at a site: takes its directory, waits at the gate, runs the
# payload, leaves evidence. POSIX shell; needs mkdir, sleep, ln, rm, setsid (and
# env, cp, chmod, touch, date, sync where a job asks for them), /proc, and the site's file system.
#
# usage: sh wrapper.sh ROOT TAG [bell | batch | - [ENV]]      reads ROOT/spool/TAG/params (and inputs)
#
# Parameters are cleared once they are read: they hold the words that `exit`, `ended` and a
# `decision` to close the gate carry, so that no payload can write them.
#
# With `bell` its standard input is a socket: a line says that the gate was decided, and
# a read ends by itself after the socket's own longest wait.
# With `batch` a batch system has started it, which may end it and the payload together.
# ENV is an `env` that knows --default-signal; with `batch` it is looked for here.
#
# Below ROOT/attempts/TAG it leaves state files; one counts only if its last
# line is `end TAG`:
#   ready     host, pid, start time, boot id, the batch system's number and its name of this run, if
#             it has one, its nodes if there are several (`n[1-3]`): it waits at the gate
#   decision  `go` or `void`; made by ln, so exactly one wins
#   begun     pid and start time of the payload, which leads its own session
#   hosts     host, processors, site and rank of each component, if a job asks for it: a line for
#             each of its nodes
#   ended     under a batch system: how the payload ended, written before anything is waited for. It
#             counts if the wrapper is gone and left no `exit`
#   exit      how the payload ended
#   trouble   why the site could not run it (then there is no `exit`)
# Their modification times are the times of the events, by the site's clock. Under a batch system `live`
# is written anew every ten seconds, as long as the wrapper is there.
#
# Exit codes: 0 over, 75 the directory is taken (nothing was touched), 74 the site failed.
# Signals: TERM and INT end the payload (TERM, grace, KILL), USR1 and XCPU are
# passed on, USR2 means: look at the gate again, ALRM comes from alarms of our own. Under a batch
# system TSTP and CONT mean that the job is suspended, and goes on. What TERM asks for is done inside
# its trap, because a flag set just before `wait` blocks would be seen too late. USR2 and ALRM set
# a flag, and who sends ALRM does so again: traps that interrupt each other lose
# exit codes in some shells, and run out of stack in all. A forked shell loses
# signals that come before it has dropped our traps, all but KILL.
#
# Bash (5.2) forgets how a child ended if a signal with a trap comes while `wait` learns of it: so
# few signals as can be have a trap while a payload runs.
#
# Speed: the way of a payload that is let in at once runs mkdir and setsid and
# nothing else; clocks and identities come from /proc by `read`.

nl='
'

# Hundredths of a second since the machine started, in $now. A signal may interrupt the read, and
# the trap of TERM reads the clock between any two steps here: nothing comes of it but a later time.
clock() {
    until read -r up idle < /proc/uptime && [ -n "$idle" ]; do
        [ -r /proc/uptime ] || trouble "it has no clock: /proc/uptime cannot be read"
    done
    now=${up%.*}${up#*.}
}

# Process id, session and start time of the shell that calls it (also a subshell), in $pid,
# $session and $start.
identity() {
    read -r stat < /proc/self/stat || stat="$$ () -"
    pid=${stat%% *}
    set -- ${stat##*) }
    session=$4 start=${20:-0}
}

# The site failed: says why, and leaves no `exit`.
trouble() {
    printf 'why %s\nend %s\n' "$1" "$tag" > trouble
    printf 'cospan wrapper %s: %s\n' "$tag" "$1" >&2
    quieten
    exit 74
}

# Reads a value of $1 lines from descriptor 3 into $value, byte for byte: in another
# locale some shells take half a character and the end of its line for one.
value() {
    LC_ALL=C IFS= read -r value <&3 || trouble "parameters are cut short"
    lines=$1
    while [ "$lines" -gt 1 ]; do
        LC_ALL=C IFS= read -r line <&3 || trouble "parameters are cut short"
        value=$value$nl$line
        lines=$((lines - 1))
    done
}

# The time in milliseconds, in $ms, by the clock that the times of files here come from: the hosts
# of a site need not agree on any other. In whole seconds where `date` knows no more.
file_clock() {
    from='-r moment'
    touch moment 2> /dev/null || from=
    ms=$(date $from +%s%3N)
    case $ms in '' | *[!0-9]*) ms=$(date $from +%s)000 ;; esac
}

# Sends signal $1 to the payload: to its group, or to itself before it has one.
signal() {
    [ -z "$over" ] || return 0
    signalled=1
    # Not `-s "$1" --`: the kill of BusyBox (1.35, 1.37) then signals the group, and says that it failed.
    kill "-$1" "-$payload" 2> /dev/null || kill -s "$1" "$payload" 2> /dev/null
}

# Sends signal $1 to the steps of the job, but not to its batch script. No step has begun? Then Slurm
# complains, and there is nobody to hear.
signal_steps() {
    scancel --signal="$1" "$SLURM_JOB_ID" > /dev/null 2>&1
}

# Sleeps $1 seconds, less if a signal arrives.
pause() {
    sleep "$1" &
    sleeper=$!
    [ -n "$tick" ] || wait "$sleeper"
    [ -z "$tick" ] || kill -s KILL "$sleeper" 2> /dev/null
    sleeper=
}

# In $1 seconds, and then every $2 until it is called off, sends ALRM to the wrapper, if it
# is still the same process. Sleeps a little at a time: if it is not called off, because
# the wrapper was killed, it ends soon.
alarm() {
    before=$! left=$1
    trap '[ "$!" = "$before" ] || kill -s KILL "$!" 2> /dev/null; exit' TERM
    trap - INT USR1 USR2 ALRM XCPU TSTP CONT
    # Called off before it could hear it? Only the end of the wrapper makes `exit` go away.
    [ ! -e exit ] || exit
    while wrapper_lives; do
        if [ "$left" -eq 0 ]; then
            kill -s ALRM "$$"
            left=$2
        fi
        slice=20
        [ "$left" -ge "$slice" ] || slice=$left
        left=$((left - slice))
        sleep "$slice" &
        wait "$!"
    done
}

# In a subshell: whether the shell that it came from is still there.
wrapper_lives() {
    { read -r stat < "/proc/$$/stat"; } 2> /dev/null || return 1
    set -- ${stat##*) }
    [ "${20:-0}" = "$start" ]
}

# A trap must not come between an alarm and the note of its number.
set_alarm() {
    noting=1
    alarm "$1" "${2:-1}" &
    timers="$timers $!"
    noted
}

# What was to end the payload meanwhile does so now.
noted() {
    noting=
    [ -z "$late" ] || terminate "$late"
}

call_off() {
    [ -z "$timers" ] || kill $timers 2> /dev/null
}

# Ends all that runs beside the wrapper and is its own.
quieten() {
    call_off
    [ -z "$heart" ] || kill "$heart" 2> /dev/null
}

# Under a batch system: writes for how long the machine has run, again and again. Whoever sees that
# change knows that the wrapper is there, whatever the batch system says.
beat() {
    before=$!
    trap '[ "$!" = "$before" ] || kill -s KILL "$!" 2> /dev/null; exit' TERM
    trap '' INT USR1 USR2 ALRM XCPU HUP
    trap - TSTP CONT
    while wrapper_lives; do
        { read -r up word < /proc/uptime && printf '%s\n' "$up" > live; } 2> /dev/null
        # Ended before it could hear it?
        [ ! -e exit ] || exit
        sleep 10 &
        wait "$!"
    done
}

# Ends all alarms, also that of the gate.
end_ticks() {
    call_off
    timers= ticks=
}

# In $1 seconds the payload needs an alarm. The one of the gate goes on ringing, and is
# replaced when it does: a payload that is over before needs no other.
set_first_alarm() {
    [ -z "$ticks" ] || [ "$1" -le "$poll" ] || return 0
    end_ticks
    set_alarm "$1"
}

# Ends the payload, for reason $1.
terminate() {
    [ -z "$ending" ] || return 0
    if [ -n "$noting" ]; then
        late=$1
        return 0
    fi
    ending=$1
    signal TERM
    signal CONT
    clock
    kill_at=$((now + grace * 100))
    end_ticks
    set_alarm "$grace"
}

# Tells the payload that its wall time will end soon, and waits for that.
warning() {
    # It cannot hear before it has begun: the signal would only end it.
    [ -e begun ] || return 0
    case $warn_to in
    script) kill -s "$warn" "$payload" 2> /dev/null ;;
    steps) if [ -n "${SLURM_JOB_ID-}" ]; then signal_steps "$warn" & else signal "$warn"; fi ;;
    *) signal "$warn" ;;
    esac
    warn=
    end_ticks
    set_alarm "$(((end_at - now + 99) / 100))"
}

# What a signal asks for.
on_end() {
    told=1 tick=1
    if [ -n "$payload" ]; then terminate terminated; fi
    [ -z "$sleeper" ] || kill -s KILL "$sleeper" 2> /dev/null
}

on_pass() {
    tick=1
    if [ -n "$payload" ]; then signal "$1"; else missed=$1; fi
}

# A batch system suspends a job by TSTP and STOP, and lets it go on by CONT: meanwhile nothing of
# its time runs. It also sends CONT with TERM to end a job, and bash runs only the trap of the higher
# number of two that come together: so CONT has one only while the job is suspended.
on_stop() {
    tick=1
    [ -z "$stopped" ] || return 0
    trap on_resume CONT
    clock
    stopped=$now
}

on_resume() {
    trap - CONT
    tick=1
    [ -n "$stopped" ] || return 0
    clock
    end_at=$((end_at + now - stopped)) warn_at=$((warn_at + now - stopped))
    stopped=
    # Its alarm rings too early: another one is due.
    [ -n "$warn" ] || warn_at=$end_at
    ticks=1
}

# Does what is due when an alarm has rung.
look() {
    rung= noting=1
    clock
    if [ -n "$ending" ]; then
        [ "$now" -lt "$kill_at" ] || { end_ticks && signal KILL; }
    elif [ "$now" -ge "$end_at" ]; then
        terminate walltime
    elif [ -n "$warn" ] && [ "$now" -ge "$warn_at" ]; then
        warning
    elif [ -n "$ticks" ]; then
        end_ticks
        set_alarm "$(((warn_at - now + 99) / 100))"
    fi
    noted
}

# Finds an `env` that restores signals, for shells that cannot.
find_env() {
    [ -z "${BASH_VERSION-}" ] || return 0
    for dir in /usr/bin /bin; do
        ! "$dir/env" --default-signal=INT,QUIT true 2> /dev/null || { resets=$dir/env; break; }
    done
}

# Takes the attempt's directory and says so.
take() {
    login_mask=$(umask)
    umask 077
    mkdir "$attempt" 2> /dev/null || {
        [ ! -e "$attempt" ] || exit 75
        printf 'cospan wrapper %s: cannot make %s\n' "$tag" "$attempt" >&2
        exit 74
    }
    cd "$attempt" || exit 74
    for dir in /usr/bin /bin /usr/sbin /sbin /usr/local/bin; do
        [ ! -x "$dir/setsid" ] || { setsid=$dir/setsid; break; }
    done
    [ -n "$setsid" ] || trouble "the program setsid is missing here"
    identity
    read -r host < /proc/sys/kernel/hostname || host=$(hostname)
    read -r boot < /proc/sys/kernel/random/boot_id || boot=-
    # As the batch system writes it: what it means is said where it is told to payloads.
    case $nodes in *[,[]*) [ "${#nodes}" -le 2000 ] || nodes= ;; *) nodes= ;; esac
    case $nodes in *[!]A-Za-z0-9_.,[-]*) nodes= ;; esac
    case $run_name in *[!A-Za-z0-9]*) run_name= ;; esac
    printf 'host %s\npid %s\nstart %s\nboot %s\n%s%s%send %s\n' \
        "$host" "$pid" "$start" "$boot" "${number:+job $number$nl}" "${run_name:+run $run_name$nl}" \
        "${nodes:+nodes $nodes$nl}" "$tag" > ready \
        || trouble "cannot write ready"
    [ -z "$batch" ] || { beat & heart=$!; }
}

# Puts the hosts of list $1 (`n[1-3,07],m`) into $expanded, `+` in between, and their number into
# $many. It may be another site's: what is no such list comes to some end.
expand() {
    expanded= many=0 names=$1,
    while [ -n "$names" ]; do
        stem=${names%%[,[]*}
        names=${names#"$stem"}
        case $names in
        ,*)
            names=${names#,}
            add_host "$stem"
            ;;
        *)
            ranges=${names#?} behind=${names#*]}
            ranges=${ranges%%]*},
            names=${behind#*,} behind=${behind%%,*}
            while [ -n "$ranges" ]; do
                add_range "${ranges%%,*}"
                ranges=${ranges#*,}
            done
            ;;
        esac
    done
    [ "$many" -gt 0 ] || { expanded=$1 many=1; }
}

add_host() {
    [ "$many" -lt 4096 ] && [ -n "$1" ] || return 0
    expanded=$expanded${expanded:++}$1
    many=$((many + 1))
}

# Numbers keep their zeros in front, which would make them octal.
add_range() {
    first=${1%%-*} last=${1##*-}
    case $first$last in '' | *[!0-9]*) return 0 ;; esac
    width=${#first}
    first=${first#"${first%%[!0]*}"} last=${last#"${last%%[!0]*}"}
    first=${first:-0} last=${last:-0}
    [ "${#last}" -le 9 ] || return 0
    while [ "$first" -le "$last" ] && [ "$many" -lt 4096 ]; do
        padded=$first
        while [ "${#padded}" -lt "$width" ]; do padded=0$padded; done
        add_host "$stem$padded$behind"
        first=$((first + 1))
    done
}

# Reads `decision`; true if it is a complete `go`. Ends the wrapper if it is `void`.
decided() {
    [ -e decision ] || return 1
    verdict= complete= hosts= sites= counts= size=0 wait_ms=0 start_by= start_ms= start_by_ms=
    while read -r key a b c d e; do
        complete=
        case $key in
        go | void) verdict=$key ;;
        round) round=$a ;;
        epoch) epoch=$a ;;
        start_at) start_at=$a ;;
        wait_ms) wait_ms=$a ;;
        start_by) start_by=$a ;;
        start_ms) start_ms=$a ;;
        start_by_ms) start_by_ms=$a ;;
        rank) rank=$a ;;
        peer)
            expand "$e"
            hosts=$hosts${hosts:+,}$expanded sites=$sites${sites:+,}$c counts=$counts${counts:+,}$d
            size=$((size + 1))
            ;;
        end) [ "$a" != "$tag" ] || complete=1 ;;
        esac
    done < decision
    [ -n "$complete" ] || return 1
    [ "$verdict" = go ] || { quieten; exit 0; }
}

# Whether a wait in `read` ends when its socket says so. A `read` that knows time-outs asks
# first whether there is something to read, and would wait for ever; but not that of bash.
can_listen() {
    [ -z "${BASH_VERSION-}" ] || return 0
    read -r -t 0 word < /dev/null 2> /dev/null
    [ "$?" -ge 2 ]
}

# Listens to its bell no more: whoever rings it sends USR2 instead.
unhook() {
    bell=
    exec < /dev/null
}

# Waits until the gate is decided; decides it itself past the longest hold, or when told to
# end. Waits for its bell, which needs no process; once that is silent or gone, for its
# alarm, which does not end, because a signal interrupts that. Looks less often after a while.
at_gate() {
    clock
    close_at=$((now + hold * 100)) seldom_at=$((now + patience * 100))
    while :; do
        tick=
        ! decided || return 0
        clock
        if [ -n "$told" ] || [ "$now" -ge "$close_at" ]; then
            printf 'void%s\nby wrapper\nend %s\n' "$void_word" "$tag" > void.tmp && ln void.tmp decision 2> /dev/null
            ! decided || return 0
            trouble "the gate cannot be read"
        fi
        if [ -n "$bell" ]; then
            [ -n "$tick" ] || read -r word 2> /dev/null || [ -n "$tick" ] || unhook
            continue
        fi
        if [ "$poll" -ne "$seldom" ] && [ "$now" -ge "$seldom_at" ]; then
            end_ticks
            poll=$seldom
        fi
        if [ -z "$ticks" ]; then
            rest=$(((close_at - now + 99) / 100))
            [ "$rest" -lt "$poll" ] || rest=$poll
            set_alarm "$rest" "$poll"
            ticks=$!
        fi
        [ -n "$tick" ] || wait "$ticks" || [ -n "$tick" ] || ticks=
        ! decided || return 0
        # Makes an NFS client forget that `decision` was not there.
        : > probe && rm -f probe
    done
}

# Puts the inputs in place: `input KIND LINES LINES`, then source and target (below the attempt). What
# is collected stands behind them: `output LINES`, then its path below the work directory.
place_inputs() {
    [ -d work ] || mkdir work || trouble "cannot make the work directory"
    [ -e "$spool/inputs" ] || return 0
    complete=
    exec 3< "$spool/inputs" || trouble "cannot read the inputs"
    while read -r key kind a b <&3; do
        complete=
        case $key in
        input)
            value "$a"
            source=$value
            value "$b"
            place "$kind" "$source" "./$value"
            ;;
        output) value "$kind" && has_outputs=1 ;;
        end) [ "$kind" != "$tag" ] || complete=1 ;;
        esac
    done
    exec 3<&-
    [ -n "$complete" ] || trouble "the list of inputs is cut short"
}

# Has what is collected on the disk before it is said that the payload succeeded: payloads do not
# see to it, and after a power cut their files would be empty. What cannot be read is not there to
# be collected either.
keep_outputs() {
    [ -n "$has_outputs" ] || return 0
    (
        trouble() { exit 0; }
        set --
        while read -r key kind a b <&3; do
            case $key in
            input) value "$a" && value "$b" ;;
            output)
                value "$kind"
                if [ -d "work/$value" ]; then
                    sync -f "work/$value"
                elif [ -f "work/$value" ]; then
                    set -- "$@" "work/$value"
                fi
                ;;
            esac
        done
        [ "$#" -eq 0 ] || sync "$@"
    ) 3< "$spool/inputs" 2> /dev/null
}

# A file appears as a hard link if it can, so that it stays if the store lets it go.
place() {
    [ -e "$2" ] || trouble "an input is not in the content store"
    [ -d "${3%/*}" ] || mkdir -p "${3%/*}" || trouble "cannot make the directory of an input"
    if [ "$1" = program ]; then
        ln "$2" "$3" 2> /dev/null || cp "$2" "$3" || trouble "cannot place the executable"
        chmod u+rx "$3" || trouble "cannot make the executable executable"
    else
        { [ ! -d "$2" ] && ln "$2" "$3" 2> /dev/null; } || ln -s "$2" "$3" \
            || trouble "cannot place an input"
    fi
}

# Ends with the job's own error if its program is certainly not there.
check_program() {
    case $exe in
    /*) found=$exe ;;
    */*) found=work/$directory/$exe ;;
    *)
        found=
        rest=$path:
        while [ -n "$rest" ] && [ -z "$found" ]; do
            dir=${rest%%:*}
            rest=${rest#*:}
            case $dir in /*) ;; *) dir=work/$directory/$dir ;; esac
            if [ -f "$dir/$exe" ] && [ -x "$dir/$exe" ]; then found=$dir/$exe; fi
        done
        ;;
    esac
    if [ -z "$found" ] || [ ! -e "$found" ]; then finish "unstarted missing"; fi
    if [ -d "$found" ] || [ ! -x "$found" ]; then finish "unstarted not-executable"; fi
}

# Puts aside what a payload left in place of `exit`, and opens the directory if it is closed.
clear_way() {
    { chmod u+rwx "$attempt" && mv exit "exit.$tries"; } 2> /dev/null
}

# Writes how it ended, and ends. A full disk may be full for a moment only.
finish() {
    trap '' TERM INT USR1 USR2 ALRM XCPU TSTP CONT HUP
    quieten
    clock
    tries=60
    [ ! -e exit ] && [ ! -h exit ] || clear_way
    until printf 'cause %s\nran %s\n%send %s\n' \
        "$1" "$((now - opened))" "$exit_word" "$tag" > exit; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || exit 74
        # Not there for some seconds: it was removed, and comes no more.
        [ "$tries" -gt 55 ] || [ -d "$attempt" ] || exit 74
        clear_way
        sleep 1
    done
    quieten
    [ -z "$batch" ] || tell_batch_system "$1"
    exit 0
}

# Ends as its payload ended, for what the batch system mails and accounts. Nobody is told of an end that
# is nobody's error.
tell_batch_system() {
    case $1 in
    'code '*) exit "${1#code }" ;;
    'signal '*) exit "$((128 + ${1#signal }))" ;;
    'unstarted late') ;;
    *) exit 1 ;;
    esac
}

# Returns the time that was not needed at the gate to Slurm, which starts others the sooner, and tells
# payloads how much they really have.
return_time() {
    left=$(((close_at - now) / 6000))
    [ -n "${SLURM_JOB_ID-}" ] && [ "$left" -gt 0 ] || return 0
    scontrol update jobid="$SLURM_JOB_ID" timelimit-="$left" > /dev/null 2>&1 &
}

# Writes at once how the payload ended by itself. A node that never heard of its job may end the
# wrapper while that tidies up: what has ended is not to be taken for lost, and run again.
note_end() {
    [ -z "$ending" ] && [ -e begun ] && [ ! -e unstarted ] && [ ! -e requeued ] || return 0
    word=$failed_word
    [ "$status" -ne 0 ] || word=$done_word
    printf 'cause %s\n%send %s\n' "$cause" "$word" "$tag" > ended
} 2> /dev/null

# A batch system signals all processes of a job, and this one may hear of it last: what was
# killed must not look as if it had ended by itself.
hear_out() {
    over=1
    sleep 0.2 &
    moment=$!
    while [ -z "$ending" ] && kill -0 "$moment" 2> /dev/null; do
        wait "$moment"
    done
}

# Ends what a payload left behind: its session, and orphans that carry the attempt $mine (and
# then $next) in their environment, wherever they went. What hides both is not found. Looks
# until nothing is left, for some seconds at most; $since: nothing older is meant.
sweep() {
    above= turns=50
    while [ "$turns" -gt 0 ]; do
        left=
        look_around
        [ -n "$left" ] || return 0
        kill -s KILL $left 2> /dev/null
        sleep 0.05
        turns=$((turns - 1))
    done
}

# Finds what is left. Numbers are given in turn: unless they may have come round, for which two
# hundred times as many as hundredths of a second are taken to be too few, what is left has a
# later one than the payload. Of many, those are looked at whose owner is ours.
look_around() {
    last=0 least=0 most=32768
    { read -r word word word word last < /proc/loadavg; } 2> /dev/null
    clock
    ran=$((now - opened))
    [ "$ran" -lt 160 ] || { read -r most < /proc/sys/kernel/pid_max; } 2> /dev/null
    [ "$((ran * 200))" -ge "$most" ] || [ "$last" -lt "${payload:-$((last + 1))}" ] || least=$payload
    if [ "$least" -gt 0 ] && [ "$((last - least))" -le 100 ]; then
        while [ "$least" -lt "$last" ]; do
            least=$((least + 1))
            [ ! -O "/proc/$least" ] || look_at "$least"
        done
        return 0
    fi
    set +f
    set -- /proc/[0-9]*
    set -f
    for process in "$@"; do
        process=${process#/proc/}
        [ "$process" -le "$least" ] || [ ! -O "/proc/$process" ] || look_at "$process"
    done
}

# Adds process $1 to what is left, if it is.
look_at() {
    { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 0
    process=$1
    set -- ${stat##*) }
    # State, parent, group, session, ..., start time.
    case $1 in Z | X) return 0 ;; esac
    if [ "$4" != "$payload" ]; then
        [ "$4" != "$session" ] && [ "${20:-0}" -ge "$since" ] || return 0
        [ -n "$above" ] || look_above
        # Whoever else takes orphans cannot be seen.
        case $above in *" $2 "*) ;; *) [ ! -e "/proc/$2" ] || return 0 ;; esac
        carries "$process" || return 0
    fi
    left="$left $process"
}

# Who takes the orphans: one of those that we are below.
look_above() {
    above=" 1 " parent=$PPID
    while [ "$parent" -gt 1 ] && { read -r stat < "/proc/$parent/stat"; } 2> /dev/null; do
        above="$above$parent "
        set -- ${stat##*) }
        parent=$2
    done
}

carries() {
    while LC_ALL=C read -r line || [ -n "$line" ]; do
        case $line: in *"COSPAN_ATTEMPT_DIR=$mine"$next*) return 0 ;; esac
    done 2> /dev/null < "/proc/$1/environ"
    return 1
}

# Nothing of an earlier attempt is to run beside this one.
sweep_earlier() {
    case ${tag##*-} in 0 | 1) return 0 ;; esac
    clock
    opened=$now since=0 mine=${attempt%-*}- next='[0-9]'
    sweep
}

# Asks once more how the payload, which is gone, has ended. A shell that kept it tells it now; one that
# told it already does not know it any more. If bash forgot it, it waits for whatever else still runs,
# so nothing does, and what it tells then is no status, or that of the signal.
recall_status() {
    quieten
    [ -z "${BASH_VERSION-}" ] || { [ -z "$tick" ] && [ "$status" -ge 0 ]; } || lost=1
    for turn in 1 2; do
        before=$status
        wait "$payload" 2> /dev/null
        status=$?
        case $status in
        127 | -*) status=$before ;;
        129 | 130 | 138 | 140 | 142 | 143 | 146 | 148 | 152) ;;
        *) lost= ;;
        esac
    done
}

# Waits for the payload, however often signals interrupt.
attend() {
    while :; do
        tick=
        [ -z "$rung" ] || look
        wait "$payload"
        status=$?
        # Bash tells once more of a signal that came just behind the last wait.
        [ -n "$tick" ] || [ "$status" -gt 128 ] || [ "$status" -lt 0 ] || break
        # If the payload is gone too, its status was this one, or is still kept.
        if ! kill -0 "$payload" 2> /dev/null; then
            trap '' TERM INT USR1 USR2 ALRM XCPU TSTP CONT HUP
            recall_status
            break
        fi
    done
    cause="code $status"
    if [ "$status" -gt 128 ] && [ "$status" -le 192 ]; then cause="signal $((status - 128))"; fi
    [ -z "$batch" ] || [ -n "$lost" ] || note_end
    # Nothing of it outlives it.
    kill -KILL "-$payload" 2> /dev/null
    since=$start mine=$attempt next='[!0-9]'
    sweep
    [ -z "$batch" ] || hear_out
    if [ -e unstarted ]; then finish "unstarted missing"; fi
    if [ -e requeued ]; then finish "${ending:+$ending }requeued"; fi
    if [ -n "$lost" ] && [ -z "$ending" ]; then
        printf 'cospan wrapper %s: its shell forgot how the payload ended\n' "$tag" >&2
        exit 74
    fi
    # Our own signal may end it before it could say that it begins, and it may hide that it did.
    [ -e begun ] || [ -h begun ] || { [ "$status" -ne 74 ] && [ "$status" -le 128 ]; } \
        || { [ -n "$signalled" ] && [ "$status" -gt 128 ]; } \
        || trouble "the payload could not be started here"
    [ "$status" -ne 0 ] || keep_outputs
    finish "${ending:+$ending }$cause"
}

# Lists the components for a parallel program by rank, a line for each of their nodes. They share
# its processors evenly, as far as anybody here knows; the first have what is over.
list_hosts() {
    while read -r key a b c d e; do
        [ "$key" = peer ] || continue
        expand "$e"
        while [ "$many" -gt 0 ]; do
            share=$(((d + many - 1) / many))
            printf '%s %s %s %s\n' "${expanded%%+*}" "$share" "$c" "$a"
            expanded=${expanded#*+} many=$((many - 1)) d=$((d - share))
        done
    done < decision > hosts || trouble "cannot write hosts"
    export COSPAN_HOSTS_FILE="$attempt/hosts" COSPAN_LEADER="${hosts%%[,+]*}"
}

# Tells the payload about its round.
describe_round() {
    rest=${tag#*-}
    export COSPAN_JOB="${rest%%-*}"
    rest=${rest#*-}
    export COSPAN_COMPONENT="${rest%%-*}" COSPAN_ATTEMPT="${rest#*-}" COSPAN_TAG="$tag"
    export COSPAN_RANK="$rank" COSPAN_ROUND="$round" COSPAN_EPOCH="$epoch"
    export COSPAN_START_AT="$start_at" COSPAN_ROUND_FILE="$attempt/decision"
    export COSPAN_ATTEMPT_DIR="$attempt" COSPAN_SIZE="$size"
    left=${attempt%/*}/$earlier/work
    if [ -n "$earlier" ] && [ -d "$left" ]; then export COSPAN_EARLIER_DIR="$left"; fi
    [ -z "$lists_hosts" ] || list_hosts
    # A very wide job finds the others in the file: a variable holds 128 KiB at most.
    if [ "${#hosts}" -lt 60000 ] && [ "${#sites}" -lt 60000 ]; then
        export COSPAN_HOSTS="$hosts" COSPAN_SITES="$sites" COSPAN_PROCESSORS="$counts"
    fi
}

# The payload's side of the fork. `begun` comes before the program, never after it.
begin() {
    identity
    printf 'pid %s\nstart %s\nend %s\n' "$pid" "$start" "$tag" > begun || exit 74
    cd "work/$directory" || exit 74
    umask "$login_mask"
}

# The start by the site's clock, which is read once: from here on the machine's own counts.
time_start() {
    file_clock
    clock
    wait_ms=$((start_ms - ms))
    [ -z "$start_by_ms" ] || start_by=$((now + (start_by_ms - ms) / 10))
}

# Waits for the common start, a few seconds at most; the alarm of the gate may ring meanwhile.
await_start() {
    [ "$wait_ms" -le 10000 ] || wait_ms=10000
    clock
    begin_at=$((now + wait_ms / 10))
    while [ -z "$told" ] && [ "$now" -lt "$begin_at" ]; do
        rest=$((100 + (begin_at - now) % 100))
        tick=
        pause "$(((begin_at - now) / 100)).${rest#1}"
        clock
    done
}

# Runs after the gate opened; arguments are the command line.
launch() {
    place_inputs
    if [ -n "$directory" ] && [ ! -d "work/$directory" ]; then
        mkdir -p "work/$directory" || finish "unstarted directory"
    fi
    [ -n "$setup" ] || check_program
    describe_round
    [ -z "$start_ms" ] || time_start
    [ "$wait_ms" -le 0 ] || await_start
    [ -z "$told" ] || finish "terminated code 0"
    # The gate may have been opened late, or the inputs were: the others do not wait for ever.
    clock
    [ -z "$start_by" ] || [ "$now" -le "$start_by" ] || finish "unstarted late"
    # The alarms of the gate have rung for nobody else, and under bash they ring no more.
    [ -z "${BASH_VERSION-}" ] || end_ticks
    missed= rung=
    # Of what runs in the background, most shells ignore INT and QUIT; bash restores them.
    if [ -n "$resets" ] && [ -z "${BASH_VERSION-}" ]; then
        [ "$1" != env ] || shift
        set -- "$resets" --default-signal=INT,QUIT "$@"
    fi
    { begin && exec "$@"; } < /dev/null >> stdout 2>> stderr &
    payload=$!
    trap '' USR2
    [ -z "$batch" ] || return_time
    [ -z "$told" ] || terminate terminated
    [ -z "$missed" ] || signal "$missed"
    [ -n "$ending" ] || set_first_alarm "$((wall - warn_s))"
    attend
}

# Setup lines share the shell that becomes the program; its arguments stay out of their reach.
setup_runner='
cospan_setup() { eval "$cospan_lines"; }
cospan_lines=$1 cospan_mark=$2
shift 2
cospan_setup
command -v "$1" > /dev/null 2>&1 || { : > "$cospan_mark"; exit 127; }
exec "$@"'

# Reads the parameters into the command line, waits at the gate, launches.
run() {
    set --
    exec 3< "$spool/params" || trouble "cannot read the parameters"
    complete=
    while read -r key a b <&3; do
        complete=
        case $key in
        words) exit_word="word $a$nl" void_word=" $b" ;;
        ended_words) done_word="word $a$nl" failed_word="word $b$nl" ;;
        hold_s) hold=$a ;;
        wall_s) wall=$a ;;
        grace_s) grace=$a ;;
        poll_s) poll=$a seldom=$a ;;
        seldom_s) seldom=$a patience=$b ;;
        warn) warn=$a warn_s=${b%% *} warn_to=${b#* } ;;
        earlier) earlier=$a ;;
        hosts) lists_hosts=1 ;;
        dir) value "$a" && directory=$value ;;
        setup) value "$a" && setup=$value ;;
        env)
            value "$b"
            [ "$#" -gt 0 ] || set -- env
            set -- "$@" "$a=$value"
            [ "$a" != PATH ] || path=$value
            ;;
        exe)
            value "$a"
            exe=$value
            [ "$#" -eq 0 ] || set -- "$@" "COSPAN_TAG=$tag" "COSPAN_ATTEMPT_DIR=$attempt"
            set -- "$@" "$setsid" --
            [ -z "$setup" ] || set -- "$@" sh -c "$setup_runner" sh "$setup" "$attempt/unstarted"
            set -- "$@" "$exe"
            ;;
        arg) value "$a" && set -- "$@" "$value" ;;
        end) [ "$a" != "$tag" ] || complete=1 ;;
        esac
    done
    exec 3<&-
    [ -n "$complete" ] || trouble "parameters are cut short"
    # No payload is to know the words.
    [ -z "$exit_word" ] || printf '' > "$spool/params" || trouble "cannot clear the parameters"
    sweep_earlier
    at_gate
    clock
    opened=$now
    end_at=$((now + wall * 100))
    warn_at=$((end_at - warn_s * 100))
    launch "$@"
}

main() {
    set -f
    attempt=$1/attempts/$2 spool=$1/spool/$2 tag=$2
    payload= sleeper= timers= ticks= told= tick= missed= ending= noting= late= setsid= exe= directory= setup= path=$PATH
    warn= warn_s=0 warn_to= signalled= rung= earlier= lists_hosts= size=0
    end_at=0 warn_at=0 stopped=
    bell= batch= has_outputs= number= nodes= over= exit_word= void_word= session=
    run_name= heart= done_word= failed_word= lost= resets=${4-}
    case ${3-} in
    bell) bell=1 ;;
    batch) batch=1 number=${SLURM_JOB_ID-} run_name=${SLURM_JOB_SLUID-} nodes=${SLURM_JOB_NODELIST-} ;;
    esac
    [ -z "$bell" ] || can_listen || unhook
    # Else `srun` in a payload would get what our submission exported: nothing.
    [ -z "$batch" ] || { unset SLURM_EXPORT_ENV && find_env; }
    round= epoch= start_at= rank= hold=3600 wall=3600 grace=5 poll=1 seldom=1 patience=0
    trap on_end TERM INT
    trap 'on_pass USR1' USR1
    trap 'on_pass XCPU' XCPU
    trap 'tick=1' USR2
    trap 'tick=1 rung=1' ALRM
    [ -z "$batch" ] || trap on_stop TSTP
    trap : HUP
    take
    run
}

main "$@"
