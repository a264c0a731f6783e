#!/usr/bin/env bash
# Runs the experiment and prints its tables. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-koala-unreliable}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# The same grid, in which nodes of each site also look idle and fail everything.
awk '{ print }
    /^mean_repair/ { print "[site.black_holes]          # two nodes of all 155 at a time"
        print "mean_between_failures = \"24h\""; print "mean_repair = \"20m\"" }' \
    "$here/grid.toml" > "$to/black-holes.toml"
cp "$here/grid.toml" "$to/all.toml"

# 500 jobs under several policies: run NAME POLICIES [MORE]
run() {
    [[ $1 == ${ONLY:-*} ]] || return 0
    "${COSPAN:-cospan}" simulate "$to/$1.toml" --config "$here/control-plane.toml" --to "$to/$1" \
        --seeds "${SEEDS:-40}" --policy "${POLICIES:-$2}" --model poisson --jobs 500 \
        --sizes 3x12,4x9,3x24,4x18,6x12,8x9 --shortest 90s --longest 192s --interarrival 150s \
        --input-size 4GB,8GB --replicas 2 --priority high,low "${@:3}" > "$to/$1.txt"
}

parts=worst-fit,close-to-files,cluster-minimization,connected-cluster-minimization
run all "$parts",flexible-cluster-minimization,connected-flexible-cluster-minimization
run black-holes worst-fit,cluster-minimization
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
cp "$to/all/figures/utilization-1-worst-fit.svg" "$to/utilization.svg"
