#!/usr/bin/env bash
# jx2json 7.14.5 (Debian 13: coop-computing-tools 1:7.14.5-1): JX, the notation for workflows of Makeflow and Work Queue, which
# is JSON with expressions.
#
# One would expect: 10 - 2 - 3 is 5, as in Python, JavaScript, C and on paper; JX looks like the first two.
# What it does: operators of one rank are taken from the right: 10 - (2 - 3). So with -, /, % and any mix of + and - or of
# * and /: 60 - 10 + 5 is 45. Multiplication does bind tighter than addition, and one operator alone is right, so short
# examples are. A workflow that computes the memory, the time or the numbers of its rules asks for other ones,
# without a word. Brackets help.
#
# Seen:
#   10 - 2 - 3       11
#   10 - 1 - 1 - 1   10 - (1 - (1 - 1)) = 9
#   60 - 10 + 5      45
#   100 / 10 * 2     5
#   8 / 4 / 2        4
#   100 % 7 % 4      1
#   (10 - 2) - 3     5
#   24 - 4 * 3       12
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Debian's packages are unpacked below the directory; nothing is installed.
unpack() { # SUITE PACKAGE...
    local apt=$dir/$1.apt mirror deb
    mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
    mkdir -p "$apt"/{lists,cache} "$dir/$1"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$apt/list"
    : > "$apt/status"
    local options=(-qq -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    (cd "$apt" && apt-get "${options[@]}" download "${@:2}" > /dev/null)
    for deb in "$apt"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/$1" --exclude='./usr/share/*'; done
    rm -r "$apt"
}
unpack trixie 'coop-computing-tools=1:7.14.5-1*' libc6 libssl3t64 libzstd1 zlib1g

lib=$(echo "$dir"/trixie/usr/lib/*-linux-gnu)
seen=$(
    for text in '10 - 2 - 3' '10 - 1 - 1 - 1' '60 - 10 + 5' '100 / 10 * 2' '8 / 4 / 2' '100 % 7 % 4' '(10 - 2) - 3' \
        '24 - 4 * 3'; do
        echo "$text" > "$dir/text.jx"
        value=$("$lib"/ld-linux-*.so.* --library-path "$lib" "$dir/trixie/usr/bin/jx2json" "$dir/text.jx")
        echo "$text:" $value
    done
)
expected='10 - 2 - 3: 11
10 - 1 - 1 - 1: 9
60 - 10 + 5: 45
100 / 10 * 2: 5
8 / 4 / 2: 4
100 % 7 % 4: 1
(10 - 2) - 3: 5
24 - 4 * 3: 12'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
