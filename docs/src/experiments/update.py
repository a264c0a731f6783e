"""Puts what an experiment printed into its page: update.py NAME FOLDER, with the folder that run.sh
wrote into. Tables are found by their heads, the line with the program's version by its marker;
figures and seeds.csv are copied beside the page. What is said of the numbers is for people."""

import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
VERSION = "<!-- version -->"
# Parts of a page that show other runs than its beginning, by their headings.
PARTS = {"With slow links": "slow", "With black holes": "black-holes"}
FIRST = {"koala-stable": "fast", "koala-unreliable": "all"}


def split(lines, part, parts):
    """Tables, and what is between them, with the part that each belongs to."""
    pieces, table = [], False
    for line in lines:
        heading = re.match(r"##+ (.*)", line)
        part = parts.get(heading[1], part) if heading else part
        if line.startswith("|") != table or not pieces:
            table = line.startswith("|")
            pieces.append((part, table, []))
        pieces[-1][2].append(line)
    return pieces


def main():
    name, folder = sys.argv[1], Path(sys.argv[2])
    printed = (folder / "tables.md").read_text().splitlines()
    own = {part: part for part in [*PARTS.values(), *FIRST.values()]}
    new = defaultdict(list)
    for part, is_table, lines in split(printed, "", own):
        if is_table:
            new[part, lines[0]].append(lines)
    page = HERE / f"{name}.md"
    text = []
    for part, is_table, lines in split(page.read_text().splitlines(), FIRST.get(name, ""), PARTS):
        found = new[part, lines[0]] if is_table else []
        text += found.pop(0) if found else lines
    version = (folder / "version.txt").read_text().split("\n")[0]
    text = [f"{VERSION} Run with {version}." if line.startswith(VERSION) else line for line in text]
    page.write_text("\n".join(text) + "\n")
    for figure in [*folder.glob("*.svg"), folder / "seeds.csv"]:
        shutil.copy(figure, HERE / name)
    for (part, head), left in new.items():
        if left:
            print(f"not on the page: {part} {head}")


main()
