"""Whether the pages are true of a program: check.py PROGRAM. Of each page some runs are done
again and compared with what seeds.csv says of them, and rows of the page with what follows from
seeds.csv. Nothing of the year of real load is done again: it needs logs that are not ours to hand
on."""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from shared import SEEDS, interval, seeds_of

HERE = Path(__file__).parent
# For each page runs that are done again: the folder, and the policies.
SLICES = {
    "broker": [("share-0.2", "worst-fit"), ("forward-0.2", "worst-fit")],
    "communication-aware": [("80s-0.2-30s", "worst-fit"), ("40s-cm", "connected-cluster-minimization")],
    "flexco": [("drawn", "flexco-remap"), ("drawn-1.25", "flexco-shift")],
    "koala-stable": [("fast-w30-3", "close-to-files"), ("slow-w50-1", "worst-fit")],
    "koala-unreliable": [("all", "worst-fit"), ("black-holes", "cluster-minimization")],
    "mrs": [("main-1", "mrs"), ("main-1", "rival-backfill")],
    "reserved-or-claimed": [("drawn-claimed", "worst-fit"), ("drawn-forward", "worst-fit")],
    "year-of-real-load": [],
}
# Rows of pages that follow from one run: its folder and policy, and how the row begins. The mean
# wait of the run stands in it.
ROWS = {
    "broker": [],
    "communication-aware": [
        ("80s-0.2-30s", "worst-fit", "| W1, WF |"),
        ("40s-0.2-30s", "flexible-cluster-minimization", "| W2, FCM |"),
        ("40s-cm", "connected-cluster-minimization", "| W2, connected CM |"),
    ],
    "flexco": [
        ("drawn", policy, f"| {policy} |") for policy in ("flexco-rigid", "flexco-shift", "flexco-remap")
    ],
    "koala-stable": [
        ("fast-w30-1", "worst-fit", "| w30, 1, WF |"),
        ("fast-w50-3", "close-to-files", "| w50, 3, CF |"),
        ("slow-w30-3", "close-to-files", "| w30, 3, CF |"),
    ],
    "koala-unreliable": [
        ("all", "worst-fit", "| worst-fit |"),
        ("black-holes", "cluster-minimization", "| cluster-minimization |"),
    ],
    "mrs": [("main-1", "mrs", "| mrs |"), ("main-1", "rival-backfill", "| rival-backfill |")],
    "reserved-or-claimed": [],
    "year-of-real-load": [
        ("failures-worst-fit", "rerunnable", "| worst-fit |"),
        *(
            (f"failures-{policy}", policy, f"| {policy} |")
            for policy in (
                "cluster-minimization",
                "connected-cluster-minimization",
                "flexible-cluster-minimization",
            )
        ),
    ],
}


def kept(name):
    """The rows of seeds.csv of a page."""
    with open(HERE / name / "seeds.csv", newline="") as file:
        return list(csv.DictReader(file))


def rerun(program, name, folder, policy, to):
    """The first seed of one run, done again."""
    settings = {"COSPAN": str(program), "ONLY": folder, "POLICIES": policy, "SEEDS": "1"}
    command = [HERE / name / "run.sh", to]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr}")
    counters = [column for column in kept(name)[0] if column not in SEEDS]
    return next(row for row in seeds_of(to, [folder], counters) if row["seed"] == "1")


def stale(program, name):
    """What is not as the page has it."""
    rows, page = kept(name), (HERE / f"{name}.md").read_text().splitlines()
    for folder, policy in SLICES[name]:
        with tempfile.TemporaryDirectory() as to:
            now = rerun(program, name, folder, policy, Path(to))
        key = lambda row: (row["folder"], row["run"], row["seed"])
        then = next((row for row in rows if key(row) == key(now)), None)
        if now != then:
            yield f"{folder}, {policy}: now {now}, on the page {then}"
    for folder, policy, begins in ROWS[name]:
        of = [row for row in rows if (row["folder"], row["run"]) == (folder, policy)]
        mean = statistics.mean(float(row["wait_s"]) for row in of)
        known = interval([float(row["wait_s"]) for row in of])
        if not any(line.startswith(begins) and f"| {known} |" in line for line in page):
            yield f"no row {begins} ... with a wait of {known} ({mean})"
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    if not any(version.stdout.split("\n")[0] in line for line in page):
        yield f"it does not name {version.stdout.split(chr(10))[0]}"


def miscounted():
    """Worked examples that the tables get wrong."""
    for test in sorted(HERE.glob("*/test_*.py")):
        done = subprocess.run([sys.executable, test], capture_output=True, text=True)
        if done.returncode != 0:
            yield f"{test.parent.name}: {done.stderr}"


def main():
    program = Path(sys.argv[1]).resolve()
    found = list(miscounted())
    found += [f"{name}: {what}" for name in SLICES for what in stale(program, name)]
    print("\n".join(found) or "The pages are true of this program.")
    sys.exit(1 if found else 0)


main()
