"""Fits groups of users to job logs: fit.py LOG... > groups.csv. The group model of Song, Ernemann and
Yahyapour has users with like jobs in one group; its tables are not to be had, so these stand in for
them. Users with at least twenty jobs are put into six groups by the means of the logarithms of size and
run time (k-means, begun from quantiles, so that it always gives the same)."""

import csv
import gzip
import lzma
import math
import statistics
import sys
from collections import Counter, defaultdict

GROUPS, FEWEST, LARGEST, LONGEST = 6, 20, 64, 12 * 3600


def rows(path):
    """User, submission, run time and processors of the jobs that ran."""
    opened = {"gz": gzip.open, "xz": lzma.open}.get(path.rsplit(".", 1)[-1], open)
    with opened(path, "rt", errors="replace") as file:
        for line in file:
            fields = line.split()
            if len(fields) < 18 or fields[0].startswith(";"):
                continue
            submitted, run, size, user = (int(float(fields[i])) for i in (1, 3, 4, 11))
            if 1 <= size <= LARGEST and 10 <= run <= LONGEST:
                yield f"{path}:{user}", submitted, run, size


def means(jobs):
    """The point of a user."""
    return (
        statistics.mean(math.log2(size) for _, _, size in jobs),
        statistics.mean(math.log2(run) for _, run, _ in jobs),
    )


def grouped(points):
    """Users by group."""
    order = sorted(points, key=lambda user: (sum(points[user]), user))
    step = len(order) / GROUPS
    centres = [points[order[int((group + 0.5) * step)]] for group in range(GROUPS)]
    for _ in range(100):
        members = defaultdict(list)
        for user in order:
            distance = lambda centre: sum((a - b) ** 2 for a, b in zip(points[user], centre))
            members[min(range(GROUPS), key=lambda g: distance(centres[g]))].append(user)
        moved = [
            tuple(statistics.mean(points[user][axis] for user in members[g]) for axis in (0, 1))
            if members[g] else centres[g]
            for g in range(GROUPS)
        ]
        if moved == centres:
            break
        centres = moved
    return [members[group] for group in range(GROUPS) if members[group]]


def main():
    jobs, hours = defaultdict(list), Counter()
    for path in sys.argv[1:]:
        for user, submitted, run, size in rows(path):
            jobs[user].append((submitted, run, size))
            hours[submitted // 3600 % 24] += 1
    jobs = {user: of for user, of in jobs.items() if len(of) >= FEWEST}
    # One of many jobs counts as much as one of few: else a single user would be the workload.
    weight = {user: math.sqrt(len(of)) for user, of in jobs.items()}
    out = csv.writer(sys.stdout, lineterminator="\n")
    sizes = [2**power for power in range(7)]
    out.writerow(["users", "share", "ln_run_mean", "ln_run_sd", *(f"size_{size}" for size in sizes)])
    for users in grouped({user: means(of) for user, of in jobs.items()}):
        runs, counts, total = [], Counter(), 0.0
        for user in users:
            each = weight[user] / len(jobs[user])
            total += weight[user]
            for _, run, size in jobs[user]:
                runs.append((math.log(run), each))
                counts[2 ** round(math.log2(size))] += each
        mean = sum(run * each for run, each in runs) / total
        deviation = math.sqrt(sum(each * (run - mean) ** 2 for run, each in runs) / total)
        share = total / sum(weight.values())
        cells = [f"{counts[size] / total:.4f}" for size in sizes]
        out.writerow([len(users), f"{share:.4f}", f"{mean:.3f}", f"{deviation:.3f}", *cells])


main()
