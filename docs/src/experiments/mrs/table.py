"""Prints the tables of the experiment from the rows of its jobs and components."""

import csv
import statistics
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import half_width, head, interval, line, rows_of, write_seeds  # noqa: E402

HERE = Path(__file__).parent
MRS, BACKFILL, REP = "mrs", "rival-backfill", "rival-replication"
CANCEL = "rival-replication-cancel"
# As published: what MRS changes, in percent.
CLAIMS = {(BACKFILL, "AWT"): -50.9, (BACKFILL, "QCT"): -18.4, (BACKFILL, "AGU"): 28.9,
          (REP, "AWT"): -15.6, (REP, "QCT"): -52.3, (REP, "AGU"): 18.0}
MEASURES = ["AWT", "AWT to transmission", "QCT", "AGU"]
SENSITIVITY = {"nothing is split": "whole", "without compute": "no-compute",
               "without potential": "no-potential", "without data": "no-data",
               "bandwidths as configured, never measured": "nominal",
               "configured wrong, up to twice or half, measured": "wrong-2",
               "the same, never measured": "wrong-2-nominal",
               "configured wrong, up to 8 times or an 8th, measured": "wrong-8",
               "the same 8 times, never measured": "wrong-8-nominal"}


def powers(grid):
    """GFLOPS of a processor, by site; and of the whole grid."""
    grid = tomllib.loads(grid.read_text())
    of = {site["name"]: site["gflops_per_processor"] for site in grid["site"]}
    size = lambda site: site["nodes"] * site["processors_per_node"]
    return of, sum(size(site) * site["gflops_per_processor"] for site in grid["site"])


def used(folder, power):
    """GFLOPS that components held, times how long, by run."""
    sums = defaultdict(float)
    with open(folder / "components.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["held_s"] and row["ended_s"]:
                time = float(row["ended_s"]) - float(row["held_s"])
                sums[row["run"]] += int(row["processors"]) * power[row["site"]] * time
    return sums


def measures(folder, grid=HERE / "grid.toml"):
    """What the paper measures, by run of one seed. Of copies the first to finish counts, but for the
    time when all is over."""
    power, total = powers(grid)
    found, busy = {}, used(folder, power)
    for run, by_seed in rows_of(folder).items():
        (rows,) = by_seed.values()
        ended = [row for row in rows if row["finished_s"]]
        first = {}
        for row in ended:
            end = float(row["finished_s"])
            if row["ending"] == "done" and end < first.get(row["name"], (end + 1,))[0]:
                first[row["name"]] = (end, row)
        counted = [row for _, row in first.values()]
        begun = min(float(row["submitted_s"]) for row in rows)
        over = max(float(row["finished_s"]) for row in ended)
        since = lambda row, column: float(row[column]) - float(row["submitted_s"])
        found[run] = {
            "AWT": statistics.mean(since(row, "started_s") for row in counted),
            "AWT to transmission": statistics.mean(since(row, "placed_s") for row in counted),
            "QCT": over - begun,
            "AGU": 100 * busy[run] / (total * (over - begun)),
            "jobs done": len(counted),
        }
    return found


def of_seeds(to, name):
    """Measures by run, then by measure: a list of one value a seed."""
    values = defaultdict(lambda: defaultdict(list))
    folders = sorted(to.glob(f"{name}-[0-9]*/jobs.csv"), key=lambda p: int(p.parent.name.rsplit("-")[-1]))
    for path in folders:
        for run, of in measures(path.parent).items():
            for measure, value in of.items():
                values[run][measure].append(value)
    return values


def row(label, values):
    cells = [interval(values[measure]) for measure in MEASURES]
    line(label, *cells, str(sum(values["jobs done"])))


COLUMNS = ["AWT (s)", "AWT to transmission (s)", "QCT (s)", "AGU (%)", "jobs done"]


def changes(values, others):
    """By how much one differs from another, in percent, seed by seed, as far as both were run."""
    return [100 * (ours / theirs - 1) for ours, theirs in zip(values, others)]


def varied(compared, whole, to):
    """What changes when one thing does, over the seeds that both have."""
    head("mrs, varied", "AWT (%)", "AWT to transmission (%)", "QCT (%)", "AGU (%)", "seeds")
    for label, name in SENSITIVITY.items():
        of = whole if name == "whole" else of_seeds(to, name)[MRS]
        cells = [interval(changes(of[each], compared[each])) for each in MEASURES]
        line(label, *cells, str(len(of["AWT"])))


def verdict(changes, claim):
    """By the interval of the change: without one that excludes 0 nothing is shown."""
    mean, half = statistics.mean(changes), half_width(changes)
    low, high = mean - half, mean + half
    if low <= 0 <= high or len(changes) < 2:
        return "**not shown**"
    if (mean > 0) != (claim > 0):
        return "**does not hold**: the other way round"
    if low <= claim <= high:
        return "**holds**, as much as published"
    return "**holds** in direction, " + ("more" if abs(mean) > abs(claim) else "less") + " than published"


def main():
    to = Path(sys.argv[1])
    compared, whole = of_seeds(to, "main"), of_seeds(to, "whole")
    head("as compared", *COLUMNS)
    for run in (BACKFILL, REP, CANCEL, MRS):
        row(run, compared[run])
    row("mrs, jobs whole", whole[MRS])
    head("MRS against", "published (%)", "here (%)", "verdict")
    for (rival, measure), claim in CLAIMS.items():
        found = changes(compared[MRS][measure], compared[rival][measure])
        line(f"{rival}, {measure}", f"{claim:+}", interval(found), verdict(found, claim))
    varied(compared[MRS], whole[MRS], to)
    head("all policies, jobs whole where they can be", *COLUMNS)
    for run, values in of_seeds(to, "policies").items():
        row(run, values)
    head("seed 1", "wait (s)")
    for run, by_seed in rows_of(to / "main-1").items():
        waits = [float(job["wait_s"] or 0) for rows in by_seed.values() for job in rows]
        line(run, interval([statistics.mean(waits)]))
    write_seeds(to)


if __name__ == "__main__":
    main()
