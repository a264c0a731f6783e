#!/usr/bin/env bash
# Task Spooler 1.0.3 (Debian 13: task-spooler): tsp, a queue of commands on one machine.
#
# One would expect: id=$(tsp COMMAND) gives the job's number, with -n too, which says only that the output is not kept. And
# what is no number is refused where a number is asked for, or at least not taken for some job.
# What it does: with -n nothing is printed, and the status is 0. Then tsp -w $id is tsp -w, which waits for the job that was
# added last, whosever, and gives its exit status. And tsp -w "$id" waits for job 0, since each text that does not begin with
# digits is 0: so tsp -k "$id" ends job 0 and says nothing, and a job added with -D "$id" is run if job 0 went well. -D 1,2
# waits for job 1 and not for 2. A number that no job has is refused, but by -D, which skips the command and gives 0.
#
# Seen; job 0 exits with 3, job 1 (added with -n) with 4, job 2 with 5:
#   tsp sh -c 'exit 3'        prints 0       tsp -w 1            4
#   tsp -n sh -c 'exit 4'     prints nothing tsp -w (no number)  5
#   tsp -w ""                 3              tsp -w job          3
#   tsp -w 99                 255            tsp -D "" true      skipped, as job 0 failed
#   tsp -D 3,1 true           run, though job 1 failed (job 3 went well)
#   tsp -k "", job 0 runs     job 0 is ended, status 0
set -euo pipefail
dir=$(mktemp -d)
tsp() {
    local lib=("$dir"/trixie/usr/lib/*-linux-gnu)
    TS_SOCKET=$dir/socket TMPDIR=$dir "${lib[0]}"/ld-linux-*.so.* --library-path "${lib[0]}" "$dir/trixie/usr/bin/tsp" "$@"
}
finish() {
    [ ! -S "$dir/socket" ] || tsp -K
    rm -rf "$dir"
}
trap finish EXIT

# Debian's packages are unpacked below the directory; nothing is installed.
unpack() { # SUITE PACKAGE...
    local apt=$dir/$1.apt mirror deb
    mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
    mkdir -p "$apt"/{lists,cache} "$dir/$1"/usr/{lib,lib64}
    ln -s usr/lib usr/lib64 "$dir/$1"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$apt/list"
    : > "$apt/status"
    local options=(-qq -o Dir::Etc::sourcelist="$apt/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    (cd "$apt" && apt-get "${options[@]}" download "${@:2}" > /dev/null)
    for deb in "$apt"/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$dir/$1" --keep-directory-symlink; done
    rm -r "$apt"
}
unpack trixie 'task-spooler=1.0.3+dfsg1-1*' libc6

code() { "$@" > /dev/null 2>&1 && echo 0 || echo $?; }
state() { # NUMBER
    until [ "$(tsp -s "$1")" != queued ] && [ "$(tsp -s "$1")" != running ]; do sleep 0.1; done
    tsp -s "$1"
}
{
    echo "prints '$(tsp sh -c 'exit 3')' '$(tsp -n sh -c 'exit 4')' '$(tsp sh -c 'exit 5')'"
    state 2 > /dev/null
    echo "waits: 1 $(code tsp -w 1), none $(code tsp -w), empty $(code tsp -w '')," \
        "job $(code tsp -w job), 99 $(code tsp -w 99)"
    tsp true > "$dir/number"
    echo "job $(cat "$dir/number"): $(state 3)"
    tsp -D '' true > "$dir/number"
    echo "-D '' is job $(cat "$dir/number"): $(state 4)"
    tsp -D 3,1 true > "$dir/number"
    echo "-D 3,1 is job $(cat "$dir/number"): $(state 5)"
    tsp -D 1,3 true > "$dir/number"
    echo "-D 1,3 is job $(cat "$dir/number"): $(state 6)"
    tsp -D 99 true > "$dir/number"
    echo "-D 99 is job $(cat "$dir/number"): $(state 7)"
    tsp -K
    sleep 0.5
    tsp sleep 100 > "$dir/number"
    sleep 1
    echo "-k '': $(code tsp -k ''), then job $(cat "$dir/number") $(state 0)"
    tsp -K
    sleep 0.5
} > "$dir/seen" 2> "$dir/log" || { cat "$dir/log" >&2; exit 1; }
expected="prints '0' '' '2'
waits: 1 4, none 5, empty 3, job 3, 99 255
job 3: finished
-D '' is job 4: skipped
-D 3,1 is job 5: finished
-D 1,3 is job 6: skipped
-D 99 is job 7: skipped
-k '': 0, then job 0 finished"
diff <(echo "$expected") "$dir/seen" || { echo 'It behaves otherwise now.' >&2; exit 1; }
cat "$dir/seen"
