"""Draws jobs from the groups of users: draw.py GROUPS SEED JOBS > seed.swf, in Standard Workload
Format. Arrivals are even, 400 in a day; a size is drawn within its power of
two, a run time is log-normal, at most half a day."""

import csv
import math
import random
import sys

EACH, LONGEST = 216, 12 * 3600


def main():
    with open(sys.argv[1], newline="") as file:
        groups = list(csv.DictReader(file))
    chance, count = random.Random(int(sys.argv[2])), int(sys.argv[3])
    shares = [float(group["share"]) for group in groups]
    sizes = [2**power for power in range(7)]
    print("; MaxProcs: 208\n; UnixStartTime: 946684800")
    for number, at in enumerate(sorted(chance.randrange(EACH * count) for _ in range(count)), 1):
        group = chance.choices(groups, shares)[0]
        size = chance.choices(sizes, [float(group[f"size_{size}"]) for size in sizes])[0]
        size = chance.randint(size // 2 + 1, size)
        drawn = math.exp(chance.gauss(float(group["ln_run_mean"]), float(group["ln_run_sd"])))
        run = round(min(max(drawn, 30), LONGEST))
        user = groups.index(group) + 1
        print(number, at, -1, run, size, -1, -1, size, run * 2, -1, 1, user, 1, 1, 1, 1, -1, -1)


main()
