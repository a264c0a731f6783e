#!/usr/bin/env bash
# parsl 2026.10.26 (PyPI), with its executor of threads.
#
# One would expect: a bash_app called with walltime=1 whose command takes longer is stopped: the call fails with AppTimeout,
# and the command is ended, as a batch system ends a job at its limit.
# What it does: the exception is thrown into the thread that waits for the command; nobody tells the command. It runs on to
# its end, with nobody waiting for it, beside whatever the thread takes up next or the retry of the same app, and
# writes its files long after the program was told that it had failed.
#
# Seen, of a command that takes 15 s and then writes a file:
#   the call             AppTimeout, after a second or a few
#   the file, then       not there
#   the file, 20 s later  there
#   with retries=1       the command is started twice, both end, the call fails
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'parsl==2026.10.26'

cat > "$dir/run.py" <<'P'
import os, sys, time
import parsl
from parsl.app.errors import AppTimeout
retries, name = int(sys.argv[1]), sys.argv[2]
parsl.load(parsl.Config(executors=[parsl.ThreadPoolExecutor(max_threads=1)], retries=retries, run_dir="runs"))
@parsl.bash_app
def command(name, walltime=None):
    return f"echo started >> {name}; sleep 15; echo ended >> {name}"
count = lambda word: open(name).read().split().count(word)
try:
    command(name, walltime=1).result()
    told = "no error"
except AppTimeout as error:
    told = type(error).__name__
print(f"retries {retries}: {told}, ended {count('ended')}", end=", ")
time.sleep(20)
print(f"later started {count('started')}, ended {count('ended')}")
parsl.dfk().cleanup()
P
seen=$(cd "$dir" && for retries in 0 1; do venv/bin/python run.py $retries file.$retries; done)
expected='retries 0: AppTimeout, ended 0, later started 1, ended 1
retries 1: AppTimeout, ended 0, later started 2, ended 2'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
