# Makes a directory the root of a site, or finds that it is already. Which one may become a root is
# the same as in ../place.rs, which judges those of this machine: nothing that is there is changed.
# POSIX shell, with find, stat, realpath and id as GNU has them.
#
# usage: sh -c TEXT script ROOT SITE SECONDS initialise

set -f
umask 077
export LC_ALL=C
nl='
'
root=$1 site=$2 seconds=$3

unfit() {
    fail refused "$root cannot be the root of $site: $1"
}

# Ends well if $root may be made one. Whatever bears the site's mark may go on.
judge() {
    marker= whole=1
    [ ! -f "$root/site-id" ] || { IFS= read -r marker < "$root/site-id"; } 2> /dev/null || whole=
    [ "$marker" != "cospan site $site" ] || return 0
    # Cut off by a loss of power: then the rest must be ours.
    [ -n "$whole" ] || case "cospan site $site" in "$marker"*) marker= ;; esac
    [ -z "$marker" ] || unfit "its site-id names another site; give each site its own directory"
    judge_path
    judge_use
    judge_above
    judge_itself
}

# A path that leads nowhere else than it says.
judge_path() {
    case $root/ in
    */../*) unfit "it is reached by way of \"..\"; name the directory itself: $(realpath -m -- "$root")" ;;
    esac
    at=$root
    while [ "$at" != / ]; do
        if [ -h "$at" ]; then
            unfit "it is reached by a symbolic link, $at -> $(readlink -- "$at"); name the directory itself: $(realpath -m -- "$root")"
        fi
        if [ -e "$at" ] && [ ! -d "$at" ]; then
            [ "$at" = "$root" ] && below= || below="below $at, which is "
            unfit "it is $below$(stat -c %F -- "$at" | kind); give the site a directory of its own"
        fi
        at=$(dirname -- "$at")
    done
}

# What people call it.
kind() {
    sed 's/^fifo$/a named pipe/; s/^regular.*/a file/; s/^socket/a socket/; s/.*special file$/a device/'
}

# What people and the machine live by.
judge_use() {
    system="a directory of the system; give the site a directory of its own"
    case $root in
    / | /home | /lost+found | /media | /mnt | /opt | /root | /run | /run/lock | /run/shm | /run/user | /dev/shm | \
        /srv | /tmp | /usr/local | /var | /var/backups | /var/cache | /var/lib | /var/local | /var/lock | \
        /var/log | /var/mail | /var/opt | /var/run | /var/spool | /var/tmp | /var/www) unfit "it is $system" ;;
    /dev/shm/* | /usr/local/*) ;;
    /bin | /boot | /dev | /etc | /lib | /lib32 | /lib64 | /libx32 | /proc | /sbin | /sys | /usr | /bin/* | \
        /boot/* | /dev/* | /etc/* | /lib/* | /lib32/* | /lib64/* | /libx32/* | /proc/* | /sbin/* | /sys/* | \
        /usr/*) unfit "it is $system" ;;
    esac
    homes=$(limited getent passwd 2> /dev/null || cat /etc/passwd)
    homes=$(printf '%s\n' "$homes" | cut -d : -f 6)$nl${HOME-}
    while IFS= read -r home; do
        case $home/ in
        //) ;;
        "$root/") unfit "it is a home directory; give the site a directory of its own, like $home/cospan" ;;
        "$root/"*) unfit "it is above the home directory $home; give the site a directory of its own" ;;
        esac
    done << END
$homes
END
    [ ! -d "$root" ] || [ "$(stat -c %m -- "$root" 2> /dev/null)" != "$root" ] \
        || unfit "it is the mount point of a file system; give the site a directory of its own, like $root/cospan"
}

# Whoever can rename what is in a directory above can put another in the root's place.
judge_above() {
    at=$(dirname -- "$root") us=$(id -u)
    if [ -d "$at" ] && [ -n "$(find "$at" -maxdepth 0 -perm -020 ! -perm -1000 ! -gid 0 ! -gid "$(id -g)")" ]; then
        unfit_above
    fi
    while :; do
        if [ -d "$at" ]; then
            # Its owner can rename what is in it, even if it is sticky. 65534: users that a container
            # does not know.
            owner=$(stat -c %u -- "$at")
            case $owner in
            0 | 65534 | "$us") ;;
            *) unfit "others can put another directory in its place: $at belongs to user $owner, not to root or to user $us who runs this; name one below a directory of your own" ;;
            esac
            [ -z "$(find "$at" -maxdepth 0 -perm -002 ! -perm -1000)" ] || unfit_above
            marker=
            [ ! -f "$at/site-id" ] || { IFS= read -r marker < "$at/site-id"; } 2> /dev/null
            case $marker in
            'cospan site '*) unfit "it lies inside the root of another site, $at; give each site its own directory" ;;
            esac
        fi
        [ "$at" != / ] || break
        at=$(dirname -- "$at")
    done
    marker=
}

unfit_above() {
    unfit "others can put another directory in its place: $at can be changed by others (mode $(stat -c %a -- "$at"), not sticky); name one below a directory of your own"
}

judge_itself() {
    [ -d "$root" ] || return 0
    [ "$(stat -c %u -- "$root")" = "$(id -u)" ] \
        || unfit "it belongs to user $(stat -c %u -- "$root"), not to user $(id -u) who runs this; name one that is not there yet"
    is_known || is_begun
    [ -z "$(find "$root" -maxdepth 0 \( -perm -002 -o -perm -020 ! -gid 0 ! -gid "$(id -g)" \))" ] \
        || unfit "others can write to it (mode $(stat -c %a -- "$root")); look at what is in it, and then run: chmod 700 $root"
}

# A root that has been at work, whose mark a loss of power took. Others may have directories of these
# names; the beginning of a mark, or the name of its owner, only we write.
is_known() {
    [ -d "$root/attempts" ] && [ -d "$root/spool" ] && [ -d "$root/live" ] && [ -d "$root/gone" ] || return 1
    if [ -f "$root/site-id" ] && [ ! -h "$root/site-id" ]; then
        case $(head -c 7 "$root/site-id" 2> /dev/null | tr -d '\000') in ('cospan ') return 0 ;; esac
    fi
    [ -f "$root/owner" ] && [ ! -h "$root/owner" ] && grep -q '^instance .' "$root/owner" \
        && grep -q '^host .' "$root/owner" && grep -q '^pid [0-9][0-9]*$' "$root/owner"
}

# Nothing is in it but users' files where they belong, or what an initialisation left that was cut off.
# All else that has a name of ours is somebody's.
is_begun() {
    held=$(find "$root" -mindepth 1 -maxdepth 1 ! \( -name site-id -type f -o -type d \( -name gone -o -name files \) \
        -o -type d -empty \( -name attempts -o -name spool -o -name live -o -name store -o -name incoming \
        -o -name inspect -o -name trash -o -name links \) \) -printf '"%f", ' -quit)
    [ -n "$held" ] || holds_only_marks || held='"gone", '
    [ -z "$held" ] || unfit "it has no site-id, and it is not empty: it holds ${held%, }; name a directory that is empty or not there yet"
}

# Nothing is in its gone but marks that were being written, whole or not.
holds_only_marks() {
    [ -d "$root/gone" ] || return 0
    others=$(find "$root/gone" -mindepth 1 ! \( -type f \( -name 'site-id.*' -o -name '*-*.tmp' \
        ! -name '*[!0-9-]*.tmp' \) \) -printf x -quit)
    others=$others$(find "$root/gone" -mindepth 1 -type f | while IFS= read -r file; do
        content=$(tr -d '\000' < "$file" 2> /dev/null) || printf x
        case "cospan site $site" in ("$content"*) ;; (*) printf x ;; esac
    done)
    [ -z "$others" ]
}

unwritable() {
    fail refused "cannot write below $root; see that this account may write there, and that there is room"
}

# A marker comes last, so that half a site is none.
initialise() {
    judge
    mkdir -p "$root" && cd "$root" || fail refused "cannot make $root; see that this account may write there"
    mkdir -p attempts spool live gone || unwritable
    [ -n "$marker" ] && return
    printf 'cospan site %s\n' "$site" > "gone/site-id.$own" || unwritable
    sync "gone/site-id.$own" . 2> /dev/null
    mv "gone/site-id.$own" site-id || unwritable
    sync . 2> /dev/null
}

initialise
printf 'done\n'
