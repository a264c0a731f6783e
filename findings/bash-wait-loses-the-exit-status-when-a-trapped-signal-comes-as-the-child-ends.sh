#!/usr/bin/env bash
# bash 5.2.15 (Debian 12) and 5.2.37 (Debian 13), next to dash 0.5.12, mksh 59c and busybox 1.35.0's sh: a script
# waits for its program, whose exit status it wants, by `wait PID`, and traps a signal (a time limit that is near, a
# word from another process). Such a wait ends early, with a status above 128, and one waits again.
#
# One would expect: as soon as no signal comes between, `wait PID` gives the program's own status, which the shell
# keeps until it was asked for. POSIX has it so.
# What it does: if the signal comes as the child ends, bash forgets the status. `wait PID` after that gives
# -1, which no process can end with, or now and then 127, as for a process that never was, every time. The test for
# a wait that was cut short, `[ $? -gt 128 ]`, is false for both; `exit "$?"` makes 255 of -1. Whether the program
# went well can not be known any more. No other status comes in its place: one from 0 to 126 is never wrong, but missing.
# --posix does not help. The other shells always have the status, at the latest when asked once more.
#
# Seen, of 400 children that exit with 7, each, for how many the status was never to be had:
#   dash, mksh, busybox sh               0
#   bash 5.2.15, also with --posix      25 to 300, -1 for nearly all, 127 for one now and then
#   bash 5.2.37, also with --posix      60 to 320, likewise
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Debian's packages and what they need are unpacked below the directory; nothing is installed.
unpack() { # SUITE PACKAGE...
    local root=$dir/$1 apt=$dir/$1.apt mirror part deb
    mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
    mkdir -p "$apt/lists" "$apt/cache" "$root"/usr/{bin,sbin,lib,lib64}
    for part in bin sbin lib lib64; do ln -s "usr/$part" "$root/$part"; done
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$apt/list"
    : > "$apt/status"
    local options=(-qq -y -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    apt-get "${options[@]}" --no-install-recommends --download-only install "${@:2}" > /dev/null 2>&1
    for deb in "$apt"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share/*'
    done
    rm -r "$apt"
}
unpack bookworm 'bash=5.2.15-2*' 'dash=0.5.12-2*' 'mksh=59c-28*' 'busybox=1:1.35.0-4*'
unpack trixie 'bash=5.2.37-2*'

cat > "$dir/rounds.sh" <<'ROUNDS'
trap 'came=1' USR2
round=0
while [ $round -lt 400 ]; do
    round=$((round + 1))
    (exit 7) &
    child=$!
    (kill -USR2 $$; kill -USR2 $$; kill -USR2 $$; : > "$1/$round") &
    # Again while a signal may have cut it short and the child is still there.
    while :; do
        came=
        wait "$child"; status=$?
        [ -n "$came" ] || [ "$status" -gt 128 ] || break
        kill -0 "$child" 2> /dev/null || break
    done
    # Then twice more, when no signal will come.
    until [ -e "$1/$round" ]; do :; done
    for more in 1 2; do
        [ "$status" -ne 7 ] || break
        wait "$child" 2> /dev/null; status=$?
    done
    echo "$status"
done
ROUNDS

rounds() { # SUITE SHELL [ARGUMENT]: how often which status
    local lib=$(echo "$dir/$1"/usr/lib/*-linux-gnu)
    rm -rf "$dir/sent"
    mkdir "$dir/sent"
    LC_ALL=C timeout 25 "$lib"/ld-linux-*.so.* --library-path "$lib" "$dir/$1/bin/$2" "${@:3}" "$dir/rounds.sh" \
        "$dir/sent" 2> /dev/null | sort -n | uniq -c | awk '{ printf "%s%d times %s", (NR > 1 ? ", " : ""), $1, $2 }'
}
code=0
check() { # `none` lost or `some`, then as above
    local seen=$(rounds "${@:2}")
    echo "${*:2}: $seen"
    # No other status than 7, -1 and 127, whatever the shell.
    case $(echo "$seen" | sed 's/[0-9]* times //g') in
    7 | '-1, 7' | '7, 127' | '-1, 7, 127') ;;
    *) code=1 ;;
    esac
    if [ "$1" = none ]; then [ "$seen" = '400 times 7' ] || code=1
    else [ "$seen" != '400 times 7' ] || code=1; fi
}
check none bookworm dash
check none bookworm mksh
check none bookworm busybox sh
check some bookworm bash
check some bookworm bash --posix
check some trixie bash
check some trixie bash --posix
[ "$code" -eq 0 ] || { echo 'It behaves otherwise now.' >&2; exit 1; }
