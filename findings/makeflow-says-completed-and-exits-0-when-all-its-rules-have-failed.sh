#!/usr/bin/env bash
# makeflow 7.14.5 (Debian 13: coop-computing-tools 1:7.14.5-1), workflows in the notation of make, on the local machine.
#
# One would expect: as with make, exit status 0 if all that was to be made is there, and otherwise not; and the journal's last
# line is COMPLETED or FAILED accordingly.
# What it does: a rule whose command fails is tried five times more and then given up ("failed too many times"). Then makeflow
# says "nothing left to do.", writes COMPLETED into its journal and exits with 0; the rules behind it are not run. A rule that
# asks for more processors or memory than the machine has is not even tried, and nothing is said of it; the rest is the same.
# So `makeflow && publish` publishes. Only what it sees before it starts, such as an input that nothing makes, gives status 1.
#
# Seen (exit status, last word of the journal, files made):
#   a rule that works                    0, COMPLETED, out
#   its command exits with 3             0, COMPLETED, none (the command was run six times)
#   the same, and another rule after it  0, COMPLETED, none
#   CORES=100000                         0, COMPLETED, none (it was run never)
#   MEMORY=1000000000                    0, COMPLETED, none (it was run never)
#   an input that nothing makes          1, FAILED, none
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
unpack trixie 'coop-computing-tools=1:7.14.5-1*' libc6 libssl3t64 libzstd1 zlib1g libltdl7 libglobus-gss-assist3t64 \
    libglobus-gssapi-gsi4t64 libglobus-common0t64 libglobus-gsi-sysconfig1t64 libglobus-gsi-cert-utils0t64 libglobus-callout0t64 \
    libglobus-gsi-credential1t64 libglobus-openssl-module0t64 libglobus-gsi-openssl-error0t64 libglobus-gsi-callback0t64 \
    libglobus-gsi-proxy-core0t64 libglobus-gsi-proxy-ssl1

lib=$(echo "$dir"/trixie/usr/lib/*-linux-gnu)
try() { # NAME, THE MAKEFLOW
    local place code=0 made runs=0
    place=$(mktemp -d -p "$dir")
    printf "$2" > "$place/Makeflow"
    (cd "$place" && exec "$lib"/ld-linux-*.so.* --library-path "$lib" "$dir/trixie/usr/bin/makeflow" -T local Makeflow) \
        > "$place.log" 2>&1 || code=$?
    made=$(cd "$place" && ls out more 2> /dev/null | paste -sd' ')
    [ ! -e "$place/tries" ] || runs=$(wc -l < "$place/tries")
    echo "$1: $code, $(tail -n 1 "$place/Makeflow.makeflowlog" | cut -d' ' -f2), ${made:-none}, run $runs times"
}
run='\techo >> tries; echo done > out'
seen=$(
    try works "CORES=1\nout:\n$run\n"
    try fails "out:\n$run; exit 3\n"
    try 'fails, and another' "out:\n$run; exit 3\n\nmore: out\n\tcat out > more\n"
    try CORES=100000 "CORES=100000\nout:\n$run\n"
    try MEMORY=1000000000 "CORES=1\nMEMORY=1000000000\nout:\n$run\n"
    try 'no input' "out: nothing\n$run\n"
)
expected='works: 0, COMPLETED, out, run 1 times
fails: 0, COMPLETED, none, run 6 times
fails, and another: 0, COMPLETED, none, run 6 times
CORES=100000: 0, COMPLETED, none, run 0 times
MEMORY=1000000000: 0, COMPLETED, none, run 0 times
no input: 1, FAILED, none, run 0 times'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
