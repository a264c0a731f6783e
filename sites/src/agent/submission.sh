# How attempts are submitted. It comes first, because a shell reads no further than it must: most
# of what a submission cost beside the batch system's own command was to read the rest and to
# start programs. Here that is `mkdir` and the command itself.

set -f
login_mask=$(umask)
umask 077
export LC_ALL=C
nl='
'
root=$1 site=$2 seconds=$3 verb=$4
shift 4

# Reads the files of a request below directory $1.
receive_all() {
    complete=
    while IFS= read -r line; do
        case $line in
        'text '*)
            file=${line#text }
            read_text "${file##* }" || break
            keep_text "$1/${file%% *}"
            ;;
        'file '*)
            file=${line#file }
            length=${file##* } file=$1/${file%% *}
            receive "$length" "$file.new.$own" && mv "$file.new.$own" "$file" || unwritten "$file"
            ;;
        end)
            complete=1
            break
            ;;
        esac
    done
    [ -n "$complete" ] || fail unsent "the request was cut short"
}

unwritten() {
    fail unsent "cannot write $1 at the site: is the disk full?"
}

# Reads $1 lines into $text.
read_text() {
    count=$1 text=
    while [ "$count" -gt 0 ]; do
        IFS= read -r line || return
        text=$text$line$nl
        count=$((count - 1))
    done
}

# Writes $text to file $1. Nobody reads one that was not there before the request is complete.
keep_text() {
    if [ -e "$1" ]; then
        printf '%s' "$text" > "$1.new.$own" && mv "$1.new.$own" "$1"
    else
        printf '%s' "$text" > "$1"
    fi || unwritten "$1"
}

# submit TAG STUB WRAPPER SECONDS OPTION...      after so long it is given up; 0: by somebody else
#
# What was submitted under a tag before is not submitted again.
submit() {
    tag=$1 stub=$2 wrapper=$3 limit=$4 number=
    { read -r number < "spool/$tag/job" || number=; } 2> /dev/null
    if [ -n "$number" ]; then
        printf 'number %s\n' "$number"
        return
    fi
    [ ! -e "attempts/$tag/decision" ] || fail unsent "its gate is closed already"
    for entry in "$stub" "$wrapper"; do
        [ -f "$entry" ] || [ ! -e "$entry" ] || broken "$entry" "the file"
    done
    [ -s "$stub" ] && [ -s "$wrapper" ] || fail missing "the wrapper is not there"
    mkdir -p "spool/$tag" || fail unsent "cannot make spool/$tag at the site"
    receive_all "spool/$tag"
    shift 4
    lrm_submit "$@"
    [ -n "$number" ] || return 0
    # A line that is not whole is no number.
    printf '%s\n' "$number" > "spool/$tag/job"
    printf 'number %s\n' "$number"
}
