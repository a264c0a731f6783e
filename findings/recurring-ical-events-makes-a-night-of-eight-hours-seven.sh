#!/usr/bin/env bash
# recurring-ical-events 3.8.2 with icalendar 7.3.2 (PyPI): windows out of RFC 5545 calendars.
#
# One would expect: a weekly window from 22:00 Amsterdam time with DURATION:PT8H is eight hours long
# each time. RFC 5545 says that a duration in hours is exact time, and only days and weeks are
# nominal, so on the night when the clocks go forward it ends at 07:00.
# What it does: the eight hours are added to the time on the wall. In the spring night the window
# ends at 06:00 and is seven hours long, in the autumn night nine. A job of eight hours, planned
# into the window, is cut off by an hour once a year.
#
# Seen: hours of real time of the windows beginning on
#   2026-03-21 8   2026-03-28 7   2026-04-04 8   2026-10-24 9
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'recurring-ical-events==3.8.2' 'icalendar==7.3.2' 'tzdata==2026.6'

seen=$("$dir/venv/bin/python" - <<'P'
import datetime, icalendar, recurring_ical_events
text = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//nightly//EN
BEGIN:VEVENT
UID:nightly
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Amsterdam:20260321T220000
DURATION:PT8H
RRULE:FREQ=WEEKLY
END:VEVENT
END:VCALENDAR
"""
calendar = icalendar.Calendar.from_ical(text.replace("\n", "\r\n"))
utc = datetime.timezone.utc
for day in ((2026, 3, 21), (2026, 3, 28), (2026, 4, 4), (2026, 10, 24)):
    after = datetime.datetime(*day, 12)
    [event] = recurring_ical_events.of(calendar).between(after, after + datetime.timedelta(hours=12))
    begin, end = (event[name].dt.astimezone(utc) for name in ("DTSTART", "DTEND"))
    print(f"{after:%Y-%m-%d}", (end - begin).total_seconds() / 3600)
P
)
expected='2026-03-21 8.0
2026-03-28 7.0
2026-04-04 8.0
2026-10-24 9.0'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
