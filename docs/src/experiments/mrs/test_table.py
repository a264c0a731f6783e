"""Whether the tables of the experiment compute what the paper measures: a worked example."""

import csv
import tempfile
import unittest
from pathlib import Path

import table

# 10 processors of 2 GFLOPS. Name, submitted, begun, how long it ran, processors.
GRID = '[[site]]\nname = "a"\nnodes = 5\nprocessors_per_node = 2\ngflops_per_processor = 2.0\n'
JOBS = [("j1", 0, 0, 20, 2), ("j2", 5, 10, 50, 4), ("j3", 20, 30, 10, 4)]


def write(file, rows):
    with open(file, "w", newline="") as to:
        out = csv.DictWriter(to, rows[0])
        out.writeheader()
        out.writerows(rows)


class Measures(unittest.TestCase):
    def test_of_three_jobs_on_ten_processors(self):
        jobs = [{"run": "mrs", "seed": 1, "name": name, "ending": "done", "submitted_s": submitted,
                 "placed_s": submitted, "started_s": begun, "finished_s": begun + time}
                for name, submitted, begun, time, _ in JOBS]
        parts = [{"run": "mrs", "site": "a", "processors": count, "held_s": begun, "ended_s": begun + time}
                 for _, _, begun, time, count in JOBS]
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder)
            write(to / "jobs.csv", jobs)
            write(to / "components.csv", parts)
            (to / "grid.toml").write_text(GRID)
            found = table.measures(to, to / "grid.toml")["mrs"]
        self.assertAlmostEqual(found["AWT"], 5)
        self.assertAlmostEqual(found["AWT to transmission"], 0)
        # The last that was submitted ends at 40.
        self.assertAlmostEqual(found["QCT"], 60)
        self.assertAlmostEqual(found["AGU"], 46.6667, places=4)


if __name__ == "__main__":
    unittest.main()
