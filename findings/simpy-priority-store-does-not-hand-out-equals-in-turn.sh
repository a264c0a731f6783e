#!/usr/bin/env bash
# simpy 4.1.2 (PyPI), a simulator of events, much used for queues.
#
# One would expect: of things of equal priority the one that was put in first comes out first. SimPy's own
# PriorityResource serves its users so.
# What it does: a PriorityStore is a heap without a count of arrivals. Equals come out in an order of the heap's own, the
# same at each run, so that nothing looks amiss; with a steady inflow some are overtaken by all that come later and
# wait for good. The longest wait of a simulated queue is then one of the heap's making.
#
# Seen:
#   store, a to h put in, all of priority 1     a c g f h e b d
#   resource, a to h asked for it, the same     a b c d e f g h
#   store of eight, one in and one out a minute, for 1000 minutes
#                                               one of the first eight waits 1000, not 8
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'simpy==4.1.2'

seen=$("$dir/venv/bin/python" - <<'P'
import simpy
env = simpy.Environment()
store, resource = simpy.PriorityStore(env), simpy.PriorityResource(env, capacity=1)
out, served = [], []
def through_store():
    for name in "abcdefgh":
        yield store.put(simpy.PriorityItem(1, name))
    for _ in range(8):
        out.append((yield store.get()).item)
def through_resource(name):
    with resource.request(priority=1) as turn:
        yield turn
        served.append(name)
        yield env.timeout(1)
env.process(through_store())
for name in "abcdefgh":
    env.process(through_resource(name))
env.run()
print("store:", *out)
print("resource:", *served)

env = simpy.Environment()
store = simpy.PriorityStore(env)
def steady():
    for _ in range(8):
        yield store.put(simpy.PriorityItem(1, env.now))
    while env.now < 1000:
        yield env.timeout(1)
        yield store.get()
        yield store.put(simpy.PriorityItem(1, env.now))
env.process(steady())
env.run()
print("longest wait after 1000 minutes, of eight in store:", 1000 - min(item.item for item in store.items))
P
)
expected='store: a c g f h e b d
resource: a b c d e f g h
longest wait after 1000 minutes, of eight in store: 1000'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
