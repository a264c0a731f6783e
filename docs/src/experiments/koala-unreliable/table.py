"""Prints the table of the experiment from the rows of its jobs."""

import csv
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

# Student's t, 97.5 %, by degrees of freedom.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(values):
    """Mean of one value a seed, with its interval of 95 %."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.3g}"
    half = T_975.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.3g} ± {half:.2g}"


def seeds(folder, wanted):
    """Rows of the jobs that are wanted, by seed."""
    by_seed = defaultdict(list)
    with open(folder / "jobs.csv", newline="") as file:
        for row in csv.DictReader(file):
            if wanted(row):
                by_seed[row["seed"]].append(row)
    return list(by_seed.values())


def line(folder, parts, total, priority):
    rows = seeds(folder, lambda r: r["processors"] == total and r["priority"] == priority)
    placements = [sum(int(r["rounds"]) for r in seed) for seed in rows]
    failed = [1 - len(seed) / count for seed, count in zip(rows, placements)]
    placing = [statistics.mean(float(r["placement_time_s"]) for r in seed) for seed in rows]
    done = sum(r["ending"] == "done" for seed in rows for r in seed)
    size = f"{parts} x {int(total) // int(parts)}"
    all_jobs = sum(len(seed) for seed in rows)
    cells = [size, priority, f"{done} of {all_jobs}", interval([100 * f for f in failed]), interval(placing)]
    print("| " + " | ".join(cells) + " |")


def main():
    to = Path(sys.argv[1])
    print("| components | priority | finished | rounds that failed (%) | placement time (s) |")
    print("|---|---|---|---|---|")
    for total in ("36", "72"):
        for parts in ("3", "4", "6"):
            for priority in ("high", "low"):
                line(to / parts, parts, total, priority)


main()
