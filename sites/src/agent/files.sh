# Files below a site's root, for whom only an agent can reach them; POSIX shell, with cp, tail,
# mkdir, find, realpath and, where it is there, sha256sum, as GNU has them. A copy is incoming/NAME
# until it is whole: a file, or a directory.

prepare() {
    mkdir -p store incoming files || fail refused "cannot write below $root"
}

# Links may be followed as long as they stay below the root.
inside() {
    case $(realpath -e "$1" 2> /dev/null) in
    "$(pwd -P)"/*) ;;
    *) fail refused "$1 leads out of the site's directory" ;;
    esac
}

# Prints the size of a file, a line, then a piece of it as it is.
get() {
    [ -e "$1" ] || fail refused "$1 does not exist"
    inside "$1"
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

# Copies a file or directory of the site's own.
duplicate() {
    [ -e "$2" ] || fail refused "$2 does not exist"
    inside "$2"
    if [ -d "$2" ]; then
        bounded "$2"
        drop_copy "$1"
        cp -RP --preserve=mode "$2/." "incoming/$1"
    else
        cp "$2" "incoming/$1"
    fi || fail unsent "cannot write incoming/$1: is the disk full?"
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
    sync store 2> /dev/null
    :
}

# keep NAME FOLDER FILE: gives a whole copy its name among the users' files.
keep() {
    [ -f "incoming/$1" ] || fail refused "nothing of incoming/$1 is there"
    [ ! -h "files/$2" ] && mkdir -p "files/$2" || fail refused "files/$2 is no directory of ours"
    sync "incoming/$1" 2> /dev/null
    mv -T "incoming/$1" "files/$2/$3" || fail unsent "cannot write files/$2/$3"
    sync "files/$2" 2> /dev/null
}

forget() {
    [ -h "files/$1" ] || rm -f "files/$1/$2" || fail unsent "cannot remove files/$1/$2"
}

drop_copy() {
    try_open "incoming/$1" rm -rf "incoming/$1" || fail unknown "cannot remove incoming/$1"
}

has() {
    [ ! -e "store/$1" ] || printf 'whole\n'
}

delete() {
    [ -e "store/$1" ] || return 0
    # Moving a directory takes the right to write to it.
    [ ! -d "store/$1" ] || chmod u+w "store/$1"
    mv "store/$1" "incoming/gone.$own" || fail unknown "cannot remove store/$1"
    drop_copy "gone.$own"
}

# What cannot be told of directory $1 is refused: more levels than paths may have that can be used,
# and more bytes of names than an answer may have.
bounded() {
    deep=$(find "$1/" -mindepth 130 -print -quit 2> /dev/null | head -c 1)
    [ -z "$deep" ] || fail refused \
        "it is more than 128 levels deep; pack it into one file, and name that"
    names=$(find "$1/" -mindepth 1 -printf '%y %m %s %P %l ' 2> /dev/null \
        | head -c 30000001 | wc -c)
    [ "$((names))" -le 30000000 ] || fail refused \
        "its names take more than 30000000 bytes; pack it into one file, and name that"
}

# Prints what is below directory $1: kind, mode, size and path of each, NUL, what it points to, NUL.
list_tree() {
    [ -e "$1" ] || fail refused "$1 does not exist"
    [ -d "$1" ] || {
        printf 'file\n'
        return
    }
    inside "$1"
    bounded "$1"
    printf 'tree\n'
    { trouble=$(find "$1/" -mindepth 1 -printf '%y %m %s %P\0%l\0' 2>&1 >&3 | head -n 1); } 3>&1
    printf '\n'
    [ -z "$trouble" ] || fail refused "$trouble"
}

# get_runs DIRECTORY [PATH OFFSET LENGTH]...: prints these bytes of files below it.
get_runs() {
    [ -d "$1" ] || fail refused "$1 is not a directory"
    inside "$1"
    cd "$1" || fail refused "$1 cannot be entered"
    shift
    printf 'runs\n'
    while [ "$#" -gt 0 ]; do
        [ ! -h "$1" ] && [ -f "$1" ] && [ -r "$1" ] || {
            printf '\n'
            fail refused "$1 may not be read, or is no file any more"
        }
        case $2,$3 in
        *,0) ;;
        0,*) head -c "$3" "$1" ;;
        *) tail -c "+$(($2 + 1))" "$1" | head -c "$3" ;;
        esac
        shift 3
    done
    printf '\n'
}

# Enters copy $1, which is a directory.
enter_copy() {
    cd "incoming/$1" || fail refused "incoming/$1 is not there"
}

# Begins a copy that is a directory, or takes up what is there. No link is to lead anywhere while
# directories and files are made.
plant() {
    [ -d "incoming/$1" ] || drop_copy "$1"
    mkdir -p "incoming/$1" && chmod -R u+rwX "incoming/$1" && find "incoming/$1" -type l -delete \
        || fail unsent "cannot write incoming/$1: is the disk full?"
}

# grow NAME [PATH]...: makes directories in it, and tie NAME [PATH TARGET]... links.
grow() {
    enter_copy "$1"
    shift
    mkdir -p "$@" || fail unsent "cannot make directories: is the disk full?"
}

tie() {
    enter_copy "$1"
    shift
    while [ "$#" -gt 0 ]; do
        ln -sfn -- "$2" "$1" || fail unsent "cannot make $1: is the disk full?"
        shift 2
    done
}

# fill NAME [MODE PATH OFFSET LENGTH]...: appends to its files, of which so many bytes are there.
fill() {
    enter_copy "$1"
    shift
    while [ "$#" -gt 0 ]; do
        there=0
        [ ! -f "$2" ] || there=$(($(wc -c < "$2")))
        [ "$there" -eq "$3" ] || fail refused "$there bytes of $2 are there, and not $3"
        if [ "$4" -eq 0 ]; then : >> "$2"; else head -c "$4" >> "$2"; fi \
            || fail unsent "cannot write $2: is the disk full?"
        [ "$1" = plain ] || chmod u+x "$2"
        shift 4
    done
}

# settle NAME DIGEST SHA256: gives a whole directory its name in the store. The sum is that of all
# its files, one behind the other.
settle() {
    [ ! -e "store/$2" ] || {
        drop_copy "$1"
        return
    }
    if command -v sha256sum > /dev/null; then
        sum=$(cd "incoming/$1" && find . -type f -print0 | sort -z | xargs -0r cat | sha256sum)
        [ "${sum%% *}" = "$3" ] || fail refused "what arrived is not what was sent"
    fi
    find "incoming/$1" -type f \( -perm /111 -exec chmod 555 {} + -o -exec chmod 444 {} + \) \
        && find "incoming/$1" -mindepth 1 -type d -exec chmod 555 {} + \
        && chmod 700 "incoming/$1" || fail unsent "incoming/$1 cannot be sealed"
    sync -f "incoming/$1" 2> /dev/null
    mv -T "incoming/$1" "store/$2" 2> /dev/null || [ -e "store/$2" ] \
        || fail unsent "cannot write store/$2"
    chmod 555 "store/$2"
    sync store 2> /dev/null
    drop_copy "$1"
}
