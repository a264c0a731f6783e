"""Makes the load of one seed: prepare.py PARAGON BLUE TO SEED [WEEKS]. From the Paragon's log of 1996 come
four sites, its two halves, and both again with their weeks in another order; from the first year
of Blue Horizon's log come jobs over sites, both halves laid over each other, of which so many are
drawn that all jobs together ask for a share of the sites. WEEKS takes the first ones
only. Prints what was left out and clipped."""

import random
import sys
from pathlib import Path

HOUR, DAY = 3600, 86_400
HALF, WEEK = 182 * DAY, 7 * DAY
# From the beginning of the Paragon's log to 1 January 1996.
NEW_YEAR = 4 * DAY + 13 * HOUR + 6 * 60 + 3
PROCESSORS = 4 * 400
# The longest estimate of a local job.
LONGEST = 13 * HOUR
LOADS = [80, 90]
SUBMITTED, RUN, COUNT, ASKED, ESTIMATE = 1, 3, 4, 7, 8


def jobs(file, begin):
    """Lines of a log with their times counted from an instant, those of 364 days, and how many of
    these never ran. Jobs end at their estimates."""
    with open(file) as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    read = [[int(float(field)) for field in row] for row in rows]
    read = [row[:SUBMITTED] + [row[SUBMITTED] - begin] + row[SUBMITTED + 1 :] for row in read]
    of_year = [row for row in read if 0 <= row[SUBMITTED] < 2 * HALF]
    ran = [row for row in of_year if row[RUN] > 0 and row[COUNT] > 0]
    return ran, len(of_year) - len(ran)


def work(rows):
    return sum(row[RUN] * row[COUNT] for row in rows)


def halves(rows):
    """Each as if it began at 0."""
    later = lambda row: row[:SUBMITTED] + [row[SUBMITTED] - HALF] + row[SUBMITTED + 1 :]
    first = [row for row in rows if row[SUBMITTED] < HALF]
    return first, [later(row) for row in rows if row[SUBMITTED] >= HALF]


def shuffled(rows, chance):
    """Its weeks in another order."""
    order = list(range(HALF // WEEK))
    chance.shuffle(order)
    at = lambda time: order[time // WEEK] * WEEK + time % WEEK
    return [row[:SUBMITTED] + [at(row[SUBMITTED])] + row[SUBMITTED + 1 :] for row in rows]


def write(to, name, rows):
    """With small jobs and without: those of at most 64 processors for at most an hour."""
    rows = sorted(rows, key=lambda row: row[SUBMITTED])
    length = lambda row: row[ESTIMATE] if row[ESTIMATE] > 0 else row[RUN]
    large = [row for row in rows if length(row) > HOUR or row[COUNT] > 64]
    for name, rows in ((name, rows), (f"{name}-large", large)):
        lines = (" ".join(map(str, row)) + "\n" for row in rows)
        (to / f"{name}.swf").write_text("".join(lines))


def main():
    paragon, blue, to = map(Path, sys.argv[1:4])
    seed, weeks = int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else HALF // WEEK
    cut = lambda rows: [row for row in rows if row[SUBMITTED] < weeks * WEEK]
    chance = random.Random(seed)
    local, never_ran = jobs(paragon, NEW_YEAR)
    clipped = sum(row[RUN] > LONGEST for row in local)
    for row in local:
        row[RUN], row[ESTIMATE] = min(row[RUN], LONGEST), -1
    first, second = halves(local)
    sites = [cut(rows) for rows in (first, second, shuffled(first, chance), shuffled(second, chance))]
    for name, rows in zip("abcd", sites):
        write(to, name, rows)
    metas, cancelled = jobs(blue, 0)
    beyond = sum(0 < row[ESTIMATE] < row[RUN] for row in metas)
    for row in metas:
        row[RUN] = min(row[RUN], row[ESTIMATE]) if row[ESTIMATE] > 0 else row[RUN]
    metas = [row for half in halves(metas) for row in cut(half)]
    chance.shuffle(metas)
    there, taken = PROCESSORS * weeks * WEEK, sum(map(work, sites))
    print(f"seed {seed}: local {taken / there:.3f}, all of the other log {work(metas) / there:.3f}")
    print(f"local: {sum(map(len, sites))}; of the year {never_ran} without a run time, {clipped} clipped to 13 h")
    print(f"other: {len(metas)}, {cancelled} without a run time, {beyond} ended at their estimates")
    for load in LOADS:
        left, drawn = load / 100 * there - taken, []
        for row in metas:
            if left <= 0:
                break
            left -= work([row])
            drawn.append(row)
        write(to, f"metas-{load}", drawn)
        large = sum(row[COUNT] > 400 for row in drawn)
        print(f"load {load} %: {len(drawn)} drawn, {large} of more than 400 processors")


main()
