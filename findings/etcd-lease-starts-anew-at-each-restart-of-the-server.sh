#!/usr/bin/env bash
# etcd 3.4.23 (Debian 12: etcd-server, etcd-client), one member, on loopback.
#
# One would expect: a lease runs out its time to live after its last keep-alive. What its holder has, a lock, a place
# as leader or in the list of workers, is free then; a stop of the server that is shorter than that adds nothing,
# for leases, as all else, are kept on disk.
# What it does: only the whole time to live is kept, not what is left of it. At every start of the server all leases
# begin anew. The lock of a holder that is dead is held for the whole time once more, and a server that is restarted
# more often than that, as by a supervisor, holds it for good.
#
# Seen, of a lease of 20 s without any keep-alive:
#   after 10 s               9 s left
#   server restarted         20 s left
#   10 s later               10 s left
#   killed and started       20 s left
#   10 s later, at 30 s      its key is still there
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2> /dev/null; wait; rm -rf "$dir"' EXIT

# Debian's packages are unpacked below the directory; nothing is installed.
mirror=$(awk '!/^#/ { for (i = 1; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
    $(ls /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources 2> /dev/null) < /dev/null)
mkdir -p "$dir"/apt/{lists,cache}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" > "$dir/apt/list"
options=(-qq -o Dir::Etc::sourcelist="$dir/apt/list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache"
    -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${options[@]}" update > /dev/null
(cd "$dir" && apt-get "${options[@]}" download 'etcd-server=3.4.23-4*' 'etcd-client=3.4.23-4*' > /dev/null)
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done

client=http://127.0.0.1:29171 peer=http://127.0.0.1:29172
etcdctl() { ETCDCTL_API=3 "$dir/root/usr/bin/etcdctl" --endpoints "$client" "$@"; }
start() {
    "$dir/root/usr/bin/etcd" --data-dir "$dir/data" --listen-client-urls $client --advertise-client-urls $client \
        --listen-peer-urls $peer --initial-advertise-peer-urls $peer --initial-cluster default=$peer \
        > "$dir/log" 2>&1 &
    pid=$!
    until etcdctl endpoint health > /dev/null 2>&1; do
        kill -0 "$pid" || { cat "$dir/log" >&2; exit 1; }
        sleep 0.2
    done
}
stop() {
    kill "$1" "$pid"
    { wait "$pid" || true; } 2> /dev/null
    pid=
}
code=0
# Says what is left and fails unless it is from LEAST to MOST seconds: left WHEN LEAST MOST
left() {
    local seconds=$(etcdctl lease timetolive "$lease" | sed -n 's/.*remaining(\(-*[0-9]*\)s)$/\1/p')
    echo "$1: ${seconds:-none} s left"
    [ "${seconds:-0}" -ge "$2" ] && [ "${seconds:-0}" -le "$3" ] || code=1
}
start
lease=$(etcdctl lease grant 20 | cut -d' ' -f2)
etcdctl put --lease="$lease" lock holder > /dev/null
sleep 10
left 'after 10 s' 3 10
stop -TERM
start
left 'server restarted' 14 20
sleep 10
left '10 s later' 3 10
stop -KILL
start
left 'killed and started' 14 20
sleep 10
echo "10 s later: lock=$(etcdctl get --print-value-only lock)"
[ "$(etcdctl get --print-value-only lock)" = holder ] || code=1
[ "$code" -eq 0 ] || { echo 'It behaves otherwise now.' >&2; exit 1; }
