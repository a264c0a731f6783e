#!/usr/bin/env bash
# SimGrid 3.32 (Debian 12: python3-simgrid 3.32-2), the simulator beneath Batsim and WRENCH.
#
# One would expect: one transfer alone, over one link, takes the latency and then its size by the
# bandwidth: 10^8 bytes over 10^8 bytes a second with 10 ms take 1.01 s; a single byte 10 ms; and
# 10^9 bytes over 10^9 bytes a second with 100 ms (two sites far apart) 1.1 s.
# What it does: its default model is of TCP. Latency counts 13.01 times, bandwidth 0.97 times, and a
# transfer has no more in flight than a window of 4 MiB, which on a long fat link sets the
# speed alone: the gigabyte takes 50 s, whatever the bandwidth is raised to. With the model CM02,
# no window (TCP-gamma:0), weight-S:0 and crosstraffic:0 it is what one would expect.
#
# Seen, seconds by default, and with those four settings:
#   1e8 B over 1e8 B/s and 10 ms    1.213   1.010
#   1 B over 1e9 B/s and 10 ms      0.130   0.010
#   1e9 B over 1e9 B/s and 100 ms   50.459  1.100
#   1e9 B over 1e11 B/s and 100 ms  50.459  0.110
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
apt-get update -qq >/dev/null
apt-get install -qq -y --no-install-recommends 'python3-simgrid=3.32-2*' >/dev/null 2>&1
cat > "$dir/one.py" <<'P'
import sys
from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone
engine = Engine(sys.argv)
bandwidth, latency, size = sys.argv[1:4]
zone = NetZone.create_full_zone("zone")
hosts = [zone.create_host(name, 1e9) for name in ("here", "there")]
link = zone.create_link("link", bandwidth + "Bps").set_latency(latency).seal()
zone.add_route(hosts[0].netpoint, hosts[1].netpoint, None, None, [LinkInRoute(link)], True)
zone.seal()
def there():
    Mailbox.by_name("box").get()
    print(f"{Engine.get_clock():.3f}")
Actor.create("here", hosts[0], lambda: Mailbox.by_name("box").put("data", int(float(size))))
Actor.create("there", hosts[1], there)
engine.run()
P
seen=$(
  while read -r size bandwidth latency; do
    run() { /usr/bin/python3 -W ignore "$dir/one.py" "$bandwidth" "$latency" "$size" "$@" 2>/dev/null; }
    echo "$size B over $bandwidth B/s and $latency: $(run) $(run --cfg=network/model:CM02 \
      --cfg=network/TCP-gamma:0 --cfg=network/weight-S:0 --cfg=network/crosstraffic:0)"
  done <<'L'
1e8 1e8 10ms
1 1e9 10ms
1e9 1e9 100ms
1e9 1e11 100ms
L
)
expected='1e8 B over 1e8 B/s and 10ms: 1.213 1.010
1 B over 1e9 B/s and 10ms: 0.130 0.010
1e9 B over 1e9 B/s and 100ms: 50.459 1.100
1e9 B over 1e11 B/s and 100ms: 50.459 0.110'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
