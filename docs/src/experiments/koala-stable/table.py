"""Prints the tables of the experiment from the rows of its jobs."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import (  # noqa: E402
    CLAIMING, bars, claiming, counted, head, interval, line, rows_of, summaries_of,
    write_seeds,
)

POLICIES = {"WF": "worst-fit", "CF": "close-to-files"}
PROCESSORS = 400


class Run:
    """One policy under all seeds."""

    def __init__(self, folder, policy):
        self.by_seed = rows_of(folder)[policy]
        self.summaries = summaries_of(folder)[policy]

    def mean(self, value, wanted=lambda row: True):
        """For each seed the mean over the jobs that are wanted."""
        return [
            statistics.mean(value(row) for row in rows if wanted(row))
            for rows in self.by_seed.values()
        ]

    def column(self, name, wanted=lambda row: True):
        return self.mean(lambda row: float(row[name]), wanted)

    def done(self):
        return sum(row["ending"] == "done" for rows in self.by_seed.values() for row in rows)

    def of_seeds(self, value):
        return [value(rows) for rows in self.by_seed.values()]

    def of_summaries(self, value):
        return [value(summary) for summary in self.summaries]


def last(rows, name):
    return max(float(row[name]) for row in rows)


def running(rows):
    """Share of the grid on which its jobs ran, in per cent, up to the last submission."""
    until = last(rows, "submitted_s")
    spans = ((r, min(float(r["finished_s"]), until) - float(r["started_s"])) for r in rows)
    work = sum(max(span, 0) * float(row["processors"]) for row, span in spans)
    return 100 * work / (until * PROCESSORS)


def overview(runs):
    head("load, replicas, policy", "done", "transfer time (s)", "placement time (s)", "wait (s)",
         "our share (%)", "with local (%)", "longest queue", "ends after last job came (s)")
    for (load, replicas, policy), run in runs.items():
        shares = run.of_seeds(running)
        local = run.of_summaries(lambda s: 100 * s["load"]["local"])
        line(
            f"{load}, {replicas}, {policy}",
            str(run.done()),
            interval(run.column("transfer_time_s")),
            interval(run.column("total_placement_time_s")),
            interval(run.column("wait_s")),
            interval(shares),
            interval([sum(pair) for pair in zip(shares, local)]),
            interval(run.of_summaries(lambda s: s["queue_max"])),
            interval(run.of_seeds(lambda r: last(r, "finished_s") - last(r, "submitted_s"))),
        )


def differences(runs):
    head("load, replicas", "CF less WF: transfer time (s)", "placement time (s)", "wait (s)")
    for load, replicas in dict.fromkeys(key[:2] for key in runs):
        wf, cf = (runs[load, replicas, policy] for policy in POLICIES)
        cells = [
            interval([c - w for w, c in zip(wf.column(name), cf.column(name))])
            for name in ("transfer_time_s", "total_placement_time_s", "wait_s")
        ]
        line(f"{load}, {replicas}", *cells)
    print()
    for load in ("w30", "w50"):
        one, three = (runs[load, r, "CF"].column("transfer_time_s") for r in (1, 3))
        print(f"{load}, CF, 3 replicas less 1: {interval([b - a for a, b in zip(one, three)])} s")


def processor_seconds(runs):
    head("load, replicas, policy", *CLAIMING, "rounds submitted that failed (%)")
    for (load, replicas, policy), run in runs.items():
        failed = run.of_seeds(lambda rows: counted(rows, "rounds_aborted"))
        shares = [100 * n / (n + len(rows)) for n, rows in zip(failed, run.by_seed.values())]
        cells = claiming(run.by_seed, run.summaries)
        line(f"{load}, {replicas}, {policy}", *cells, interval(shares))


def by_shape(runs, sizes):
    print()
    shapes = [(count, each) for count in (1, 2, 4) for each in sizes]
    head("placement time (s)", *(f"{count} x {each}" for count, each in shapes))
    for (load, replicas, policy), run in runs.items():
        cells = []
        for count, each in shapes:
            of = (str(count), str(count * each))
            wanted = lambda r, of=of: (r["components"], r["processors"]) == of
            cells.append(interval(run.column("total_placement_time_s", wanted)))
        line(f"{load}, {replicas}, {policy}", *cells)


def spread(to, network):
    sizes = (4, 8, 16, 24)
    shapes = [(count, each) for count in (2, 4) for each in sizes]
    head("replicas, policy", "", "all", *(f"{count} x {each}" for count, each in shapes))
    ratio = lambda row: 100 * int(row["sites"]) / int(row["components"])
    several = lambda row: 100 * (int(row["sites"]) > 1)
    for replicas in (1, 3):
        for policy, name in POLICIES.items():
            run = Run(to / f"{network}-spread-{replicas}", name)
            for what, value in (("job spread (%)", ratio), ("co-allocated (%)", several)):
                cells = [interval(run.mean(value))]
                for count, each in shapes:
                    of = (str(count), str(count * each))
                    wanted = lambda r, of=of: (r["components"], r["processors"]) == of
                    cells.append(interval(run.mean(value, wanted)))
                line(f"{replicas}, {policy}", what, *cells)


def drawn(runs):
    """The figure."""
    groups = [(load, replicas) for load in ("w30", "w50") for replicas in (1, 3)]
    names = [f"{load.upper()}, {n} replica{'s' * (n > 1)}" for load, n in groups]
    series = {
        name: [runs[(*group, policy)].column("transfer_time_s") for group in groups]
        for policy, name in {"CF": "close-to-files", "WF": "worst-fit"}.items()
    }
    return bars("Mean estimated transfer time of a job", "transfer time (s)", names, series)


def main():
    to = Path(sys.argv[1])
    for network in ("slow", "fast"):
        print(f"\n## {network}")
        runs = {
            (load, replicas, policy): Run(to / f"{network}-{load}-{replicas}", name)
            for load in ("w30", "w50")
            for replicas in (1, 3)
            for policy, name in POLICIES.items()
        }
        overview(runs)
        differences(runs)
        processor_seconds(runs)
        by_shape(runs, (8, 16))
        spread(to, network)
        (to / f"transfer-times-{network}.svg").write_text(drawn(runs))
    write_seeds(to)


main()
