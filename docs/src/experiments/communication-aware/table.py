"""Prints the tables of the experiment from the rows of its jobs."""

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import bars, head, interval, line, rows_of, write_seeds  # noqa: E402

POLICIES = {
    "WF": "worst-fit",
    "CM": "cluster-minimization",
    "FCM": "flexible-cluster-minimization",
    "connected CM": "connected-cluster-minimization",
    "connected FCM": "connected-flexible-cluster-minimization",
}
LOADS = {"W1": "80s", "W2": "40s"}
SETTINGS = ["0-30s", "0.1-30s", "0.2-30s", "0.4-30s", "0.2-10s", "0.2-60s"]
MEANS = {
    "response (s)": lambda row: float(row["response_s"]),
    "wait (s)": lambda row: float(row["wait_s"]),
    "queue time (s)": lambda row: float(row["placement_time_s"]),
    "overhead (s)": lambda row: float(row["started_s"]) - float(row["placed_s"]),
    "execution (s)": lambda row: float(row["run_time_s"]),
    "sites": lambda row: int(row["sites"]),
}


def means(by_seed, value):
    """For each seed the mean over its jobs."""
    return [statistics.mean(map(value, rows)) for rows in by_seed.values()]


def overview(runs, policies, title):
    head(title, *MEANS, "jobs done")
    for load in LOADS:
        for policy in policies:
            by_seed = runs[load][POLICIES[policy]]
            cells = [interval(means(by_seed, value)) for value in MEANS.values()]
            done = sum(row["ending"] == "done" for rows in by_seed.values() for row in rows)
            line(f"{load}, {policy}", *cells, str(done))


def differences(runs, pairs, title):
    head(title, *MEANS)
    for load in LOADS:
        for less, more in pairs:
            cells = []
            for value in MEANS.values():
                a, b = (means(runs[load][POLICIES[policy]], value) for policy in (less, more))
                cells.append(interval([x - y for x, y in zip(a, b)]))
            line(f"{load}, {less} less {more}", *cells)


def contention(runs, policies):
    head("W2 less W1, seed by seed", *MEANS)
    for policy in policies:
        cells = []
        for value in MEANS.values():
            a, b = (means(runs[load][POLICIES[policy]], value) for load in ("W2", "W1"))
            cells.append(interval([x - y for x, y in zip(a, b)]))
        line(policy, *cells)


def range_of_settings(to):
    policies = ["WF", "CM", "FCM"]
    cells = [f"{load} {policy}" for load in LOADS for policy in policies]
    for name in ("response (s)", "wait (s)"):
        head(f"{name}: slowdown, launch", *cells)
        for setting in SETTINGS:
            row = []
            for gap in LOADS.values():
                runs = rows_of(to / f"{gap}-{setting}")
                row += [interval(means(runs[POLICIES[p]], MEANS[name])) for p in policies]
            line(setting.replace("-", ", "), *row)


def by_components(runs):
    """Overhead by the number of components, of jobs placed once."""
    head("overhead (s) by components", "1", "2", "3", "4")
    for load in LOADS:
        for policy in ("WF", "CM", "FCM"):
            cells = []
            for count in ("1", "2", "3", "4"):
                of_seed = []
                for rows in runs[load][POLICIES[policy]].values():
                    values = [MEANS["overhead (s)"](r) for r in rows if r["components"] == count]
                    of_seed += [statistics.mean(values)] if values else []
                cells.append(interval(of_seed) if len(of_seed) > 1 else "-")
            line(f"{load}, {policy}", *cells)


def main():
    to = Path(sys.argv[1])
    base = {load: rows_of(to / f"{gap}-0.2-30s") for load, gap in LOADS.items()}
    plain = ["WF", "CM", "FCM"]
    overview(base, plain, "slowdown 0.2, launch 30 s")
    differences(base, [("CM", "WF"), ("FCM", "CM"), ("FCM", "WF")], "seed by seed")
    contention(base, plain)
    parts = {"wait": "wait (s)", "execution": "execution (s)"}
    groups = [(load, what) for load in LOADS for what in ("response", *parts)]
    value = lambda what: MEANS[parts.get(what, "response (s)")]
    series = {
        POLICIES[p]: [means(base[load][POLICIES[p]], value(what)) for load, what in groups]
        for p in plain
    }
    names = [f"{load}, {what}" for load, what in groups]
    figure = bars("Mean response, wait and execution times", "seconds", names, series)
    (to / "times.svg").write_text(figure)
    by_components(base)
    range_of_settings(to)
    linked = {
        load: {**rows_of(to / f"{gap}-cm"), **rows_of(to / f"{gap}-fcm")} for load, gap in LOADS.items()
    }
    connected = ["CM", "connected CM", "FCM", "connected FCM"]
    overview(linked, connected, "two regions, slowdown 0.05")
    differences(linked, [("connected CM", "CM"), ("connected FCM", "FCM")], "seed by seed")
    write_seeds(to)


main()
