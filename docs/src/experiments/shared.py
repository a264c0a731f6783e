"""What the tables and figures of several experiments have in common."""

import csv
import json
import math
import random
import statistics
from collections import defaultdict

# Student's t, 97.5 %, by degrees of freedom from 1 on.
T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
T_975 += [2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]

WEEK_S = 7 * 86_400
# How often the weeks are drawn anew.
DRAWS = 2000

PLACED_ALIKE = ["worst-fit", "close-to-files", "cluster-minimization", "connected-cluster-minimization"]
SPLIT_ALSO = ["flexible-cluster-minimization", "connected-flexible-cluster-minimization"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 60, 16, 36, 44
COLOURS = ["#1b6ca8", "#c8553d", "#5b8c5a"]
STEPS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'


def t_975(degrees):
    """From the table, and beyond it by the expansion around the normal quantile (Abramowitz and
    Stegun 26.7.5)."""
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    z = statistics.NormalDist().inv_cdf(0.975)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2


def half_width(values):
    """Of the interval of 95 % of the mean of one value a seed."""
    if len(values) < 2:
        return 0.0
    return t_975(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def interval(values):
    """Mean of one value a seed, with its interval of 95 %."""
    mean = statistics.mean(values)
    return f"{mean:.3g} ± {half_width(values):.2g}" if len(values) > 1 else f"{mean:.3g}"


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def weekly(runs, column):
    """Of the jobs submitted in each week: how many, and the sum of a column, over all runs."""
    weeks = defaultdict(lambda: [0, 0.0])
    for rows in runs:
        for row in rows:
            if row[column]:
                week = weeks[int(float(row["submitted_s"]) // WEEK_S)]
                week[0] += 1
                week[1] += float(row[column])
    return weeks


def resampled(one, other):
    """The mean of one less that of the other, where the load is another sample of the weeks: the
    same weeks for both (paired block bootstrap; Künsch 1989), with its interval of 95 %."""
    weeks = sorted(set(one) | set(other))
    ratio = lambda of, drawn: sum(of[w][1] for w in drawn) / max(sum(of[w][0] for w in drawn), 1)
    less = lambda drawn: ratio(one, drawn) - ratio(other, drawn)
    chance = random.Random(1)
    values = sorted(less(chance.choices(weeks, k=len(weeks))) for _ in range(DRAWS))
    low, high = values[round(0.025 * DRAWS)], values[round(0.975 * DRAWS) - 1]
    return f"{number(less(weeks))} ({number(low)} to {number(high)})"


def rows_of(folder):
    """Rows of the jobs of a simulation by the label of its runs, then by seed."""
    runs = defaultdict(lambda: defaultdict(list))
    with open(folder / "jobs.csv", newline="") as file:
        for row in csv.DictReader(file):
            runs[row["run"]][row["seed"]].append(row)
    return runs


def summaries_of(folder):
    """Summaries of its runs by label, one a seed."""
    runs = defaultdict(list)
    for run in json.loads((folder / "summary.json").read_text())["runs"]:
        runs[run["label"]].append(run)
    return runs


SEEDS = ["folder", "run", "seed", "done", "wait_s", "response_s", "sites", "rounds_aborted",
         "gained_processor_s", "held_processor_s"]


def seeds_of(to, folders=None, counters=()):
    """A row for each run of these folders, or of all below `to`: what its jobs came to, and these
    counters."""
    rows = []
    for folder in folders or sorted(path.parent.name for path in to.glob("*/jobs.csv")):
        counts = {(run["label"], str(run["seed"])): run["counters"]
                  for runs in summaries_of(to / folder).values() for run in runs}
        for run, by_seed in rows_of(to / folder).items():
            for seed, jobs in by_seed.items():
                mean = lambda column: statistics.mean(float(job[column] or 0) for job in jobs)
                done = sum(job["ending"] == "done" for job in jobs)
                means = [f"{mean(column):.6g}" for column in SEEDS[4:7]]
                sums = [f"{counted(jobs, column):.9g}" for column in SEEDS[7:]]
                row = dict(zip(SEEDS, [folder, run, seed, str(done), *means, *sums]))
                rows.append(row | {name: str(counts[run, seed].get(name, 0)) for name in counters})
    return rows


def write_seeds(to, rows=None):
    """Writes them beside the page's tables."""
    rows = rows or seeds_of(to)
    with open(to / "seeds.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def counted(rows, column):
    """The sum of a column."""
    return sum(float(row[column]) for row in rows)


CLAIMING = ["gained (1000 processor s)", "wasted", "wasted over gained (%)", "failed tries",
            "rounds late", "components moved", "preemptions"]


def claiming(by_seed, summaries):
    """Cells of a table for what claiming did, in the order of CLAIMING; means over seeds."""
    of_seeds = lambda column, by=1: [counted(rows, column) / by for rows in by_seed.values()]
    gained, wasted = of_seeds("gained_processor_s", 1000), of_seeds("held_processor_s", 1000)
    shares = [100 * w / g for g, w in zip(gained, wasted) if g]
    moved = [run["counters"]["components moved"] for run in summaries]
    tries, late = of_seeds("failed_claims"), of_seeds("missed_starts")
    counts = [interval(each) for each in (tries, late, moved, of_seeds("preemptions"))]
    return [interval(gained), interval(wasted), interval(shares) if shares else "-", *counts]


def line(*cells):
    """A row of a table in Markdown."""
    print("| " + " | ".join(cells) + " |")


def head(*cells):
    """The first rows of a table in Markdown."""
    print()
    line(*cells)
    print("|---" * len(cells) + "|")


def bars(title, unit, groups, series):
    """Bars with intervals as SVG; `series` has, by name, the values of all seeds for each group."""
    means = [statistics.mean(values) for each in series.values() for values in each]
    step = next(step for step in STEPS if max(means) * 1.15 <= 6 * step)
    top = step * math.ceil(max(means) * 1.15 / step)
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for value in range(0, top + 1, step):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" {FONT}>{value}</text>')
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = room * 0.7 / len(series)
    for place, ((name, of_groups), colour) in enumerate(zip(series.items(), COLOURS)):
        parts.append(f'<rect x="{LEFT + place * 210}" y="11" width="14" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 20 + place * 210}" y="20" {FONT}>{name}</text>')
        for group, values in enumerate(of_groups):
            x = LEFT + room * (group + 0.15) + width * place
            mean, half = statistics.mean(values), half_width(values)
            height = y(0) - y(mean)
            parts.append(
                f'<rect x="{x:.1f}" y="{y(mean):.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{colour}"/>'
            )
            low, high = y(max(mean - half, 0)), y(min(mean + half, top))
            parts.append(f'<path d="M{x + width / 2:.1f} {low:.1f}V{high:.1f}" stroke="#333"/>')
    for group, label in enumerate(groups):
        x = LEFT + room * (group + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" {FONT}>{label}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 16 {middle})" text-anchor="middle"'
    parts.append(f'<text x="16" y="{middle}" {turned} {FONT}>{unit}</text>')
    return "\n".join([*parts, "</svg>", ""])
