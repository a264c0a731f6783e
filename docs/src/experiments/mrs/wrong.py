"""A grid whose control plane is told wrong bandwidths: wrong.py GRID SEED FACTOR > grid.toml. Each link
carries what it did, and is believed to carry that times or over a number drawn up to the factor."""

import math
import random
import re
import sys

UNITS = {"Mbit/s": 1e6, "Gbit/s": 1e9}


def main():
    chance, most = random.Random(int(sys.argv[2])), math.log(float(sys.argv[3]))
    link = False
    with open(sys.argv[1]) as file:
        for line in file:
            print(line, end="")
            if line.startswith("["):
                link = line.strip() == "[[link]]"
            found = re.match(r'bandwidth = "([0-9.]+) (.bit/s)"', line)
            if link and found:
                carried = float(found[1]) * UNITS[found[2]]
                wrong = round(carried * math.exp(chance.uniform(-most, most)) / 1000)
                print(f'believed = "{wrong} kbit/s"')


main()
