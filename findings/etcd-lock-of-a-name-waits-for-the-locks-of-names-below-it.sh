#!/usr/bin/env bash
# etcd 3.4.23 (Debian 12: etcd-server, etcd-client), one member, on loopback; and 3.5.16 (Debian 13).
#
# One would expect: locks are told apart by their names. To hold "site/queue" says nothing about "site", or, if it
# does as in a tree, then either way round. The same for elections.
# What it does: a lock's key is its name, a slash and the lease, and its owner is the oldest key that begins with the
# name and a slash. The key of whoever holds "site/queue" begins with "site/", so "site" waits for it; "site/queue" does
# not wait for "site". Who holds the first and asks for the second waits for himself, for good; so does everyone if any
# value whatever is kept under "site/". An election does alike: the leader of "site/queue" is shown as the leader of
# "site", and who stands for "site" is not elected.
#
# Seen, on both:
#   site/queue is held, site is asked for    waits
#   site is held, site/queue is asked for    at once
#   site/queue is held, sites is asked for   at once
#   a value is kept under site/note          site waits, and no lock is held
#   leader of site/queue, seen at site       ours, and who stands for site waits
set -euo pipefail
dir=$(mktemp -d)
pid= leader=
trap 'kill -9 $leader $pid 2> /dev/null || true; wait; rm -rf "$dir"' EXIT

# Debian's packages are unpacked below the directory; nothing is installed.
mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
    $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
unpack() { # release, packages
    mkdir -p "$dir/$1/"{lists,cache}
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" > "$dir/$1/list"
    local options=(-qq -o Dir::Etc::sourcelist="$dir/$1/list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists="$dir/$1/lists" -o Dir::Cache="$dir/$1/cache"
        -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${options[@]}" update > /dev/null
    (cd "$dir/$1" && apt-get "${options[@]}" download "${@:2}" > /dev/null)
    for deb in "$dir/$1"/*.deb; do dpkg-deb -x "$deb" "$dir/$1/root"; done
}
unpack bookworm 'etcd-server=3.4.23-4*' 'etcd-client=3.4.23-4*'
unpack trixie 'etcd-server=3.5.16-4*' 'etcd-client=3.5.16-4*'

port=$((20000 + RANDOM % 12000))
client=http://127.0.0.1:$port peer=http://127.0.0.1:$((port + 1))
export ETCDCTL_API=3
ctl() { timeout -k 5 "${limit:-120}" "$root/usr/bin/etcdctl" --endpoints "$client" "$@"; }
await() { # a file that is to be no longer empty
    for _ in {1..600}; do [ -s "$1" ] && return || sleep 0.1; done
    echo "$1 stays empty" >&2; exit 1
}
ask() { # name that is held, name that is asked for
    rm -f "$dir/held" "$dir/go" "$dir/leader"
    ctl lock "$1" -- sh -c "echo > $dir/held; until [ -e $dir/go ]; do sleep 0.1; done" &
    await "$dir/held"
    echo "$1 held, $2 asked for: $(limit=15 ctl lock "$2" -- echo 'at once' 2> /dev/null || echo waits)"
    touch "$dir/go"; wait $!
}
{
    for release in bookworm trixie; do
        root=$dir/$release/root
        "$root/usr/bin/etcd" --data-dir "$dir/data.$release" --listen-client-urls $client --advertise-client-urls $client \
            --listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster default=$peer \
            > "$dir/log" 2>&1 &
        pid=$!
        until ctl endpoint health > /dev/null 2>&1; do
            kill -0 "$pid" || { cat "$dir/log" >&2; exit 1; }
            sleep 0.2
        done
        ctl version | sed -n 's/etcdctl version: //p'
        ask site/queue site
        ask site site/queue
        ask site/queue sites
        ctl put site/note value > /dev/null
        echo "value at site/note, site asked for: $(limit=15 ctl lock site -- echo 'at once' 2> /dev/null || echo waits)"
        ctl del site/note > /dev/null
        "$root/usr/bin/etcdctl" --endpoints "$client" elect site/queue ours > "$dir/leader" 2> /dev/null &
        leader=$!
        await "$dir/leader"
        echo "leader of site: $(limit=10 ctl elect --listen site 2> /dev/null | sed 's/queue.*/.../' | xargs || true)"
        echo "standing for site: $(limit=15 ctl elect site theirs 2> /dev/null | grep . || echo waits)"
        kill "$leader"; wait "$leader" || true; leader=
        kill "$pid"; wait "$pid" || true; pid=
    done
} > "$dir/seen"
seen=$(< "$dir/seen")
expected='3.4.23
site/queue held, site asked for: waits
site held, site/queue asked for: at once
site/queue held, sites asked for: at once
value at site/note, site asked for: waits
leader of site: site/... ours
standing for site: waits
3.5.16
site/queue held, site asked for: waits
site held, site/queue asked for: at once
site/queue held, sites asked for: at once
value at site/note, site asked for: waits
leader of site: site/... ours
standing for site: waits'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
