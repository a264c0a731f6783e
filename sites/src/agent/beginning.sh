# What every text for a site begins with. POSIX shell, with timeout as GNU has it.
#
# An answer is lines; the last one is `done`, or `fail KIND TEXT` with one of these kinds:
#   refused   the site said no: certainly not done
#   unsent    certainly not done
#   broken    what is ours there is not as it must be: certainly not done
#   unknown   perhaps done
#   full      a limit is reached: certainly not done
#   missing   what `install` brings is not there: certainly not done
#
# Nothing that a user wrote becomes a word of a text: it travels in files and in arguments.

# Tells this request from others that run at the same time; a session gives each its own.
own=${own:-$$}

fail() {
    printf 'fail %s ' "$1"
    printf '%s' "$2" | tr '\n\r' '  '
    printf '\n'
    exit 0
}

limited() {
    timeout -k 2 "$seconds" "$@"
}

# Only one's own site: what is found absent in another place is no information.
reach() {
    marker=
    [ -e "$root/site-id" ] || [ -h "$root/site-id" ] || fail unsent "$root has no site-id: is it mounted?"
    # Whatever else is there could keep a reader waiting.
    [ -f "$root/site-id" ] || broken site-id "the file"
    { IFS= read -r marker < "$root/site-id"; } 2> /dev/null \
        || fail unsent "the site-id in $root is cut off, as after a power cut; if this is the directory of site $site, write into it the line: cospan site $site"
    [ "$marker" = "cospan site $site" ] || fail unsent "the site-id in $root names another site"
    [ -e "$root/attempts" ] || [ -h "$root/attempts" ] || fail unsent "$root has no directory attempts"
    cd "$root" || fail unsent "$root cannot be entered"
    for entry in attempts spool gone; do
        [ -d "$entry" ] && [ ! -h "$entry" ] && [ -r "$entry" ] && [ -w "$entry" ] && [ -x "$entry" ] \
            || broken "$entry" "the directory"
    done
}

# Says of entry $1 of the root what is wrong with it; it must be $2.
broken() {
    place=$root/$1
    if [ ! -e "$place" ] && [ ! -h "$place" ]; then
        fail broken "$2 $place is missing; put it back, or make it: mkdir -m 700 $place"
    elif [ -d "$place" ] && [ ! -h "$place" ] && [ "$2" = "the directory" ]; then
        fail broken "$place cannot be read and written by this account; give its rights back, or mount its file system anew"
    fi
    is="something else"
    [ ! -f "$place" ] || is="a file"
    [ ! -d "$place" ] || is="a directory"
    [ ! -p "$place" ] || is="a named pipe"
    [ ! -h "$place" ] || is="a symbolic link"
    fail broken "$place is $is; move it away, and put back $2 that was there"
}

# Reads $1 bytes into file $2.
receive() {
    head -c "$1" > "$2" && [ "$(($(wc -c < "$2")))" -eq "$1" ]
}

