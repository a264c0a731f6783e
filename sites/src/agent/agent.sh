# What an adapter has done at a site of a batch system. POSIX shell, with head, find, grep, touch, date and
# id as GNU has them; beginning.sh, submission.sh, files.sh and the batch system's own parts come
# before.
#
# usage: sh -c TEXT script ROOT SITE SECONDS VERB [WORD]...      the request is standard input
#
# A request is lines, `file NAME LENGTH` is followed by that many bytes, `text NAME COUNT` by that
# many lines, and the last line is `end`: one that is cut short changes nothing. The functions
# lrm_... belong to the batch system:
#   lrm_describe, lrm_queue, lrm_load      print what it says of itself, of jobs, of its nodes; of jobs
#                                          also the names of their runs with the argument `runs`
#   lrm_submit OPTION...                   submits $stub for $tag; prints, and sets $number
#   lrm_jobs                               prints `NUMBER STATE [renamed]` of each job of $tag, where
#                                          renamed ones have not the name that we gave them
#   lrm_end NUMBER STATE [renamed]         ends one, gently where a wrapper runs
#   lrm_kill NUMBER STATE [renamed]        ends one at once
#   lrm_withdraw NUMBER                    takes one out of the queue
#   lrm_timetable, lrm_reserve, lrm_confirm, lrm_release      reservations, where it has them

# Brings files that are used from now on: none may be empty after a power cut.
install() {
    receive_all .
    sync -f . 2> /dev/null
}

# The time in seconds, in $time, by the clock that the times of files here come from, whatever this
# machine's own says: that of a file that is written now. Where nothing can be written it is the
# machine's.
file_clock() {
    time=
    touch gone/clock 2> /dev/null && time=$(find gone/clock -printf '%T@' 2> /dev/null)
    [ -n "$time" ] || time=$(date +%s.%N)
}

# The same in milliseconds, in $ms.
file_clock_ms() {
    file_clock
    ms=${time#*.}000
    ms=${time%%.*}${ms%"${ms#???}"}
    # A `date` that knows no fractions repeats what it was asked for.
    case $ms in *[!0-9]*) ms=${time%%.*}000 ;; esac
}

# Prints that time, and for how long this machine has run, before and after it was read.
tell_clock() {
    up= boot=
    { read -r before word < /proc/uptime; } 2> /dev/null
    file_clock
    { read -r up word < /proc/uptime && read -r boot < /proc/sys/kernel/random/boot_id; } 2> /dev/null
    printf 'clock %s\n' "$time"
    [ -z "$boot" ] || printf 'uptime %s0 %s0 %s\n' "$before" "$up" "$boot"
}

# Looks also at what is used seldom, and how much room there is: blocks of all and free ones, their
# size, files of all and those that can still be made.
sound() {
    for entry in live store incoming inspect trash links files; do
        [ ! -e "$entry" ] && [ ! -h "$entry" ] || [ -d "$entry" ] && [ ! -h "$entry" ] \
            || broken "$entry" "the directory"
    done
    set +f
    for entry in site-id owner stub-*.sh wrapper-*.sh; do
        [ ! -e "$entry" ] && [ ! -h "$entry" ] || [ -f "$entry" ] && [ ! -h "$entry" ] \
            || broken "$entry" "the file"
    done
    set -f
    room=%a
    [ "$user" != root ] || room=%f
    stat -f -c "room %b $room %S %c %d" . 2> /dev/null
}

# The control plane that has the root, as it was written down.
tell_owner() {
    [ ! -e owner ] && [ ! -h owner ] || [ -f owner ] && [ ! -h owner ] || broken owner "the file"
    [ ! -f owner ] || sed 's/^/owner /' owner
}

# Writes it down anew, from $1 bytes of the request, if it still is what $2 says, and tells what it
# is then: of several that do so at a time only one finds its own.
own() {
    receive "$1" "gone/owner.$own" || fail unsent "cannot write owner: is the disk full?"
    if [ -e owner ] && mv -f owner "gone/before.$own"; then
        [ "$(cat "gone/before.$own")" = "$2" ] || ln "gone/before.$own" owner
    fi 2> /dev/null
    ln "gone/owner.$own" owner 2> /dev/null
    rm -f "gone/owner.$own" "gone/before.$own"
    [ -e owner ] || fail unsent "cannot write owner: is the disk full?"
    tell_owner
}

# status SECONDS [queue | runs] [load]      asks the batch system for so much of what it knows
#
# The batch system first and the files after it: what is over there has left its last word. One
# that does not answer within SECONDS leaves a line `fail unsent ...` here, and the files are read.
status() {
    tell_clock
    sound
    (
        seconds=$1
        shift
        for part; do
            case $part in queue | runs) lrm_queue "$part" ;; load) lrm_load ;; esac
        done
    )
    sed -n '/^end$/q; s:^tag \(.*\):attempts/\1 spool/\1:p' | xargs -r sh -c 'find "$@" -maxdepth 1 \
        \( -type d -name "c*-*-*-*" \( -readable -executable -printf "d %T@ 0 %p\n" \
        -o -printf "x %T@ 0 %p\n" \) -o \( -name ready -o -name decision -o -name begun \
        -o -name exit -o -name trouble -o -name ended -o -name live -o -name job \) \( -type f -readable -printf "f %T@ %s %p\n" \
        -o -printf "x %T@ 0 %p\n" \) \) 2> /dev/null; :' look | show
}

# Prints state files behind their names, but for unfinished lines; kind `x` is what is there and
# cannot be read, or is no file, or is longer than any. Of a decision only the first line counts
# here: it gets its name when it is whole.
show() {
    while read -r kind time size path; do
        case $path in */decision) ;; *) [ "$size" -le 4096 ] || kind=x ;; esac
        printf '%s %s %s\n' "$kind" "$time" "$path"
        [ "$kind" != x ] || continue
        case $path in
        */decision) { IFS= read -r line < "$path" && printf '| %s\n' "$line"; } 2> /dev/null ;;
        *)
            [ "$kind" = f ] || continue
            while IFS= read -r line; do
                printf '| %s\n' "$line"
            done < "$path"
            ;;
        esac
    done
}

# What was decided. A decision appears whole: one that cannot be read was spoiled by a payload.
decided() {
    verdict=
    { read -r verdict < "attempts/$tag/decision"; } 2> /dev/null && return
    verdict=spoiled
    [ -e "attempts/$tag/decision" ] || [ -h "attempts/$tag/decision" ] || {
        [ -d "attempts/$tag" ] && ! { [ -r "attempts/$tag" ] && [ -x "attempts/$tag" ]; }
    }
}

# Writes what is to become the decision, and gives it its name: exactly one wins.
decide() {
    aside=attempts/$tag/decision.$nonce.tmp
    case $1 in
    go)
        receive "$length" "$aside" || fail unsent "cannot write the decision: is the disk full?"
        file_clock_ms
        printf 'start_ms %s\nend %s\n' "$((ms + wait_ms))" "$tag" >> "$aside"
        ;;
    void)
        IFS= read -r line && printf '%s\nby adapter\nend %s\n' "$line" "$tag" > "$aside"
        ;;
    esac || fail unsent "cannot write the decision: is the disk full?"
    ln "$aside" "attempts/$tag/decision" 2> /dev/null
    rm -f "$aside"
    decided || fail unknown "the decision of $tag cannot be read"
}

# gate TAG VERDICT NONCE [WAIT_MS LENGTH]      reads the decision, of `void` its first line
gate() {
    tag=$1 nonce=$3 wait_ms=${4-} length=${5-}
    if ! decided; then
        if [ "$2" = go ]; then
            [ -d "attempts/$tag" ] || fail refused "the attempt has no directory yet"
            [ -d "attempts/$tag/work" ] || mkdir "attempts/$tag/work" \
                || fail unsent "cannot make its work directory"
        else
            mkdir -p "attempts/$tag" || fail unsent "cannot make its directory"
        fi
        decide "$2"
    fi
    printf 'verdict %s\n' "$verdict"
}

# Ends whatever there is of an attempt; `late`, at once: it was told long ago and is still there.
cancel() {
    tag=$1 how=$2
    gate "$tag" void "$3"
    jobs=$(lrm_jobs) || fail unknown "$jobs"
    while [ -n "$jobs" ]; do
        job=${jobs%%"$nl"*}
        case $jobs in *"$nl"*) jobs=${jobs#*"$nl"} ;; *) jobs= ;; esac
        # shellcheck disable=SC2086
        if [ "$how" = late ]; then lrm_kill $job; else lrm_end $job; fi
    done
}

remove() {
    tag=$1 nonce=$2
    jobs=$(lrm_jobs) || fail unsent "$jobs"
    [ -z "$jobs" ] || fail refused "$tag has not ended; cancel it first"
    end_left
    for place in spool attempts; do
        [ -e "$place/$tag" ] || [ -h "$place/$tag" ] || continue
        try_open "$place/$tag" mv "$place/$tag" "gone/$tag.$nonce.$place" \
            || fail unknown "cannot move $place/$tag"
        try_open "gone/$tag.$nonce.$place" rm -rf "gone/$tag.$nonce.$place" \
            || fail unknown "cannot remove all of $tag"
    done
}

# Ends what is left on this machine of an attempt whose wrapper was killed. Other machines
# cannot be reached from here: there the next attempt's wrapper does it.
end_left() {
    ran_on= here= turns=20
    { read -r word ran_on < "attempts/$tag/ready"; } 2> /dev/null
    { read -r here < /proc/sys/kernel/hostname; } 2> /dev/null
    [ "${ran_on:-$here}" = "$here" ] || return 0
    while [ "$turns" -gt 0 ]; do
        set +f
        left=$(grep -lszxF "COSPAN_ATTEMPT_DIR=$root/attempts/$tag" /proc/[0-9]*/environ)
        set -f
        [ -n "$left" ] || return 0
        printf '%s\n' "$left" | while IFS=/ read -r word word pid word; do
            kill -s KILL "$pid" 2> /dev/null
        done
        sleep 0.05
        turns=$((turns - 1))
    done
}

# Does something to directory $1; if that fails, once more after its payload's modes are undone.
try_open() {
    closed=$1
    shift
    "$@" 2> /dev/null || { chmod -R u+rwX "$closed" 2> /dev/null; "$@"; }
}

# The number of the job of $tag, in $number: as it was given, or as its wrapper found it.
numbered() {
    number=
    { read -r number < "spool/$tag/job"; } 2> /dev/null
    [ -n "$number" ] || number=$(sed -n '/^job [0-9]*$/{s/^job //p;q;}' "attempts/$tag/ready" 2> /dev/null)
}

# What is in the queue, and what is known of an attempt that is not there any more.
find_tag() {
    tag=$1
    lrm_queue
    numbered
    [ -z "$number" ] || printf 'given %s %s\n' "$tag" "$number"
    [ -z "$number" ] || [ ! -e "attempts/$tag" ] || printf 'number %s\n' "$number"
}

list() {
    lrm_queue
    ls -1 attempts spool | sed 's/^/name /'
    sweep
}

# Removes what a removal that was cut short left. What is not done in time, or stays, has its next
# turn ten minutes later, so that it keeps no other from its own.
sweep() {
    file_clock
    timeout -k 2 5 find gone -mindepth 1 -maxdepth 1 ! -newermt "@$((${time%%.*} - 600))" -exec sh -c '
        touch -h "$1"
        rm -rf "$1" || { chmod -R u+rwX "$1"; rm -rf "$1"; }' sweep {} \; > /dev/null 2>&1
    :
}

# What attempts take of the disk, in kilobytes.
remains() {
    lrm_queue
    find spool -mindepth 2 -maxdepth 2 -name job -exec grep -H '^[0-9]' {} + \
        | sed -n 's|^spool/\([^/]*\)/job:|given \1 |p'
    find attempts spool -mindepth 1 -maxdepth 1 -exec du -sk {} + | sed 's/^/takes /'
}

main() {
    user=$(id -un) || fail unsent "this account has no name at the site"
    reach
    case $verb in
    owner) tell_owner ;;
    own) own "$@" ;;
    install) install ;;
    describe) lrm_describe ;;
    status) status "$@" ;;
    gate) gate "$@" ;;
    cancel) cancel "$@" ;;
    withdraw) tag=$1 && lrm_withdraw "$2" ;;
    remove) remove "$@" ;;
    find) find_tag "$@" ;;
    list) list ;;
    remains) remains ;;
    accounts) lrm_accounts "$@" ;;
    timetable) lrm_timetable ;;
    reserve) lrm_reserve "$@" ;;
    confirm) lrm_confirm "$1" ;;
    release) lrm_release "$1" ;;
    prepare) prepare ;;
    get) get "$@" ;;
    list-tree) list_tree "$1" ;;
    get-runs) get_runs "$@" ;;
    put) put "$@" ;;
    plant) plant "$1" ;;
    grow) grow "$@" ;;
    fill) fill "$@" ;;
    tie) tie "$@" ;;
    settle) settle "$@" ;;
    copied) copied "$@" ;;
    duplicate) duplicate "$@" ;;
    commit) commit "$@" ;;
    drop) drop_copy "$1" ;;
    keep) keep "$@" ;;
    forget) forget "$@" ;;
    has) has "$1" ;;
    delete) delete "$1" ;;
    *) fail refused "the agent knows no $verb" ;;
    esac
    printf 'done\n'
}

main "$@"
