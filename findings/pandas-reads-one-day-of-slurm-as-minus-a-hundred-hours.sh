#!/usr/bin/env bash
# pandas 3.1.1 (PyPI), and times as Slurm's sacct and squeue print them: days, a hyphen, hours:minutes:seconds.
#
# One would expect: to_timedelta reads 1-02:03:04 as a day, two hours and so on, as "1 day 02:03:04", or refuses it, as it
# does 90:00.
# What it does: a hyphen anywhere makes the whole negative, and the digits before it are put in front of the hours. One day
# is minus 100 hours, ten days are minus 1000. Below one day all is right, so it shows only once a job ran
# for longer; then the sum of the hours used goes down with each long job. Slurm's short form for two days and
# twelve hours, 2-12, is minus 212 nanoseconds.
#
# Seen, in hours:
#   23:59:59      24.00
#   1-00:00:00  -100.00
#   1-02:03:04  -102.05
#   10-00:00:00 -1000.00
#   2-12          -0.00
#   sum of the first four -1178.05, in truth 314.05
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'pandas==3.1.1' 'numpy==2.4.6'

seen=$("$dir/venv/bin/python" - <<'P'
import io, pandas
sacct = pandas.read_csv(io.StringIO("""JobID|Elapsed
1|23:59:59
2|1-00:00:00
3|1-02:03:04
4|10-00:00:00
"""), sep="|")
hours = pandas.to_timedelta(sacct["Elapsed"], errors="raise").dt.total_seconds() / 3600
for text, value in zip(sacct["Elapsed"], hours):
    print(f"{text} {value:.2f}")
print(f"sum {hours.sum():.2f}")
print("2-12", pandas.Timedelta("2-12").value, pandas.Timedelta("2-12").unit)
try:
    pandas.Timedelta("90:00")
except ValueError:
    print("90:00 is refused")
P
)
expected='23:59:59 24.00
1-00:00:00 -100.00
1-02:03:04 -102.05
10-00:00:00 -1000.00
sum -1178.05
2-12 -212 ns
90:00 is refused'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
