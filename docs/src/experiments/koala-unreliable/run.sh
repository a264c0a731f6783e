#!/usr/bin/env bash
# Runs the experiment and prints its tables. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-koala-unreliable}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# 500 jobs under several policies: run NAME POLICIES [MORE]
run() {
    "${COSPAN:-cospan}" simulate "$here/grid.toml" --config "$here/control-plane.toml" --to "$to/$1" \
        --seeds "${SEEDS:-10}" --policy "$2" --model poisson --jobs 500 \
        --sizes 3x12,4x9,3x24,4x18,6x12,8x9 --shortest 90s --longest 192s --interarrival 150s \
        --input-size 4GB,8GB --replicas 2 --priority high,low "${@:3}" > "$to/$1.txt"
}

parts=worst-fit,close-to-files,cluster-minimization,connected-cluster-minimization
run all "$parts",flexible-cluster-minimization,connected-flexible-cluster-minimization
python3 "$here/table.py" "$to"
cp "$to/all/figures/utilization-1-worst-fit.svg" "$to/utilization.svg"
