#!/usr/bin/env bash
# luigi 3.8.1 (PyPI), a scheduler of tasks that depend on each other; with its local scheduler.
#
# One would expect: two tasks of one class with different values of a parameter are two tasks, and each is run.
# What it does: a task is known by its parameters as text, and a TimeDeltaParameter is written in whole seconds. So two tasks
# of 1.2 and 1.7 s are one, equal and of one name; only one is run, and the report says that all went well. Where the other
# has to be complete too, it stays undone, run after run. A negative time (a lead of five seconds) is written as "-1 w 6 d ..."
# and cannot be read again, so the command that luigi itself shows for such a task is refused. FloatParameter keeps them apart.
#
# Seen, of tasks of 1.2 and 1.7 s:
#   TimeDeltaParameter   equal, 1 of 2 run, build() is True; again: the same
#   FloatParameter       2 of 2 run, build() is True
#   1.5 s, written and read again    1 s
#   -5 s, written and read again     refused ("-1 w 6 d 23 h 59 m 55 s")
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check luigi==3.8.1

cat > "$dir/run.py" <<'P'
import logging
from datetime import timedelta
import luigi
logging.disable(logging.CRITICAL)
done = []
class Wait(luigi.Task):
    time = luigi.TimeDeltaParameter()
    def complete(self):
        return self.time in done
    def run(self):
        done.append(self.time)
class Other(Wait):
    time = luigi.FloatParameter()
for kind, times in ((Wait, (timedelta(seconds=1.2), timedelta(seconds=1.7))), (Other, (1.2, 1.7))):
    done.clear()
    tasks = [kind(time=time) for time in times]
    result = luigi.build(tasks, local_scheduler=True, log_level="CRITICAL")
    print(kind.__name__, tasks[0] == tasks[1], len(done), result, "complete:", sum(task.complete() for task in tasks))
parameter = luigi.TimeDeltaParameter()
for time in (timedelta(seconds=1.5), timedelta(seconds=-5)):
    text = parameter.serialize(time)
    try:
        print(text, "is read as", parameter.parse(text))
    except luigi.parameter.ParameterException:
        print(text, "is refused")
P
seen=$(cd "$dir" && HOME=$dir "$dir/venv/bin/python" run.py 2> /dev/null)
expected='Wait True 1 True complete: 1
Other False 2 True complete: 2
0 w 0 d 0 h 0 m 1 s is read as 0:00:01
-1 w 6 d 23 h 59 m 55 s is refused'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
