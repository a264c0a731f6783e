#!/usr/bin/env bash
# Runs the experiment and prints its table. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3. Takes about a minute.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-koala-unreliable}
mkdir -p "$to"
for parts in 3 4 6; do
    "${COSPAN:-cospan}" simulate "$here/grid.toml" --config "$here/control-plane.toml" --to "$to/$parts" --seeds "${SEEDS:-10}" \
        --model poisson --jobs 500 --sizes 36,72 --shortest 90s --longest 192s \
        --interarrival 40s --split "$parts" --input first,second --priority high,low \
        > "$to/$parts.txt"
done
python3 "$here/table.py" "$to"
