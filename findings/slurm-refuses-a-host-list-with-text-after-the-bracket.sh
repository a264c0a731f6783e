#!/usr/bin/env bash
# Slurm 22.05.8 (Debian 12: slurm-client), beside ClusterShell 1.10.1 and python-hostlist 2.3.0 (PyPI).
#
# One would expect: host lists are one notation. node1-ib and node2-ib fold to node[1-2]-ib, and what
# the libraries write Slurm reads, since it reads r[1-2]n[1-2] and r[1-2]-ib[0-1] too.
# What it does: Slurm takes text between brackets, but none after the last one: node[1-2]-ib is
# "Invalid hostlist", and it never folds such names itself. ClusterShell and python-hostlist fold
# and read them. A list that was folded by a library fails in --nodelist as soon as host
# names have a tail, as with -ib, and only when there are two or more of them.
#
# Seen, node1-ib and node2-ib folded by each, and what Slurm makes of it:
#   ClusterShell     node[1-2]-ib       refused
#   python-hostlist  node[1-2]-ib       refused
#   Slurm            node1-ib,node2-ib  node1-ib node2-ib
#   (one host only)  node1-ib           node1-ib
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
apt-get update -qq >/dev/null
apt-get install -qq -y --no-install-recommends 'slurm-client=22.05.8*' >/dev/null 2>&1
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'ClusterShell==1.10.1' 'python-hostlist==2.3.0'
# scontrol wants some configuration, though it asks no server for this.
printf '%s\n' ClusterName=none SlurmctldHost=localhost NodeName=node1 > "$dir/slurm.conf"
export SLURM_CONF="$dir/slurm.conf"

names() { scontrol show hostnames "$1" 2>/dev/null | paste -sd' ' || true; }
by_clustershell=$("$dir/venv/bin/python" -c 'import sys; from ClusterShell.NodeSet import NodeSet; print(NodeSet.fromlist(sys.argv[1:]))' node1-ib node2-ib)
by_hostlist=$("$dir/venv/bin/python" -c 'import sys, hostlist; print(hostlist.collect_hostlist(sys.argv[1:]))' node1-ib node2-ib)
by_slurm=$(scontrol show hostlist node1-ib,node2-ib)
seen=$(
  for list in "$by_clustershell" "$by_hostlist" "$by_slurm" node1-ib 'r[1-2]-ib[0-1]'; do
    echo "$list: $(names "$list")"
  done
)
expected='node[1-2]-ib: 
node[1-2]-ib: 
node1-ib,node2-ib: node1-ib node2-ib
node1-ib: node1-ib
r[1-2]-ib[0-1]: r1-ib0 r1-ib1 r2-ib0 r2-ib1'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
