"""Prints the table of all policies on the year of real load with data."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import head, interval, line, resampled, rows_of, weekly  # noqa: E402

POLICIES = ["worst-fit", "close-to-files", "cluster-minimization", "connected-cluster-minimization",
            "flexible-cluster-minimization", "connected-flexible-cluster-minimization", "mrs",
            "mrs-splitting"]


def main():
    to = Path(sys.argv[1])
    head("a year with data", "wait (h)", "wait, median (h)", "response (h)", "data moved (TB)", "sites",
         "jobs done", "wait less that of mrs (s)")
    waits_of = {}
    for policy in POLICIES:
        (by_seed,) = rows_of(to / policy).values()
        waits_of[policy] = weekly(by_seed.values(), "wait_s")
    for policy in POLICIES:
        (by_seed,) = rows_of(to / policy).values()
        of = lambda column, how=statistics.mean, by=1: interval(
            [how([float(row[column] or 0) for row in rows]) / by for rows in by_seed.values()]
        )
        done = sum(row["ending"] == "done" for rows in by_seed.values() for row in rows)
        waits = of("wait_s", by=3600), of("wait_s", statistics.median, 3600)
        line(policy, *waits, of("response_s", by=3600), of("transfer_bytes", sum, 1e12), of("sites"),
             str(done), "-" if policy == "mrs" else resampled(waits_of[policy], waits_of["mrs"]))


main()
