# Files below a site's root, for whom only an agent can reach them; POSIX shell, with cp, tail,
# mkdir and, where it is there, sha256sum. A copy is incoming/NAME until it is whole.

prepare() {
    mkdir -p store incoming files || fail refused "cannot write below $root"
}

# Prints the size of a file, a line, then a piece of it as it is.
get() {
    [ -e "$1" ] || fail refused "$1 does not exist"
    [ -f "$1" ] || fail refused "$1 is not a file"
    [ -r "$1" ] || fail refused "$1 may not be read"
    printf 'size %s\n' "$(($(wc -c < "$1")))"
    [ "$3" -eq 0 ] || tail -c "+$(($2 + 1))" "$1" | head -c "$3"
    exit
}

arrived() {
    arrived=0
    [ ! -f "incoming/$1" ] || arrived=$(($(wc -c < "incoming/$1")))
}

# Appends $3 bytes if $2 are there.
put() {
    arrived "$1"
    [ "$arrived" -eq "$2" ] || fail refused "$arrived bytes are there, and not $2"
    head -c "$3" >> "incoming/$1" || fail unsent "cannot write incoming/$1: is the disk full?"
    arrived "$1"
    [ "$arrived" -eq "$(($2 + $3))" ] || fail unsent "only $arrived bytes of incoming/$1 arrived"
}

# What there is of copy $1 of content $2.
copied() {
    [ ! -e "store/$2" ] || printf 'whole\n'
    [ ! -e "incoming/$1" ] || { arrived "$1" && printf 'size %s\n' "$arrived"; }
}

# Copies a file of the site's own.
duplicate() {
    [ -f "$2" ] || fail refused "$2 is not a file"
    cp "$2" "incoming/$1" || fail unsent "cannot write incoming/$1: is the disk full?"
}

# commit NAME DIGEST SIZE SHA256: gives a whole copy its name in the store.
commit() {
    [ ! -e "store/$2" ] || {
        rm -f "incoming/$1"
        return
    }
    arrived "$1"
    [ "$arrived" -eq "$3" ] || fail refused "$arrived bytes arrived, and not $3"
    if command -v sha256sum > /dev/null; then
        sum=$(sha256sum < "incoming/$1") || fail unsent "incoming/$1 cannot be read"
        [ "${sum%% *}" = "$4" ] || fail refused "what arrived is not what was sent"
    fi
    chmod 555 "incoming/$1" && sync "incoming/$1" 2> /dev/null
    mv "incoming/$1" "store/$2" || fail unsent "cannot write store/$2"
}

drop_copy() {
    rm -f "incoming/$1" || fail unknown "cannot remove incoming/$1"
}

has() {
    [ ! -e "store/$1" ] || printf 'whole\n'
}

delete() {
    [ -e "store/$1" ] || return 0
    mv "store/$1" "incoming/gone.$own" && rm -f "incoming/gone.$own" \
        || fail unknown "cannot remove store/$1"
}
