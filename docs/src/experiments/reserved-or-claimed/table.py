"""Prints the tables of the experiment, world by world: what each way to get processors did for jobs of
so many components, what it wasted, and what it cost local users."""

import csv
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import (  # noqa: E402
    counted, half_width, head, line, number, resampled, rows_of, summaries_of, weekly, write_seeds,
)

WAYS = ["claimed", "needed", "reserved", "forward"]
COUNTED = ["reservations confirmed", "promised starts brought forward"]


class Run:
    """One way in one world, under all seeds."""

    def __init__(self, folder):
        [self.by_seed] = rows_of(folder).values()
        [self.summaries] = summaries_of(folder).values()
        with open(folder / "local.csv", newline="") as file:
            self.local = list(csv.DictReader(file))

    def of(self, components):
        """The jobs of so many components, by seed; 0: all."""
        fits = lambda row: components in (0, int(row["components"]))
        return [[row for row in rows if fits(row)] for rows in self.by_seed.values()]

    def mean(self, column, components=0):
        """One mean a seed."""
        values = ([float(row[column]) for row in rows if row[column]] for rows in self.of(components))
        return [statistics.mean(each) for each in values]

    def share_late(self, components, beyond=600):
        """The share of the jobs that wait for longer, in per cent."""
        late = lambda rows: sum(not row["wait_s"] or float(row["wait_s"]) > beyond for row in rows)
        return [100 * late(rows) / len(rows) for rows in self.of(components)]

    def local_waits(self):
        """The mean wait of a local user's job, by seed."""
        sums = defaultdict(lambda: [0, 0.0])
        for row in self.local:
            sums[row["seed"]][0] += int(row["jobs"])
            sums[row["seed"]][1] += int(row["jobs"]) * float(row["wait_s"])
        return [total / jobs for jobs, total in sums.values()]

    def utilization(self):
        loads = (summary["load"] for summary in self.summaries)
        return [100 * (load["grid_running"] + load["local"]) for load in loads]

    def counter(self, name):
        return [summary["counters"].get(name, 0) for summary in self.summaries]


def interval(values):
    half, mean = half_width(values), number(statistics.mean(values))
    return f"{mean} ± {number(half)}" if half else mean


def in_vain(run):
    """Processor time from the batch system's start of a component to its payload's, in hundredths of
    what payloads ran."""
    work = lambda rows: sum(float(row["run_time_s"] or 0) * int(row["processors"]) for row in rows)
    return [100 * counted(rows, "held_processor_s") / work(rows) for rows in run.by_seed.values()]


def tables(world, runs):
    sizes = sorted({int(row["components"]) for rows in runs["claimed"].of(0) for row in rows})
    head(world, *runs)
    row = lambda what, of: line(what, *(interval(of(run)) for run in runs.values()))
    done = lambda rows: sum(each["ending"] == "done" for each in rows)
    row("jobs done", lambda run: [done(rows) for rows in run.of(0)])
    row("mean wait (s)", lambda run: run.mean("wait_s"))
    for size in sizes:
        row(f"of jobs of {size}", lambda run: run.mean("wait_s", size))
    for size in sizes:
        row(f"jobs of {size} that wait above 10 min (%)", lambda run: run.share_late(size))
    row("bounded slowdown", lambda run: run.mean("bounded_slowdown"))
    row("processor time held in vain (% of that of payloads)", in_vain)
    row("rounds given up", lambda run: [counted(rows, "rounds_aborted") for rows in run.of(0)])
    row("wait of local users (s)", Run.local_waits)
    row("utilization (%)", Run.utilization)
    for name in COUNTED:
        row(name, lambda run: run.counter(name))
    if world == "year":
        weeks_resampled(runs, sizes)


def weeks_resampled(runs, sizes):
    head("weeks resampled, wait less that of claimed (s)", *WAYS[1:])
    for size in [0, *sizes]:
        of = {way: weekly(run.of(size), "wait_s") for way, run in runs.items()}
        less = (resampled(of[way], of["claimed"]) for way in WAYS[1:])
        line(f"jobs of {size}" if size else "all", *less)


def main():
    to = Path(sys.argv[1])
    for world in ("drawn", "year"):
        if (to / f"{world}-claimed").exists():
            tables(world, {way: Run(to / f"{world}-{way}") for way in WAYS})
    write_seeds(to)


main()
