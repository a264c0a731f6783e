#!/usr/bin/env bash
# parsl 2026.10.26 (PyPI): apps with cache=True, whose results are kept and used again for the same call.
#
# One would expect: the same call is the same function with the same arguments. Two lambdas, or two functions that one
# factory made with other settings, are not the same. (A changed body is not noticed from run to run, says the manual.)
# What it does: a function counts as its module and its bare name, without the class or function it stands in. All lambdas
# of a file are called <lambda>, so the second one is not run at all and gives what the first gave; so with the
# functions of a factory and with methods of two classes. There is no word of it.
#
# Seen, in one run:
#   lambda n: n + 1 of 7             8
#   lambda n: n * 100 of 7           8, in truth 700
#   scaled(2)(7), then scaled(3)(7)  14 14, in truth 21
#   Mean.of(7, 9), then Sum.of(7, 9) 8.0 8.0, in truth 16
#   without cache=True               right
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'parsl==2026.10.26'

cat > "$dir/run.py" <<'P'
import parsl
parsl.load(parsl.Config(executors=[parsl.ThreadPoolExecutor(max_threads=1)], run_dir="runs"))
def scaled(factor):
    def scale(n):
        return n * factor
    return scale
class Mean:
    @staticmethod
    def of(a, b):
        return (a + b) / 2
class Sum:
    @staticmethod
    def of(a, b):
        return a + b
for cache in (True, False):
    app = lambda function, *given: parsl.python_app(function, cache=cache)(*given).result()
    print(f"cache={cache}:", app(lambda n: n + 1, 7), app(lambda n: n * 100, 7), app(scaled(2), 7), app(scaled(3), 7),
          app(Mean.of, 7, 9), app(Sum.of, 7, 9))
parsl.dfk().cleanup()
P
seen=$(cd "$dir" && venv/bin/python run.py)
expected='cache=True: 8 8 14 14 8.0 8.0
cache=False: 8 700 14 21 8.0 16'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
