#!/usr/bin/env bash
# busybox 1.35.0 (Debian 12) and 1.37.0 (Debian 13), next to dash 0.5.12, mksh 59c and bash 5.2.15: a script signals the
# process group of a program that it started. POSIX has `kill -s SIGNAL -- -GROUP` for that, and a careful script goes
# on with `|| kill -s SIGNAL PID`, in case the program has not made its group yet.
#
# One would expect: exit status 0, and one signal for each process of the group.
# What it does: busybox takes `--` for a number, complains ("invalid number '--'"), signals the group all the same, and
# ends with status 1. So the second kill is run too, and the program gets the signal twice: a handler that saves its work
# runs twice whenever the first signal arrived before the second was sent. `kill -SIGNAL -GROUP` is understood by all
# four shells; `kill -SIGNAL -- -GROUP` signals and fails in busybox, and does neither in dash.
#
# Seen (exit status, and whether the program was signalled):
#                            busybox    dash      mksh      bash
#   kill -s USR1 -- -GROUP   1, yes     0, yes    0, yes    0, yes
#   kill -USR1 -- -GROUP     1, yes     2, no     0, yes    0, yes
#   kill -s USR1 -GROUP      0, yes     2, no     1, no     0, yes
#   kill -USR1 -GROUP        0, yes     0, yes    0, yes    0, yes
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
unpack bookworm 'busybox=1:1.35.0-4*' 'dash=0.5.12-2*' 'mksh=59c-28*' 'bash=5.2.15-2*'
unpack trixie 'busybox=1:1.37.0-6*'

cat > "$dir/kill.sh" << 'EOF'
# $1: a folder of its own; the others: the arguments of kill, GROUP for the group.
cd "$1" || exit
shift
mkfifo door
setsid sh -c 'trap "echo signalled > heard" USR1; exec 3<> door; : > waits; read word <&3; : > over' &
program=$!
until [ -e waits ]; do sleep 0.05; done
sleep 0.2
n=$#
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    [ "$word" != -GROUP ] || word=-$program
    set -- "$@" "$word"
    n=$((n - 1))
done
kill "$@" 2> complaint
echo $? > status
sleep 0.5
kill -KILL "$program" 2> /dev/null
EOF

failed=0
check() { # SUITE, SHELL WITH ITS ARGUMENT, EXPECTED, KILL-ARGUMENTS...
    local place seen lib=$(echo "$dir/$1"/usr/lib/*-linux-gnu) words
    read -ra words <<< "$2"
    place=$(mktemp -d -p "$dir")
    "$lib"/ld-linux-*.so.* --library-path "$lib" "$dir/$1/bin/${words[0]}" "${words[@]:1}" "$dir/kill.sh" \
        "$place" "${@:4}" > /dev/null 2>&1 || true
    seen="$(cat "$place/status"), $([ -e "$place/heard" ] && echo yes || echo no)"
    printf '%s, %s: kill %s: %s %s\n' "$1" "$2" "${*:4}" "$seen" "$(sed 's/.*: //' "$place/complaint")"
    [ "$seen" = "$3" ] || failed=1
}

for suite in bookworm trixie; do
    check $suite 'busybox sh' '1, yes' -s USR1 -- -GROUP
    check $suite 'busybox sh' '1, yes' -USR1 -- -GROUP
    check $suite 'busybox sh' '0, yes' -s USR1 -GROUP
    check $suite 'busybox sh' '0, yes' -USR1 -GROUP
done
while IFS=: read -r name first second third fourth; do
    check bookworm "$name" "$first" -s USR1 -- -GROUP < /dev/null
    check bookworm "$name" "$second" -USR1 -- -GROUP < /dev/null
    check bookworm "$name" "$third" -s USR1 -GROUP < /dev/null
    check bookworm "$name" "$fourth" -USR1 -GROUP < /dev/null
done << 'ROWS'
dash:0, yes:2, no:2, no:0, yes
mksh:0, yes:0, yes:1, no:0, yes
bash:0, yes:0, yes:0, yes:0, yes
ROWS
[ "$failed" -eq 0 ] || { echo 'It behaves otherwise now.' >&2; exit 1; }
