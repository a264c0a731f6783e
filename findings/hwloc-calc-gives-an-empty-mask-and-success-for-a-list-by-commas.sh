#!/usr/bin/env bash
# hwloc-calc 2.9.0 (Debian 12: hwloc-nox 2.9.0-1): masks of processors for pinning. The machine is a
# made-up one of 8 cores with 2 hardware threads each, so the real one does not matter.
#
# One would expect: the lists that taskset, numactl and Slurm take, pu:1,3 and pu:0-6:2, work or are
# errors; core:8 on a machine of cores 0 to 7 is an error; core:7:2 asks for more cores than there are.
# What it does: all three of the first print the empty mask 0x0 and exit with 0 (a remark goes to
# stderr), so mask=$(hwloc-calc ...) under "set -e" goes on with no processor at all. And
# core:7:2 is no step but "two cores from 7 on", and wraps round to core 0: somebody else's.
#
# Seen:
#   pu:1,3    0x0     exit 0
#   pu:0-6:2  0x0     exit 0
#   core:8    0x0     exit 0
#   core:7:2  0xc003  exit 0
#   core:0-1  0xf     exit 0
set -euo pipefail
apt-get update -qq >/dev/null
apt-get install -qq -y --no-install-recommends 'hwloc-nox=2.9.0-1*' >/dev/null 2>&1

seen=$(
  for place in pu:1,3 pu:0-6:2 core:8 core:7:2 core:0-1; do
    mask=$(hwloc-calc -i 'pack:1 core:8 pu:2' --taskset "$place" 2>/dev/null) && code=0 || code=$?
    echo "$place $mask exit $code"
  done
)
expected='pu:1,3 0x0 exit 0
pu:0-6:2 0x0 exit 0
core:8 0x0 exit 0
core:7:2 0xc003 exit 0
core:0-1 0xf exit 0'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
