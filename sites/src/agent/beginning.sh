# What every text for a site begins with. POSIX shell, with timeout as GNU has it.
#
# An answer is lines; the last one is `done`, or `fail KIND TEXT` with one of these kinds:
#   refused   the site said no: certainly not done
#   unsent    certainly not done
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
    [ -e "$root/site-id" ] || fail unsent "$root has no site-id: is it mounted?"
    { IFS= read -r marker < "$root/site-id"; } 2> /dev/null \
        || fail unsent "the site-id in $root is cut off, as after a power cut; if this is the directory of site $site, write into it the line: cospan site $site"
    [ "$marker" = "cospan site $site" ] || fail unsent "the site-id in $root names another site"
    [ -d "$root/attempts" ] || fail unsent "$root has no directory attempts"
    cd "$root" || fail unsent "$root cannot be entered"
}

# Reads $1 bytes into file $2.
receive() {
    head -c "$1" > "$2" && [ "$(($(wc -c < "$2")))" -eq "$1" ]
}

