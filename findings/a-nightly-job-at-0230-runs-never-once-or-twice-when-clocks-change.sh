#!/usr/bin/env bash
# systemd 252 (Debian 12: systemd-analyze calendar, the rules of its timers), croniter 7.0.0 and
# APScheduler 3.11.3 (PyPI), in the zone Europe/Amsterdam.
#
# One would expect: something due each night at 02:30 is done once in each night, also in the two
# nights of the year when the clocks change, if perhaps an hour off; and something due each hour
# is done each hour.
# What they do:
#   - systemd leaves the spring night out altogether: from March 28 it goes on to March 30. Its
#     "hourly" pauses for two hours in autumn: 02:00 summer time is followed by 03:00 winter time.
#   - croniter moves the spring night's run to 03:00, and gives two runs an hour apart in autumn.
#   - APScheduler gives 02:30 by a clock that was not put forward (03:30 new time), and in
#     autumn two runs as well.
# So the same line of a reservation is 0, 1 or 2 windows, by who reads it. Times below are UTC.
#
# Seen:
#   systemd spring     03-28 01:30  03-30 00:30  03-31 00:30
#   systemd autumn     10-24 00:30  10-25 00:30  10-26 01:30
#   systemd hourly     10-25 00:00  10-25 02:00  10-25 03:00
#   croniter spring    03-28 01:30  03-29 01:00  03-30 00:30
#   croniter autumn    10-24 00:30  10-25 00:30  10-25 01:30
#   apscheduler spring 03-28 01:30  03-29 01:30  03-30 00:30
#   apscheduler autumn 10-24 00:30  10-25 00:30  10-25 01:30
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
# Debian's packages are unpacked beside the system's, which stays as it is.
apt-get update -qq >/dev/null
(cd "$dir" && apt-get download -qq 'systemd=252*' 'libsystemd-shared=252*' >/dev/null 2>&1)
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir/root"; done
shared=$(dirname "$(find "$dir/root" -name 'libsystemd-shared-252.so')")
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check \
  'croniter==7.0.0' 'APScheduler==3.11.3' 'tzdata==2026.6' 'tzlocal==5.4.5'

systemd() { # name, begin, expression
  printf '%s ' "$1"
  TZ=Europe/Amsterdam LC_ALL=C LD_LIBRARY_PATH="$shared" "$dir/root/usr/bin/systemd-analyze" \
    calendar --iterations=3 --base-time="$2" "$3" |
    sed -n 's/.*(in UTC): ... 2026-\(.....\) \(..:..\):.*/ \1 \2/p' | tr -d '\n'
  echo
}
seen=$(
  systemd 'systemd spring' '2026-03-28 00:10' '*-*-* 02:30'
  systemd 'systemd autumn' '2026-10-24 00:10' '*-*-* 02:30'
  systemd 'systemd hourly' '2026-10-25 01:10' hourly
  "$dir/venv/bin/python" - <<'P'
import datetime, zoneinfo
from croniter import croniter
from apscheduler.triggers.cron import CronTrigger
zone, utc = zoneinfo.ZoneInfo("Europe/Amsterdam"), datetime.timezone.utc
days = {"spring": datetime.datetime(2026, 3, 28, tzinfo=zone), "autumn": datetime.datetime(2026, 10, 24, tzinfo=zone)}
def show(name, times):
    print(name, "".join(f" {time.astimezone(utc):%m-%d %H:%M}" for time in times))
for name, begin in days.items():
    turn = croniter("30 2 * * *", begin)
    show(f"croniter {name}", [turn.get_next(datetime.datetime) for _ in range(3)])
for name, begin in days.items():
    trigger, times, now = CronTrigger.from_crontab("30 2 * * *", timezone=zone), [], begin.astimezone(utc)
    for _ in range(3):
        times.append(trigger.get_next_fire_time(times[-1] if times else None, now))
        now = times[-1].astimezone(utc)
    show(f"apscheduler {name}", times)
P
)
expected='systemd spring  03-28 01:30 03-30 00:30 03-31 00:30
systemd autumn  10-24 00:30 10-25 00:30 10-26 01:30
systemd hourly  10-25 00:00 10-25 02:00 10-25 03:00
croniter spring  03-28 01:30 03-29 01:00 03-30 00:30
croniter autumn  10-24 00:30 10-25 00:30 10-25 01:30
apscheduler spring  03-28 01:30 03-29 01:30 03-30 00:30
apscheduler autumn  10-24 00:30 10-25 00:30 10-25 01:30'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
