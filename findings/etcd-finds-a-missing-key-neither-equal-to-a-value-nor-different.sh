#!/usr/bin/env bash
# etcd 3.4.23 (Debian 12: etcd-server, etcd-client), one member, on loopback; and 3.5.16 (Debian 13).
#
# One would expect: a transaction with the condition value("state") != "done" goes ahead if the key has another value
# or is not there at all, since then = "done" does not hold. For a key that is not there the version, revisions and lease are
# 0 in such conditions, so the value might be the empty one.
# What it does: each condition on the value of a missing key fails: =, !=, < and >, also ="". So "put it to running unless it
# is done" never starts what has no entry yet, and takes the same branch as what is done; the answer is that of a condition
# that does not hold, with no error. Those on version, create and mod revision hold for 0: mod("state") < "5" is true.
#
# Seen, on both:
#   the key is "done":  value = "done" holds, != "done" fails
#   the key is "":      value = "" holds, != "done" holds, < "done" holds
#   the key is missing: value = "" fails, != "done" fails, < "done" fails, > "" fails
#                       version = "0" holds, mod < "5" holds, create != "7" holds
set -euo pipefail
dir=$(mktemp -d)
pid=
trap 'kill -9 $pid 2> /dev/null || true; wait; rm -rf "$dir"' EXIT

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
ctl() { timeout -k 5 120 "$root/usr/bin/etcdctl" --endpoints "$client" "$@"; }
holds() { # CONDITION
    ctl txn <<< "$1"$'\n\n'"put verdict holds"$'\n\n'"put verdict fails"$'\n' > /dev/null
    echo "$1 $(ctl get verdict --print-value-only)"
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
        ctl put full done > /dev/null
        ctl put empty '' > /dev/null
        for condition in 'value("full") = "done"' 'value("full") != "done"' 'value("empty") = ""' \
            'value("empty") != "done"' 'value("empty") < "done"' 'value("missing") = ""' 'value("missing") != "done"' \
            'value("missing") < "done"' 'value("missing") > ""' 'version("missing") = "0"' 'mod("missing") < "5"' \
            'create("missing") != "7"'; do
            holds "$condition"
        done
        kill -9 "$pid"; wait "$pid" 2> /dev/null || true
        pid=
    done
} > "$dir/seen"
of='value("full") = "done" holds
value("full") != "done" fails
value("empty") = "" holds
value("empty") != "done" holds
value("empty") < "done" holds
value("missing") = "" fails
value("missing") != "done" fails
value("missing") < "done" fails
value("missing") > "" fails
version("missing") = "0" holds
mod("missing") < "5" holds
create("missing") != "7" holds'
diff <(printf '%s\n' 3.4.23 "$of" 3.5.16 "$of") "$dir/seen" || { echo 'It behaves otherwise now.' >&2; exit 1; }
cat "$dir/seen"
