#!/usr/bin/env bash
# slurmutils 1.3.2 (PyPI), a reader and writer of slurm.conf.
#
# One would expect: reading slurm.conf and writing it again keeps what it means. By Slurm's manual a line
# NodeName=DEFAULT sets values for the lines after it, until the next such line: here
# n[1-3] have 4 CPUs and m[1-2] have 8.
# What it does: nodes are kept by name, so the second DEFAULT takes the place of the first, at the top.
# Written again, the file gives n[1-3] 8 CPUs, twice what they have, without a word. Two lines for
# partitions named DEFAULT fare alike.
#
# Seen, written again:
#   nodename=DEFAULT cpus=8
#   nodename=n[1-3]
#   nodename=m[1-2]
#   partitionname=DEFAULT maxtime=1:00:00
#   partitionname=long nodes=n[1-3]
#   partitionname=short nodes=m[1-2]
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'slurmutils==1.3.2'

seen=$("$dir/venv/bin/python" - <<'P'
from slurmutils import slurmconfig
print(slurmconfig.dumps(slurmconfig.loads("""ClusterName=c
NodeName=DEFAULT CPUs=4
NodeName=n[1-3]
NodeName=DEFAULT CPUs=8
NodeName=m[1-2]
PartitionName=DEFAULT MaxTime=7-0
PartitionName=long Nodes=n[1-3]
PartitionName=DEFAULT MaxTime=1:00:00
PartitionName=short Nodes=m[1-2]
""")))
P
)
expected='clustername=c
nodename=DEFAULT cpus=8
nodename=n[1-3]
nodename=m[1-2]
partitionname=DEFAULT maxtime=1:00:00
partitionname=long nodes=n[1-3]
partitionname=short nodes=m[1-2]'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
