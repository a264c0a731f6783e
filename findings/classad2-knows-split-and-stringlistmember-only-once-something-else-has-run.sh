#!/usr/bin/env bash
# htcondor 25.14.1 (PyPI): classad2, HTCondor's job and machine descriptions in Python.
#
# One would expect: what an expression gives depends on the expression and on the ad. split("a,b") is a list of two in each
# program, or, where the package does not have the function, in none.
# What it does: some twenty functions of HTCondor (split, stringListMember, stringListSum, splitUserName, envV1ToV2,
# mergeEnvironment, countMatches, ...) are made known only on the side, when the process first reads ads from text with
# parseAds or parseOne, evaluates to an ad, or imports htcondor2. Until then they give Value.Error, with no
# exception; and Value.Error is true. Making a ClassAd, also from text, and comparing two do not count. An expression
# that was made before keeps to Value.Error for good. So a filter of machines that is right in one program takes every
# machine in another, or in the same one by an expression made earlier. stringListsIntersect, join and member are known
# from the start.
#
# Seen, of stringListMember("gpu", "cpu,disk"), which is false:
#   at first                                      Value.Error
#   after ClassAd("[a = 1]"), matches, simplify   Value.Error
#   after parseOne of another ad                  False
#   after evaluating splitTime(0)                 False
#   after import htcondor2                        False
#   stringListsIntersect, at first                False
#   machines left by `if need.eval(machine)`      all three; afterwards the one that has it, by a new expression only
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check htcondor==25.14.1

cat > "$dir/run.py" <<'P'
import sys
import classad2
from classad2 import ClassAd, ExprTree
def value():
    return getattr(ExprTree('stringListMember("gpu", "cpu,disk")').eval(), "name", False)
machines = [ClassAd({"Name": name, "Has": has}) for name, has in (("one", "cpu"), ("two", "cpu,gpu"), ("three", ""))]
text = 'stringListMember("gpu", Has)'
def left(need):
    return " ".join(machine["Name"] for machine in machines if need.eval(machine))
step = sys.argv[1]
first = value()
if step == "ClassAd":
    ad = ClassAd("[a = 1; requirements = true]")
    str(ad), ad.matches(ClassAd()), ad.symmetricMatch(ad), ExprTree("1 + 1").simplify(), ad.eval("a")
elif step == "parseOne":
    classad2.parseOne("a = 1\n")
elif step == "splitTime":
    ExprTree("splitTime(0)").eval()
elif step == "htcondor2":
    import htcondor2
elif step == "intersect":
    print("intersect", ExprTree('stringListsIntersect("gpu", "cpu,disk")').eval())
    sys.exit()
elif step == "machines":
    early = ExprTree(text)
    print("machines:", left(early), end="; ")
    classad2.parseOne("a = 1\n")
    print("afterwards:", left(early), end="; ")
    print("written anew:", left(ExprTree(text)))
    sys.exit()
print(step, first, value())
P
seen=$(for step in ClassAd parseOne splitTime htcondor2 intersect machines; do
  "$dir/venv/bin/python" "$dir/run.py" "$step"
done)
expected='ClassAd Error Error
parseOne Error False
splitTime Error False
htcondor2 Error False
intersect False
machines: one two three; afterwards: one two three; written anew: two'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
