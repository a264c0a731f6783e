#!/usr/bin/env bash
# fasteners 0.20, and beside it filelock 4.3.1 and portalocker 4.4.2 (PyPI): locks between processes by a file.
#
# One would expect: a lock that was taken is held until it is given back or its process ends.
# What it does: fasteners takes a POSIX record lock. Such a lock is gone as soon as its process closes any handle of
# the file, whichever: a read of the lock file, to see who wrote what there, a copy of the directory it lies in, or
# a second lock object of the same name that is given back. The holder's object says "acquired" all the same, and
# another process gets the lock as well. filelock and portalocker take flock(2), and keep it.
#
# Seen, what another process gets after the holder
#                            fasteners    filelock   portalocker
#   took the lock            refused      refused    refused
#   copied the directory     the lock     refused    refused
#   acquired, says holder    True
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'fasteners==0.20' 'filelock==4.3.1' 'portalocker==4.4.2'
cat > "$dir/take.py" <<'P'
import sys
def take(library, path):
    if library == "fasteners":
        import fasteners
        lock = fasteners.InterProcessLock(path)
        return lock if lock.acquire(blocking=False) else None
    if library == "filelock":
        import filelock
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return None
        return lock
    import portalocker
    lock = portalocker.Lock(path, timeout=0.1)
    try:
        lock.acquire()
    except portalocker.LockException:
        return None
    return lock
if __name__ == "__main__":
    print("the lock" if take(*sys.argv[1:]) else "refused")
P
seen=$(cd "$dir" && venv/bin/python - <<'P'
import os, shutil, subprocess, sys
from take import take
for library in ("fasteners", "filelock", "portalocker"):
    os.mkdir(library)
    path = os.path.join(library, "lock")
    other = lambda: subprocess.run([sys.executable, "take.py", library, path], capture_output=True, text=True, check=True).stdout.strip()
    lock = take(library, path)
    before = other()
    shutil.copytree(library, library + ".copy")
    print(f"{library}: {before}, then {other()}", *(["and acquired is", lock.acquired] if library == "fasteners" else []))
P
)
expected='fasteners: refused, then the lock and acquired is True
filelock: refused, then refused
portalocker: refused, then refused'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
