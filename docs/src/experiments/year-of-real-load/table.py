"""Prints the table of the experiment and draws the jobs lost through the year.

A job is lost if it is done without failures and is not done with them. Without failures
the same jobs run on the same grid under the same seed, so that what failures cost is the
difference, job by job.
"""

import csv
import json
import math
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from figure import lost_through_the_year

# Student's t, 97.5 %, by degrees of freedom.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
TITLES = {"rerunnable": "placed again", "not rerunnable": "not placed again"}
# Calls to sites take up to 50 ms each way; a run time is seen that much longer or shorter.
SLACK_S = 0.5
LINES = [
    ("components killed by failing nodes", "killed"),
    ("jobs that a failing node struck", "struck"),
    ("jobs done", "done"),
    ("**jobs lost**", "lost"),
    ("jobs that had not ended", "unfinished"),
    ("processor hours of the jobs lost", "undelivered_hours"),
    ("processor hours run in vain", "vain_hours"),
    ("mean delay of a job that was struck and done (h)", "mean_delay_h"),
    ("longest delay of one (h)", "longest_delay_h"),
]


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def interval(values):
    """Mean of one value a seed, with its interval of 95 %."""
    if None in values:
        return "-"
    mean = statistics.mean(values)
    if len(values) < 2 or min(values) == max(values):
        return number(mean)
    half = T_975.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{number(mean)} ± {half:,.2g}" if half < 100 else f"{number(mean)} ± {half:,.0f}"


def jobs(folder):
    """Rows of the jobs by label and seed, then by their number in the log."""
    runs = defaultdict(dict)
    with open(folder / "jobs.csv", newline="") as file:
        for row in csv.DictReader(file):
            run = runs[row["run"], row["seed"]]
            if row["name"] in run:
                sys.exit(f"job {row['name']} is there twice")
            run[row["name"]] = row
    return runs


def summaries(folder):
    """Summaries of the runs by label and seed."""
    runs = json.loads((folder / "summary.json").read_text())["runs"]
    return {(run["label"], str(run["seed"])): run for run in runs}


def hours_run(summary):
    """Processor hours of payloads, whatever came of them."""
    return summary["load"]["grid_running"] * summary["processors"] * summary["duration_s"] / 3600


def processor_hours(row):
    return int(row["processors"]) * float(row["run_time_s"]) / 3600


def is_done(row):
    return row["ending"] == "done"


def against_calm(rows, summary, calm_rows, calm_summary):
    """What failures did in one run, against the same run without them."""
    struck = [(name, row) for name, row in rows.items() if int(row["site_errors"]) > 0]
    lost = [name for name, row in rows.items() if is_done(calm_rows[name]) and not is_done(row)]
    given_up = [name for name, row in struck if ended_early(row, calm_rows[name])]
    late = [hours_late(row, calm_rows[name]) for name, row in struck if is_done(row)]
    never_delivered = sum(processor_hours(calm_rows[name]) for name in given_up)
    return {
        "killed": summary["counters"].get("components killed by failing nodes", 0),
        "struck": len(struck),
        "done": sum(map(is_done, rows.values())),
        "lost": len(lost),
        "unfinished": sum(row["ending"] == "unfinished" for row in rows.values()),
        "undelivered_hours": sum(processor_hours(calm_rows[name]) for name in lost),
        "vain_hours": hours_run(summary) - (hours_run(calm_summary) - never_delivered),
        "mean_delay_h": statistics.mean(late) if late else None,
        "longest_delay_h": max(late, default=None),
        "lost_at_days": sorted(float(rows[name]["finished_s"]) / 86400 for name in lost),
        "odd": sum(is_done(row) and differs(row, calm_rows[name]) for name, row in rows.items()),
    }


def differs(row, calm):
    return abs(float(row["run_time_s"]) - float(calm["run_time_s"])) > SLACK_S


def ended_early(row, calm):
    """It was given up before it had run as long as it does without failures."""
    return not row["run_time_s"] or float(row["run_time_s"]) < float(calm["run_time_s"]) - SLACK_S


def hours_late(row, calm):
    return (float(row["response_s"]) - float(calm["response_s"])) / 3600


def main():
    to = Path(sys.argv[1])
    calm_jobs, calm_summaries = jobs(to / "no-failures"), summaries(to / "no-failures")
    calm = {seed: (rows, calm_summaries[label, seed]) for (label, seed), rows in calm_jobs.items()}
    disturbed, disturbed_summaries = jobs(to / "failures"), summaries(to / "failures")
    results = {label: [] for label in TITLES}
    for (label, seed), rows in disturbed.items():
        if set(rows) != set(calm[seed][0]):
            sys.exit(f"{label}, seed {seed}: other jobs than without failures")
        results[label].append(against_calm(rows, disturbed_summaries[label, seed], *calm[seed]))
    table(results, list(calm.values()))
    checks(results, calm, disturbed)
    lines = {TITLES[label]: [run["lost_at_days"] for run in runs] for label, runs in results.items()}
    (to / "lost.svg").write_text(lost_through_the_year(lines))


def table(results, calm):
    print(f"| | no failures | {' | '.join(TITLES.values())} |")
    print("|---|---|---|---|")
    done = interval([sum(map(is_done, rows.values())) for rows, _ in calm])
    hours = interval([hours_run(summary) for _, summary in calm])
    print(f"| processor hours asked for | {hours} | the same | the same |")
    for title, key in LINES:
        cells = [interval([run[key] for run in results[label]]) for label in TITLES]
        print(f"| {title} | {done if key == 'done' else '-'} | {' | '.join(cells)} |")


def checks(results, calm, disturbed):
    own = {sum(not is_done(row) for row in rows.values()) for rows, _ in calm.values()}
    odd = sum(run["odd"] for runs in results.values() for run in runs)
    rounds = max(int(row["rounds"]) for rows in disturbed.values() for row in rows.values())
    print()
    print(f"seeds: {len(calm)}")
    print(f"jobs, each there once in every run: {sorted({len(rows) for rows, _ in calm.values()})}")
    print(f"jobs that reach their wall time also without failures: {sorted(own)}")
    print(f"jobs done whose run time is not that without failures: {odd}")
    print(f"most rounds of a job: {rounds}")


main()
