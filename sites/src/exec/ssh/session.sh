# Serves what comes over standard input, at the far end of a connection. POSIX shell, with head,
# timeout, mktemp and mkfifo. It is ours as a whole: what users wrote comes as lines and bytes
# that are counted before they are read, and becomes arguments and input of what is run.
#
# A request is a line and what it announces:
#   text LENGTH                                   a text for `script`, of so many bytes
#   VERB ID SLOT SECONDS VARIABLES WORDS MAX LENGTH
# VERB is `program` or `script`. Variables (NAME=VALUE) and words follow, each as a line with its
# number of lines, and these lines; then LENGTH bytes of input. SLOT is one that nothing runs in.
#
# Many at once (lane control): the answer is `answer ID CODE LENGTH` and so many bytes.
# One by one (lane bulk): what it prints, then a line `NONCE ID CODE`.
# CODE is `long` for an answer of more than MAX bytes.

# Reads a value of one or more lines into $value.
take() {
    IFS= read -r count || exit
    value=
    while :; do
        IFS= read -r line || exit
        value=$value$line
        count=$((count - 1))
        [ "$count" -gt 0 ] || return 0
        value=$value$nl
    done
}

perform() {
    # It is not to have what belongs to this session.
    exec 9>&-
    if [ "$verb" = script ]; then
        eval "$text"
    else
        exec timeout -k 2 "$seconds" "$@"
    fi
}

# Its answer as a whole, when it is this one's turn to speak.
in_background() {
    answer=$(
        printf '%s' "${input%x}" | (perform "$@")
        printf 'x%s' "$?"
    )
    code=${answer##*x} answer=${answer%x*}
    [ "${#answer}" -le "$max" ] || code=long answer=
    read -r turn <&9
    printf 'answer %s %s %s\n%s' "$id" "$code" "${#answer}" "$answer"
    printf '\n' >&9
}

in_turn() {
    head -c "$length" | {
        (perform "$@")
        code=$?
        cat > /dev/null
        printf '\n%s %s %s\n' "$nonce" "$id" "$code"
    }
}

one() {
    set --
    names=$variables
    while [ "$variables" -gt 0 ]; do
        take
        variables=$((variables - 1))
        set -- "$@" "$value"
    done
    while [ "$words" -gt 0 ]; do
        take
        words=$((words - 1))
        set -- "$@" "$value"
    done
    own=$nonce.$id
    if [ "$lane" = bulk ]; then
        (with_variables in_turn "$@")
        return
    fi
    input=$(
        head -c "$length"
        printf x
    )
    [ "${#input}" -eq "$((length + 1))" ] || exit
    # What was in the slot has ended, or is about to: without this a shell remembers it for ever.
    eval "before=\${slot_$slot-}"
    [ -z "$before" ] || wait "$before"
    with_variables in_background "$@" &
    eval "slot_$slot=\$!"
}

# Runs $1 with the first $names of the words that follow as variables.
with_variables() {
    how=$1
    shift
    while [ "$names" -gt 0 ]; do
        # shellcheck disable=SC2163
        export "$1"
        shift
        names=$((names - 1))
    done
    "$how" "$@"
}

serve() {
    nonce=$1 lane=$2 wanted=$3
    umask 077
    # Where programs are is told to login shells alone at some places.
    command -v "$wanted" > /dev/null 2>&1 || [ ! -r /etc/profile ] \
        || . /etc/profile > /dev/null 2>&1 < /dev/null
    export LC_ALL=C
    cd /
    nl='
'
    # Start files may name a place for temporary files that this machine does not have.
    place=$(mktemp -d 2> /dev/null || TMPDIR=/tmp mktemp -d) && mkfifo "$place/turn" && exec 9<> "$place/turn" && rm -rf "$place" || exit
    printf '\n' >&9
    printf '\nready %s\n' "$nonce"
    while IFS=' ' read -r verb id slot seconds variables words max length; do
        case $verb in
        text)
            text=$(
                head -c "$id"
                printf x
            )
            text=${text%x}
            ;;
        program | script) one ;;
        *) exit ;;
        esac
    done
}
