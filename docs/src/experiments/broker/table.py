"""Prints the tables of the experiment: the paper's figures beside those of this machine, and what
reservations cost a site."""

import json
import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import half_width, head, line, number, rows_of, summaries_of, write_seeds  # noqa: E402

SHARES = ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]
# Figures of the paper, and which of ours stands beside it, in which unit.
SIDE_BY_SIDE = [
    ("jobs a minute with one reservation each, one site, 3 clients", "40", "reserve_per_min_3_clients", "{:,.0f}"),
    ("the same, 7 clients", "40", "reserve_per_min_7_clients", "{:,.0f}"),
    ("the same, 15 clients", "40", "reserve_per_min_15_clients", "{:,.0f}"),
    ("from submission to promise, 3 clients", "5 s", "reserve_response_ms_3_clients", "{:.1f} ms"),
    ("the same, 7 clients", "10 s", "reserve_response_ms_7_clients", "{:.1f} ms"),
    ("the same, 15 clients", "20 s", "reserve_response_ms_15_clients", "{:.1f} ms"),
    ("an augmenting path of length 3", "2 s", "augment_p50_ms", "{:.1f} ms"),
    ("co-allocations of three jobs", "an iteration in 3.5 s", "coalloc_per_s", "{:,.0f} a second"),
]


def side_by_side(figures):
    head("what", "paper", "here")
    for what, theirs, name, form in SIDE_BY_SIDE:
        line(what, theirs, form.format(figures[name]))
    head("starts at most apart (min)", "windows tried", "reservations touched by an augmenting path")
    for minutes in (60, 15, 5, 1):
        windows, length = (figures[f"coalloc_{what}_within_{minutes}_min"] for what in ("windows", "path_length"))
        line(str(minutes), number(windows), number(length))


def interval(values):
    half, mean = half_width(values), number(statistics.mean(values))
    return f"{mean} ± {number(half)}" if half else mean


def cells(folder):
    """Of one share: utilization, and jobs that were done and that were refused."""
    [by_seed] = rows_of(folder).values()
    [summaries] = summaries_of(folder).values()
    used = [100 * summary["load"]["grid_running"] for summary in summaries]
    done = [sum(row["ending"] == "done" for row in rows) for rows in by_seed.values()]
    failed = [sum(row["ending"] == "failed" for row in rows) for rows in by_seed.values()]
    return [interval(used), interval(done), interval(failed)]


def cost(to):
    head("share that reserves", "utilization (%)", "done", "refused", "coming forward: utilization (%)", "done", "refused")
    for share in SHARES:
        still = cells(to / f"share-{share}")
        line(share, *still, *(still if share == "0" else cells(to / f"forward-{share}")))


def main():
    to = Path(sys.argv[1])
    bench = json.loads((to / "bench.json").read_text())
    side_by_side({figure["name"]: figure["value"] for figure in bench["figures"]})
    cost(to)
    write_seeds(to)


main()
