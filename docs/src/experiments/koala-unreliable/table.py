"""Prints the tables of the experiment from the rows of its jobs."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import (  # noqa: E402
    CLAIMING, PLACED_ALIKE, SPLIT_ALSO, bars, claiming, counted, head, interval, line, rows_of, summaries_of,
    write_seeds,
)

POLICIES = PLACED_ALIKE + SPLIT_ALSO
SHAPES = [("36", "3"), ("36", "4"), ("72", "3"), ("72", "4"), ("72", "6"), ("72", "8")]
CLASSES = ["high", "low"]


def failed_share(rows):
    """The paper's: placements that were submitted and did not lead to the end, in per cent."""
    failed = counted(rows, "rounds_aborted")
    return 100 * failed / (failed + len(rows))


def struck_share(rows):
    """Of them those that an error of a site ended; others missed their start."""
    return 100 * counted(rows, "site_errors") / (counted(rows, "rounds_aborted") + len(rows))


def mean(column):
    return lambda rows: statistics.mean(float(row[column]) for row in rows)


MEASURES = {
    "failed (%)": failed_share,
    "by a site (%)": struck_share,
    "total placement time (s)": mean("total_placement_time_s"),
    "start delay (s)": mean("start_delay_s"),
}


def wanted(total=None, parts=None, priority=None):
    """Whether a job has so many processors, in so many parts, and this class."""
    asked = {"processors": total, "components": parts, "priority": priority}
    return lambda row: all(row[column] == value for column, value in asked.items() if value)


def of_seeds(by_seed, measure, wanted):
    """The measure for each seed, over the jobs that are wanted."""
    return [measure([row for row in rows if wanted(row)]) for rows in by_seed.values()]


def difference(by_seed, measure, one, other):
    """The measure of one group of jobs less that of the other, seed by seed."""
    pairs = zip(of_seeds(by_seed, measure, one), of_seeds(by_seed, measure, other))
    return interval([a - b for a, b in pairs])


def overview(runs, summaries):
    head("policy", "done", *MEASURES, "wait (s)", "sites", "ours (%)", "held (%)", "with local (%)",
         "queue at most")
    for policy in (policy for policy in POLICIES if policy in runs):
        by_seed, of = runs[policy], summaries[policy]
        done = sum(row["ending"] == "done" for rows in by_seed.values() for row in rows)
        loads = lambda *kinds: interval([100 * sum(s["load"][kind] for kind in kinds) for s in of])
        line(
            policy,
            f"{done} of {sum(map(len, by_seed.values()))}",
            *(interval(of_seeds(by_seed, measure, wanted())) for measure in MEASURES.values()),
            interval(of_seeds(by_seed, mean("wait_s"), wanted())),
            interval(of_seeds(by_seed, mean("sites"), wanted())),
            loads("grid_running"),
            loads("grid_held"),
            loads("grid_running", "grid_held", "local"),
            interval([s["queue_max"] for s in of]),
        )


def by_shape(by_seed):
    """One policy in full."""
    head("components", *(f"{measure}, {c}" for measure in MEASURES for c in CLASSES), "sites",
         *(f"co-allocated (%), {c}" for c in CLASSES))
    for total, parts in SHAPES:
        cells = [
            interval(of_seeds(by_seed, measure, wanted(total, parts, c)))
            for measure in MEASURES.values()
            for c in CLASSES
        ]
        sites = interval(of_seeds(by_seed, mean("sites"), wanted(total, parts)))
        several = lambda rows: 100 * statistics.mean(int(row["sites"]) > 1 for row in rows)
        shares = [interval(of_seeds(by_seed, several, wanted(total, parts, c))) for c in CLASSES]
        line(f"{parts} x {int(total) // int(parts)}", *cells, sites, *shares)


def differences(runs):
    """What the claims are about, for each policy."""
    for name, measure in MEASURES.items():
        head(f"{name}: policy", "4 less 3 of 36", "8 less 3 of 72", "72 less 36", "high less low")
        for policy in (policy for policy in POLICIES if policy in runs):
            by_seed, split = runs[policy], policy in SPLIT_ALSO
            pairs = [
                (wanted("36", "4"), wanted("36", "3")),
                (wanted("72", "8"), wanted("72", "3")),
                (wanted("72"), wanted("36")),
                (wanted(priority="high"), wanted(priority="low")),
            ]
            cells = [difference(by_seed, measure, *pair) for pair in pairs[2 if split else 0:]]
            line(policy, *(["-", "-"] if split else []), *cells)


def drawn(by_seed):
    """The figure."""
    names = [f"{parts} x {int(total) // int(parts)}" for total, parts in SHAPES]
    series = {
        f"{c} priority": [of_seeds(by_seed, failed_share, wanted(*shape, c)) for shape in SHAPES]
        for c in CLASSES
    }
    return bars("Placements that failed, Worst-Fit", "failed (%)", names, series)


def main():
    to = Path(sys.argv[1])
    for grid, figure in {"all": "failed.svg", "black-holes": "failed-black-holes.svg"}.items():
        print(f"\n## {grid}")
        runs, summaries = rows_of(to / grid), summaries_of(to / grid)
        overview(runs, summaries)
        by_shape(runs["worst-fit"])
        differences(runs)
        head("policy", *CLAIMING)
        for policy in (policy for policy in POLICIES if policy in runs):
            line(policy, *claiming(runs[policy], summaries[policy]))
        (to / figure).write_text(drawn(runs["worst-fit"]))
    write_seeds(to)


main()
