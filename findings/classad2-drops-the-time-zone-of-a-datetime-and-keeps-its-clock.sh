#!/usr/bin/env bash
# htcondor 25.14.1 (PyPI): classad2, HTCondor's job and machine descriptions in Python.
#
# One would expect: a datetime with a time zone is one instant, and an ad keeps it: what is read back is equal to
# what was written, perhaps in another zone.
# What it does: it keeps the digits of the clock and drops the zone; what comes back says UTC. Noon in Tokyo becomes
# noon in UTC, nine hours later, ten at night in New York five hours earlier, whatever the machine's zone is. A
# datetime without a zone is taken for local time, rightly. Text in the ad's own language, absTime("...+09:00"),
# is read rightly, so that one ad can hold the same instant twice with nine hours between. Deadlines and
# start times are off by the offset, for all who follow the advice to give every datetime its zone.
#
# Seen, with TZ=JST-9, of 2026-03-01 12:00 (03:00 UTC):
#   datetime(..., tzinfo=+09:00)             2026-03-01T12:00:00+00:00, 9 hours late
#   datetime(..., tzinfo=-05:00, 22:00)      2026-02-28T22:00:00+00:00, 5 hours early
#   datetime(..., tzinfo=UTC, 03:00)         2026-03-01T03:00:00+00:00
#   datetime(...), no zone                   2026-03-01T03:00:00+00:00
#   absTime("2026-03-01T12:00:00+09:00")     2026-03-01T03:00:00+00:00
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check htcondor==25.14.1

# A TZ that needs no files.
seen=$(TZ=JST-9 "$dir/venv/bin/python" - <<'P'
from datetime import datetime, timedelta, timezone
from classad2 import ClassAd, ExprTree
def zone(hours):
    return timezone(timedelta(hours=hours))
instant = datetime(2026, 3, 1, 3, tzinfo=timezone.utc)
for name, time in [
    ("Tokyo", instant.astimezone(zone(9))),
    ("New York", instant.astimezone(zone(-5))),
    ("UTC", instant),
    ("no zone", datetime(2026, 3, 1, 12)),
    ("absTime", ExprTree('absTime("2026-03-01T12:00:00+09:00")')),
]:
    back = ClassAd({"Start": time}).eval("Start")
    print(f"{name}: {back.isoformat()} {(back - instant) / timedelta(hours=1):+.0f} h")
P
)
expected='Tokyo: 2026-03-01T12:00:00+00:00 +9 h
New York: 2026-02-28T22:00:00+00:00 -5 h
UTC: 2026-03-01T03:00:00+00:00 +0 h
no zone: 2026-03-01T03:00:00+00:00 +0 h
absTime: 2026-03-01T03:00:00+00:00 +0 h'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
