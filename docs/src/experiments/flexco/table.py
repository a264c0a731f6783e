"""Prints the tables of the experiment from what its runs counted."""

import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent))
from shared import half_width, head, interval, line, seeds_of, write_seeds  # noqa: E402

RIGID, SHIFT, REMAP = "flexco-rigid", "flexco-shift", "flexco-remap"
CLASSES = {"all": "all jobs", "local": "local jobs", "metajobs": "metajobs"}
RESPONSE, SLOWDOWN = "response, s", "slowdown, thousandths"
ALONE = "slowdown without overhead, thousandths"
USED, THERE = "processor-seconds used while jobs came", "processor-seconds there while jobs came"
SEVERAL, MOVED = "metajobs over several sites", "plans of metajobs replaced"
COUNTERS = [f"{name}: {what}" for name in CLASSES.values() for what in (RESPONSE, SLOWDOWN, ALONE)]
COUNTERS += [f"{name} ended" for name in CLASSES.values()] + [SEVERAL, MOVED, USED, THERE]
LOADS, JOBS, READINGS, TIMES = ["80", "90"], ["all", "large"], ["estimates", "run-times"], ["1", "1.1", "1.25"]
WORLDS = [(load, jobs, reading, times) for load in LOADS for jobs in JOBS
          for reading in READINGS for times in TIMES]


DRAWN = ["drawn", "drawn-1.25"]
EXACT = ("run-times", "1")


def name(world):
    return "-".join(world)


def results(to):
    """Rows of all runs, with the worlds that they are of."""
    rows = seeds_of(to, DRAWN, COUNTERS)
    for world in map(name, WORLDS):
        found = sorted(to.glob(f"{world}/*/jobs.csv"), key=lambda path: int(path.parent.name))
        for folder in (f"{world}/{path.parent.name}" for path in found):
            rows += [row | {"folder": world} for row in seeds_of(to, [folder], COUNTERS)]
    return rows


def mean(row, of, what):
    """Of the jobs of a class."""
    return float(row[f"{CLASSES[of]}: {what}"]) / float(row[f"{CLASSES[of]} ended"])


def used(row):
    """Utilization in percent."""
    return 100 * float(row[USED]) / float(row[THERE])


METRICS = [(of, what) for what in (RESPONSE, SLOWDOWN) for of in CLASSES] + [("all", ALONE)]


class World:
    """All runs of one world, by what may be moved; a list of one value a seed."""

    def __init__(self, rows):
        by_seed = defaultdict(dict)
        for row in rows:
            by_seed[row["seed"]][row["run"]] = row
        self.seeds = [by_seed[seed] for seed in sorted(by_seed, key=int)]

    def values(self, run, value):
        return [value(runs[run]) for runs in self.seeds]

    def less(self, run, of, what):
        """By how many percent it is less than when nothing moves."""
        change = lambda runs: 100 * (1 - mean(runs[run], of, what) / mean(runs[RIGID], of, what))
        return [change(runs) for runs in self.seeds]

    def more_used(self, run):
        """By how many percentage points more is used."""
        return [used(runs[run]) - used(runs[RIGID]) for runs in self.seeds]


def minus(ones, others):
    return [one - other for one, other in zip(ones, others, strict=True)]


def rigid(worlds):
    head("nothing moves", "jobs", "over several sites", "response (h)", "slowdown", "of local users",
         "of metajobs", "utilization (%)")
    for world, of in worlds.items():
        count = of.values(RIGID, lambda row: float(row["all jobs ended"]))
        several = of.values(RIGID, lambda row: float(row[SEVERAL]))
        response = of.values(RIGID, lambda row: mean(row, "all", RESPONSE) / 3600)
        slow = [of.values(RIGID, lambda row: mean(row, each, SLOWDOWN) / 1000) for each in CLASSES]
        line(world, *map(interval, [count, several, response, *slow, of.values(RIGID, used)]))


def gains(load, worlds):
    head(f"less than when nothing moves (%): {load}", "moved", "response: all", "local", "metajobs",
         "slowdown: all", "local", "metajobs", "without overhead", "used more (points)")
    for world, of in worlds.items():
        for label, run in (("shift", SHIFT), ("remap too", REMAP)):
            cells = [interval(of.less(run, *metric)) for metric in METRICS]
            line(world, label, *cells, interval(of.more_used(run)))


def verdict(differences):
    """Of one world: 1 if what is claimed is above 0, -1 if it is below, 0 if neither is shown."""
    centre, half = statistics.mean(differences), half_width(differences)
    return (centre > half) - (centre < -half)


def claim(label, differences):
    """A row on one claim in all worlds: lists of what should be above 0, one value a seed."""
    differences = list(differences)
    verdicts = [verdict(each) for each in differences]
    means = [statistics.mean(each) for each in differences]
    counts = [str(verdicts.count(each)) for each in (1, 0, -1)]
    if not differences:
        return
    spread = f"{min(means):.2g} to {max(means):.2g}"
    line(label, str(len(verdicts)), *counts, spread, in_words(verdicts))


def in_words(verdicts):
    """What is shown in all worlds together."""
    shown, opposite = verdicts.count(1), verdicts.count(-1)
    if shown and opposite:
        return "**depends** on the world"
    if shown == len(verdicts):
        return "**holds**"
    if shown or opposite:
        return "**holds** in some" if shown else "**does not hold**"
    return "**not shown**"


def claims(worlds):
    """In the worlds of several seeds: one alone shows nothing."""
    head("claim", "worlds", "shown", "neither shown", "the opposite shown", "means (points)", "verdict")
    several = {world: of for world, of in worlds.items() if len(of.seeds) > 1}
    ran = [world for world in WORLDS if name(world) in several]
    # Where nothing ends early nothing moves.
    moving = [world for world in ran if world[2:] != EXACT]
    all_of = [worlds[world] for world in [*DRAWN, *map(name, moving)]]
    for of, what in METRICS[:-1]:
        label = f"{what.split(',')[0]} of {CLASSES[of]}"
        claim(f"shift: {label} falls", (w.less(SHIFT, of, what) for w in all_of))
        claim(f"shift and remap: {label} falls", (w.less(REMAP, of, what) for w in all_of))
        better = (minus(w.less(REMAP, of, what), w.less(SHIFT, of, what)) for w in all_of)
        claim(f"more with remap: {label}", better)
    claim("shift: utilization rises", (w.more_used(SHIFT) for w in all_of))
    claim("shift and remap: utilization rises", (w.more_used(REMAP) for w in all_of))
    other = lambda world, at, value: several.get(name((*world[:at], value, *world[at + 1 :])))
    pairs = [(worlds[DRAWN[1]], worlds[DRAWN[0]])]
    pairs += [(other(w, 3, TIMES[-1]), worlds[name(w)]) for w in ran if w[3] == TIMES[0]]
    larger = [(other(w, 1, "large"), worlds[name(w)]) for w in moving if w[1] == "all"]
    for label, compared in (("worse estimates: gain grows", pairs), ("no small jobs: gain grows", larger)):
        for what in (RESPONSE, SLOWDOWN):
            differ = (minus(a.less(REMAP, "all", what), b.less(REMAP, "all", what)) for a, b in compared if a)
            claim(f"{label}, {what.split(',')[0]}", differ)
    for label, one, other in (
        ("gain in slowdown above that in response", ("all", SLOWDOWN), ("all", RESPONSE)),
        ("local users gain more than metajobs in slowdown", ("local", SLOWDOWN), ("metajobs", SLOWDOWN)),
        ("local users gain more than metajobs in response", ("local", RESPONSE), ("metajobs", RESPONSE)),
    ):
        claim(label, (minus(w.less(REMAP, *one), w.less(REMAP, *other)) for w in all_of))


def main():
    to = Path(sys.argv[1])
    rows = results(to)
    by_world = defaultdict(list)
    for row in rows:
        by_world[row["folder"]].append(row)
    worlds = {world: World(rows) for world, rows in by_world.items()}
    head("run", "value")
    for world in worlds:
        line(f"seeds of {world}", str(len(worlds[world].seeds)))
    for label, file in (("first weeks of each half year", "weeks.txt"), ("of seed 1", "loads.txt")):
        if (to / file).exists():
            for text in (to / file).read_text().splitlines()[:5]:
                line(label, text)
    rigid(worlds)
    gains("drawn", {world: worlds[world] for world in DRAWN})
    for load in LOADS:
        of_load = {world: of for world, of in worlds.items() if world.startswith(load)}
        if of_load:
            gains(f"{load} % of the sites", of_load)
    claims(worlds)
    head("drawn load", "wait of metajobs (s)")
    for run in (RIGID, SHIFT, REMAP):
        waits = [float(row["wait_s"]) for row in by_world["drawn"] if row["run"] == run]
        line(run, interval(waits))
    write_seeds(to, rows)


if __name__ == "__main__":
    main()
