#!/usr/bin/env bash
# Python's statistics.quantiles (seen with 3.11), and beside it numpy 2.4.6 (PyPI).
#
# One would expect: a percentile of waiting times is not less than the shortest of them nor more than the longest; with
# few of them the 99th is the longest, as with numpy's "weibull", which is the same method, i / (n + 1).
# What it does: beyond the outermost values the line through the last two is drawn on. Two jobs that waited 10 and 100 s have a
# 99th percentile of 187.3 s and a first of minus 77.3 s. It is the default, and goes on up to 98 values: with twenty
# the 99th percentile is drawn on, too. Only method="inclusive" stays within.
#
# Seen, first and 99th percentile:
#   10, 100                        -77.3  187.3
#   the same, inclusive             10.9   99.1
#   the same, numpy's weibull       10.0  100.0
#   nineteen times 10, and 100      10.0  171.1
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'numpy==2.4.6'

seen=$("$dir/venv/bin/python" - <<'P'
import numpy, statistics
def show(what, all):
    print(f"{what}: {all[0]:.1f} {all[-1]:.1f}")
show("two", statistics.quantiles([10, 100], n=100))
show("two, inclusive", statistics.quantiles([10, 100], n=100, method="inclusive"))
show("two, weibull", numpy.quantile([10, 100], [0.01, 0.99], method="weibull"))
show("twenty", statistics.quantiles([10] * 19 + [100], n=100))
P
)
expected='two: -77.3 187.3
two, inclusive: 10.9 99.1
two, weibull: 10.0 100.0
twenty: 10.0 171.1'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
