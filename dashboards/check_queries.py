#!/usr/bin/env python3
"""Runs every query of the dashboard and every selector of the rules against a
real Prometheus over the recorded scrapes of a busy server in recorded/.

Each must return a series, or stand in recorded/empty.json with the reason.
Needs promtool and prometheus, and nothing beyond loopback. Exit 0 if all is well.
"""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
STEP_S = 15
LABELS = 'job="cospan",instance="recorded"'


def scrapes():
    """The recorded scrapes in order, each as {series: value}."""
    found = []
    for path in sorted((HERE / "recorded").glob("*.prom")):
        lines = [l for l in path.read_text().splitlines() if l and not l.startswith("#")]
        found.append(dict(line.rsplit(" ", 1) for line in lines))
    return found


def labelled(series):
    if series.endswith("}"):
        return f"{series[:-1]},{LABELS}}}"
    return f"{series}{{{LABELS}}}"


def openmetrics(recorded, end):
    """The scrapes as one OpenMetrics document, STEP_S apart, the last at `end`."""
    begin = end - STEP_S * (len(recorded) - 1)
    names = sorted({name for scrape in recorded for name in scrape})
    lines = []
    for name in names:
        for index, scrape in enumerate(recorded):
            if name in scrape:
                lines.append(f"{labelled(name)} {scrape[name]} {begin + STEP_S * index}")
    return "\n".join([*lines, "# EOF", ""])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, query, at):
    """The number of series that a query returns."""
    parameters = urllib.parse.urlencode({"query": query, "time": at})
    url = f"http://127.0.0.1:{port}/api/v1/query?{parameters}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return len(json.load(answer)["data"]["result"])
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{query}: {error.read().decode()}") from error


def wait_until_ready(port, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("prometheus did not become ready")


def panel_queries():
    dashboard = json.loads((HERE / "cospan.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "5m")
            query = query.replace("$job", "cospan").replace("$instance", ".*")
            yield f"panel {panel['title']!r}", query


def rule_selectors():
    """A rule returns nothing while all is well; what it looks at must be there."""
    for line in (HERE / "rules.yml").read_text().splitlines():
        if "summary:" in line or "description:" in line:
            continue
        for selector in re.findall(r"\b(?:cospan|process)_[a-z_]+(?:\{[^}]*\})?", line):
            yield "rules.yml", selector


def check(port, at):
    excused = json.loads((HERE / "recorded" / "empty.json").read_text())
    problems, used, count = [], set(), 0
    for place, query in [*panel_queries(), *rule_selectors()]:
        count += 1
        series = ask(port, query, at)
        names = [name for name in excused if name in query]
        used.update(names if series == 0 else [])
        if series == 0 and not names:
            problems.append(f"{place}: no series: {query}")
    problems += [f"empty.json: {name} returns series" for name in excused if name not in used]
    return count, problems


def main():
    recorded = scrapes()
    at = int(time.time()) - 3600
    work = pathlib.Path(tempfile.mkdtemp(prefix="cospan-queries-"))
    process = None
    try:
        (work / "scrapes.txt").write_text(openmetrics(recorded, at))
        (work / "prometheus.yml").write_text("global: {}\n")
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run(
            [*blocks, work / "scrapes.txt", work / "data"], check=True, capture_output=True
        )
        port = free_port()
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={work}/prometheus.yml",
                f"--storage.tsdb.path={work}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ]
        )
        wait_until_ready(port, process)
        count, problems = check(port, at)
    finally:
        if process:
            process.terminate()
            process.wait()
        shutil.rmtree(work)
    print("\n".join(problems))
    print(f"{count} queries over {len(recorded)} scrapes, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
