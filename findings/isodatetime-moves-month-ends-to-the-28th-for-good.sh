#!/usr/bin/env bash
# metomi-isodatetime 3.2.0 (PyPI, epoch 1), the date library of the workflow engine Cylc.
#
# One would expect: R5/20260131T0000Z/P1M names the ends of months: each repetition is counted from
# the start, so after February 28 comes March 31. R3/P1M/20260331T0000Z ends on March 31, for that
# is its given end. And a yearly repetition from February 29 is back on the 29th in a leap year.
# What it does: each step is counted from the one before. Once a short month has cut the day to
# the 28th, all later ones stay there. With a given end it goes back in the same way to find
# a start, and then forward again, so that the given end itself is not one of the points.
#
# Seen (only dates shown):
#   R5/20260131T0000Z/P1M  01-31 02-28 03-28 04-28 05-28
#   R3/P1M/20260331T0000Z  01-28 02-28 03-28
#   R5/20240229T0000Z/P1Y  2024-02-29, then the 28th each year, in 2028 too
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'metomi-isodatetime==1!3.2.0'

seen=$("$dir/venv/bin/python" - <<'P'
from metomi.isodatetime.parsers import TimeRecurrenceParser
for text in ("R5/20260131T0000Z/P1M", "R3/P1M/20260331T0000Z", "R5/20240229T0000Z/P1Y"):
    print(text, *(str(point)[:10] for point in TimeRecurrenceParser().parse(text)))
P
)
expected='R5/20260131T0000Z/P1M 2026-01-31 2026-02-28 2026-03-28 2026-04-28 2026-05-28
R3/P1M/20260331T0000Z 2026-01-28 2026-02-28 2026-03-28
R5/20240229T0000Z/P1Y 2024-02-29 2025-02-28 2026-02-28 2027-02-28 2028-02-28'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
