"""Prints the table of the experiment and draws the jobs lost through the year.

A job is lost if it is done without failures and is not done with them. Without failures
the same jobs run on the same grid under the same seed, so that what failures cost is the
difference, job by job.
"""

import csv
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from figure import lost_through_the_year

sys.path.append(str(Path(__file__).parent.parent))
from shared import half_width, head, line, number, resampled, weekly, write_seeds  # noqa: E402

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


def interval(values):
    """Mean of one value a seed, with its interval of 95 %."""
    if None in values:
        return "-"
    mean = statistics.mean(values)
    half = half_width(values)
    if not half:
        return number(mean)
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


def with_and_without(to, policy):
    """The runs of a policy without failures by seed, and with them by label and seed."""
    calm_jobs, calm_summaries = (read(to / f"no-failures-{policy}") for read in (jobs, summaries))
    calm = {seed: (rows, calm_summaries[label, seed]) for (label, seed), rows in calm_jobs.items()}
    disturbed, disturbed_summaries = (read(to / f"failures-{policy}") for read in (jobs, summaries))
    for (label, seed), rows in disturbed.items():
        if set(rows) != set(calm[seed][0]):
            sys.exit(f"{label}, seed {seed}: other jobs than without failures")
    return calm, {key: (rows, disturbed_summaries[key]) for key, rows in disturbed.items()}


def main():
    to, policies = Path(sys.argv[1]), sys.argv[2:]
    calm, disturbed = with_and_without(to, policies[0])
    results = {label: [] for label in TITLES}
    for (label, seed), (rows, summary) in disturbed.items():
        results[label].append(against_calm(rows, summary, *calm[seed]))
    table(results, list(calm.values()))
    checks(results, calm, [rows for rows, _ in disturbed.values()])
    lines = {TITLES[label]: [run["lost_at_days"] for run in runs] for label, runs in results.items()}
    (to / "lost.svg").write_text(lost_through_the_year(lines))
    head("placed again", "lost", "struck", "run in vain (processor h)", "mean delay (h)", "wait (s)",
         "response (s)", "slowdown", "utilization (%)", "over several sites", "sites of those")
    for policy in policies:
        calm, disturbed = with_and_without(to, policy)
        again = {s: run for (label, s), run in disturbed.items() if label != "not rerunnable"}
        line(policy, *compared(calm, again))
    by_weeks(to, policies)
    alike(to / "alike")
    write_seeds(to)


def by_weeks(to, policies):
    """What would differ had the year had other weeks."""
    columns = ["wait_s", "response_s", "bounded_slowdown"]
    rows_of = lambda runs: [rows.values() for rows, _ in runs]
    head("weeks resampled", "wait with failures less without (s)",
         *(f"{column.removesuffix('_s').replace('_', ' ')} less Worst-Fit's" for column in columns))
    first = None
    for policy in policies:
        calm, disturbed = with_and_without(to, policy)
        again = [run for (label, _), run in disturbed.items() if label != "not rerunnable"]
        of = {column: weekly(rows_of(again), column) for column in columns}
        first = first or of
        cells = [resampled(of["wait_s"], weekly(rows_of(calm.values()), "wait_s"))]
        cells += ["-" if of is first else resampled(of[c], first[c]) for c in columns]
        line(policy, *cells)


ALIKE = {
    "close-to-files": "worst-fit",
    "connected-flexible-cluster-minimization": "flexible-cluster-minimization",
}


def alike(folder):
    """Whether policies do the same to every job of the short runs."""
    runs = {label: list(rows.values()) for (label, _), rows in jobs(folder).items()}
    plain = lambda label: [{**row, "run": ""} for row in runs[label]]
    print()
    for one, other in ALIKE.items():
        differ = sum(a != b for a, b in zip(plain(one), plain(other), strict=True))
        print(f"{one} and {other}: {differ} of {len(runs[one])} jobs fare otherwise")


def compared(calm, disturbed):
    """Cells for one policy: what failures did, and what its jobs saw with them."""
    results = [against_calm(*run, *calm[seed]) for seed, run in disturbed.items()]
    runs = list(disturbed.values())
    cells = [interval([run[key] for run in results])
             for key in ("lost", "struck", "vain_hours", "mean_delay_h")]
    for key in ("wait_s", "response_s", "bounded_slowdown"):
        cells.append(interval([summary[key]["mean"] for _, summary in runs]))
    used = lambda load: 100 * (load["grid_running"] + load["local"])
    cells.append(interval([used(summary["load"]) for _, summary in runs]))
    cells.append(interval([summary["jobs"]["over_several_sites"] for _, summary in runs]))
    several = lambda rows: [int(row["sites"]) for row in rows.values() if int(row["sites"]) > 1]
    cells.append(interval([statistics.mean(several(rows) or [1]) for rows, _ in runs]))
    return cells


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
    rounds = max(int(row["rounds"]) for rows in disturbed for row in rows.values())
    print()
    print(f"seeds: {len(calm)}")
    print(f"jobs, each there once in every run: {sorted({len(rows) for rows, _ in calm.values()})}")
    print(f"jobs that reach their wall time also without failures: {sorted(own)}")
    print(f"jobs done whose run time is not that without failures: {odd}")
    print(f"most rounds of a job: {rounds}")


main()
