#!/usr/bin/env bash
# click 8.5.1, numpy 2.4.6, pandas 3.1.1, pydantic 2.14.4, PyYAML 6.0.4, tabulate 0.10.0 (PyPI), and Python's argparse
# and csv (seen with 3.11): the text 17_2, which is how Slurm names task 2 of the job array 17.
#
# One would expect: where an integer is asked for, 17_2 is refused, and where none is, it stays as it is.
# What they do: Python takes an underscore between digits for nothing, since 3.6 also in int() and float() of a text, and
# what is built upon them follows. `kill --job 17_2` made with argparse or click, a pydantic model, pandas' astype:
# all get 172, somebody else's job. PyYAML turns it into 172 unasked. tabulate shows it as it is, until a number with a
# point stands in its column: then the table says 172. Within pandas read_csv and to_numeric disagree with astype.
#
# Seen:
#   172      argparse (type=int), click INT, pydantic int, numpy and pandas astype(int), csv QUOTE_NONNUMERIC, PyYAML,
#            tabulate beside 18.0
#   17_2     pandas read_csv, tabulate beside 18
#   refused  pandas to_numeric, json
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'click==8.5.1' 'numpy==2.4.6' 'pandas==3.1.1' \
  'pydantic==2.14.4' 'PyYAML==6.0.4' 'tabulate==0.10.0'

seen=$("$dir/venv/bin/python" - <<'P'
import argparse, csv, io, json
import click, numpy, pandas, pydantic, tabulate, yaml
class Request(pydantic.BaseModel):
    job: int
def by_argparse():
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("job", type=int)
    return parser.parse_args(["17_2"]).job
def table(other):
    return tabulate.tabulate([["17_2"], [other]], tablefmt="plain").split()[0]
for name, read in {
    "argparse": by_argparse,
    "click": lambda: click.INT.convert("17_2", None, None),
    "pydantic": lambda: Request(job="17_2").job,
    "numpy astype": lambda: numpy.array(["17_2"]).astype(int)[0],
    "pandas astype": lambda: pandas.Series(["17_2"]).astype(int)[0],
    "csv": lambda: next(csv.reader(["17_2"], quoting=csv.QUOTE_NONNUMERIC))[0],
    "yaml": lambda: yaml.safe_load("job: 17_2")["job"],
    "tabulate beside 18.0": lambda: table("18.0"),
    "tabulate beside 18": lambda: table("18"),
    "pandas read_csv": lambda: pandas.read_csv(io.StringIO("job\n17_2\n18\n"))["job"][0],
    "pandas to_numeric": lambda: pandas.to_numeric("17_2"),
    "json": lambda: json.loads("17_2"),
}.items():
    try:
        print(f"{name}: {read()}")
    except ValueError:
        print(f"{name}: refused")
P
)
expected='argparse: 172
click: 172
pydantic: 172
numpy astype: 172
pandas astype: 172
csv: 172.0
yaml: 172
tabulate beside 18.0: 172
tabulate beside 18: 17_2
pandas read_csv: 17_2
pandas to_numeric: refused
json: refused'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
