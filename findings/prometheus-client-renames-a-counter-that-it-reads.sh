#!/usr/bin/env bash
# prometheus_client 0.26.0 (PyPI): its parser of the text format.
#
# One would expect: reading the text of another exporter gives back the samples under the names in
# that text. A counter without the ending _total is valid in the text format, and libraries such as
# Rust's prometheus crate write it just as the programmer named it.
# What it does: every counter is read as if its sample ended in _total. The sample rounds is
# nowhere to be found after parsing; rounds_total, which nobody wrote, is. A proxy that
# parses and gives out again so renames series, and rules on the old names go silent. A gauge keeps its name.
#
# Seen:
#   counter rounds -> rounds_total
#   counter moves_total -> moves_total
#   gauge waiting -> waiting
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'prometheus_client==0.26.0'

seen=$("$dir/venv/bin/python" - <<'P'
from prometheus_client.parser import text_string_to_metric_families
for kind, name in (("counter", "rounds"), ("counter", "moves_total"), ("gauge", "waiting")):
    text = f"# HELP {name} x\n# TYPE {name} {kind}\n{name} 5\n"
    for family in text_string_to_metric_families(text):
        print(kind, name, "->", *(sample.name for sample in family.samples))
P
)
expected='counter rounds -> rounds_total
counter moves_total -> moves_total
gauge waiting -> waiting'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
