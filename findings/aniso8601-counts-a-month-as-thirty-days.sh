#!/usr/bin/env bash
# aniso8601 10.0.1 (PyPI), a reader of ISO 8601 times.
#
# One would expect: a reservation repeated by R4/2026-01-01/P1M begins on the first of each
# month, and R4/2024-01-01/P1Y on each New Year's Day. The standard means months of the calendar.
# What it does: a month is always 30 days and a year always 365, silently. The second window of
# January's reservation begins on January 31, and the yearly one moves into December after a leap
# year. It holds for plain intervals (START/P1M) as well.
#
# Seen:
#   R4/2026-01-01/P1M  2026-01-01 2026-01-31 2026-03-02 2026-04-01
#   R4/2024-01-01/P1Y  2024-01-01 2024-12-31 2025-12-31 2026-12-31
#   2026-02-01/P1M     2026-02-01 2026-03-03
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'aniso8601==10.0.1'

seen=$("$dir/venv/bin/python" - <<'P'
import aniso8601
for text in ("R4/2026-01-01/P1M", "R4/2024-01-01/P1Y"):
    print(text, *aniso8601.parse_repeating_interval(text))
print("2026-02-01/P1M", *aniso8601.parse_interval("2026-02-01/P1M"))
P
)
expected='R4/2026-01-01/P1M 2026-01-01 2026-01-31 2026-03-02 2026-04-01
R4/2024-01-01/P1Y 2024-01-01 2024-12-31 2025-12-31 2026-12-31
2026-02-01/P1M 2026-02-01 2026-03-03'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
