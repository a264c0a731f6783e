#!/usr/bin/env bash
# croniter 7.0.0 and APScheduler 3.11.3 (PyPI), and the crate cron 0.15.0 (crates.io).
#
# One would expect: day-of-week 1-5 is Monday to Friday, as in cron; and with both a day of the month
# and a day of the week ("1 * 1"), either is enough, as in cron (the 1st, and each Monday).
# What they do: croniter does that. APScheduler's from_crontab, made for such lines, counts from Monday
# as 0: 1-5 is Tuesday to Saturday. The crate cron counts from Sunday as 1: 1-5 is Sunday to Thursday
# (and 0 is refused). Both want both days at once: a Tuesday, or a Sunday, that is a 1st,
# one day in 2027 in place of sixty-one.
#
# Seen, in the week from Monday 2026-11-30 to Sunday 2026-12-06, and the count of days in 2027:
#   croniter     1-5: Mon Tue Wed Thu Fri   1 * 1: 61 days in 2027
#   apscheduler  1-5: Tue Wed Thu Fri Sat   1 * 1: 1 day
#   cron crate   1-5: Mon Tue Wed Thu Sun   1 * 1: 1 day
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'croniter==7.0.0' 'APScheduler==3.11.3' 'tzlocal==5.4.5'
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'cron = "=0.15.0"' \
  'chrono = "=0.4.45"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use chrono::{Duration, TimeZone, Utc};
fn main() {
    let days = |line: &str, year, month, day, length| {
        let from = Utc.with_ymd_and_hms(year, month, day, 0, 0, 0).unwrap();
        let schedule: cron::Schedule = line.parse().unwrap();
        schedule.after(&from).take_while(|at| *at < from + Duration::days(length)).collect::<Vec<_>>()
    };
    let week = days("0 0 6 * * 1-5", 2026, 11, 30, 7);
    println!("cron crate 1-5: {}", week.iter().map(|at| at.format("%a").to_string()).collect::<Vec<_>>().join(" "));
    println!("cron crate 1 * 1: {}", days("0 0 6 1 * 1", 2027, 1, 1, 365).len());
}
R
seen=$(
  "$dir/venv/bin/python" - <<'P'
from datetime import datetime, timedelta, timezone
from croniter import croniter
from apscheduler.triggers.cron import CronTrigger
def by_croniter(line, begin, end):
    turn = croniter(line, begin)
    while (at := turn.get_next(datetime)) < end:
        yield at
def by_apscheduler(line, begin, end):
    trigger = CronTrigger.from_crontab(line, timezone=timezone.utc)
    while (at := trigger.get_next_fire_time(None, begin)) and at < end:
        yield at
        begin = at + timedelta(seconds=1)
for name, days in (("croniter", by_croniter), ("apscheduler", by_apscheduler)):
    begin = datetime(2026, 11, 30, tzinfo=timezone.utc)
    print(f"{name} 1-5:", *(f"{at:%a}" for at in days("0 6 * * 1-5", begin, begin + timedelta(7))))
    year = datetime(2027, 1, 1, tzinfo=timezone.utc)
    print(f"{name} 1 * 1:", len(list(days("0 6 1 * 1", year, year + timedelta(365)))))
P
  CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml"
)
expected='croniter 1-5: Mon Tue Wed Thu Fri
croniter 1 * 1: 61
apscheduler 1-5: Tue Wed Thu Fri Sat
apscheduler 1 * 1: 1
cron crate 1-5: Mon Tue Wed Thu Sun
cron crate 1 * 1: 1'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
