#!/usr/bin/env bash
# htcondor 25.14.1 (PyPI): classad2, HTCondor's job and machine descriptions in Python.
#
# One would expect: an expression that can not be decided, since the machine does not name its memory, does not hold:
# for HTCondor itself such a machine does not match, and in Python what is nothing (None) is false.
# What it does: eval() gives Value.Undefined or, for 1/0 or text compared to a number, Value.Error. Both are members
# of an IntEnum and so true, equal to 2 and 1, and can be added. `if need.eval(machine)` takes the machine that
# names no memory and leaves the one with too little; a sum over the machines counts 2 for each that names none.
# None, written into an ad, comes back as Value.Undefined, and is true then. symmetricMatch() is right.
#
# Seen, of the machines small (Memory = 8) and silent (none), and `Memory >= 64`:
#   eval                          False, Value.Undefined
#   [m for m ... if eval]         silent
#   symmetricMatch                neither
#   bool of `1/0`, `"64" > 8`     True, True
#   ad["Free"] = None             then bool(ad["Free"]) is True, ad["Free"] == 2 is True
#   sum of `Memory` over both     10
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check htcondor==25.14.1

seen=$("$dir/venv/bin/python" - <<'P'
from classad2 import ClassAd, ExprTree
machines = [ClassAd({"Name": "small", "Memory": 8}), ClassAd({"Name": "silent"})]
need = ExprTree("Memory >= 64")
print("eval:", *(getattr(value, "name", value) for value in map(need.eval, machines)))
print("chosen:", *(machine["Name"] for machine in machines if need.eval(machine)))
job = ClassAd({"Requirements": ExprTree("TARGET.Memory >= 64")})
for machine in machines:
    machine["Requirements"] = True
print("symmetricMatch:", *(job.symmetricMatch(machine) for machine in machines))
print("errors:", *(bool(ExprTree(text).eval()) for text in ('1/0', '"64" > 8')))
machines[0]["Free"] = None
print("None:", bool(machines[0]["Free"]), machines[0]["Free"] == 2)
print("sum:", sum(ExprTree("Memory").eval(machine) for machine in machines))
P
)
expected='eval: False Undefined
chosen: silent
symmetricMatch: False False
errors: True True
None: True True
sum: 10'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
