#!/usr/bin/env bash
# psij-python 0.9.11 (PyPI), one way to hand jobs to many batch systems.
#
# One would expect: a job that JSONSerializer wrote and read again has the time limit that it had. Its executor
# without a batch system, "local", ends a job at its limit, as the limit's description says ("terminated").
# What it does: a limit is written as seconds with a point, "129600.0 s". The reader looks for digits right before an
# h, m or s and finds the 0 behind the point: every limit of whole seconds is read as zero, one of 90.25 s as
# 25 s. All else comes back whole. And "local" does not know the limit: the job runs on and is COMPLETED.
#
# Seen:
#   36:00:00 is written "129600.0 s"   read 0:00:00
#   0:10:00 is not written (default)   read 0:10:00
#   0:01:30.250000 "90.25 s"           read 0:00:25
#   local: limit 1 s, sleep 4          COMPLETED, exit code 0, after 4 s
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'psij-python==0.9.11'

seen=$(cd "$dir" && HOME=$dir venv/bin/python - <<'P'
import contextlib, io, json, time
from datetime import timedelta
from psij import Job, JobAttributes, JobExecutor, JobSpec
from psij.serialize import JSONSerializer
serializer = JSONSerializer()
for limit in (timedelta(hours=36), timedelta(minutes=10), timedelta(seconds=90.25)):
    spec = JobSpec("/bin/true", attributes=JobAttributes(duration=limit, queue_name="long"))
    text = serializer.dumps(spec)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the names that it reads
        again = serializer.loads(text)
    assert again.attributes.queue_name == "long"
    print(int(limit.total_seconds()), "s is written", json.loads(text)["attributes"].get("duration"), "and read", again.attributes.duration)
job = Job(JobSpec("/bin/sleep", ["4"], attributes=JobAttributes(duration=timedelta(seconds=1))))
begin = time.monotonic()
JobExecutor.get_instance("local").submit(job)
status = job.wait()
print("local:", status.state.name, status.exit_code, "after 4 s" if time.monotonic() - begin >= 4 else "before 4 s")
P
)
expected='129600 s is written 129600.0 s and read 0:00:00
600 s is written None and read 0:10:00
90 s is written 90.25 s and read 0:00:25
local: COMPLETED 0 after 4 s'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
