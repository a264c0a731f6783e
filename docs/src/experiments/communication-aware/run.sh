#!/usr/bin/env bash
# Runs the experiment and prints its tables. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-communication-aware}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# Laplace (36 or 64) and heat (36, 64 or 72) are equally likely, then their sizes, then the
# components: of 36 jobs 15 have 36 processors, 15 have 64, and 6 have 72.
sizes=$(printf '2x18,3x12,4x9,%.0s' {1..5})$(printf '4x16,%.0s' {1..15})$(printf '3x24,4x18,%.0s' {1..3})

# 200 jobs: run NAME GRID INTERARRIVAL SLOWDOWN LAUNCH POLICIES SEEDS
run() {
    [[ $1 == ${ONLY:-*} ]] || return 0
    "${COSPAN:-cospan}" simulate "$here/$2" --config "$here/control-plane.toml" --to "$to/$1" \
        --seeds "$7" --policy "${POLICIES:-$6}" --model poisson --jobs 200 --sizes "${sizes%,}" \
        --shortest 100s --longest 150s --interarrival "$3" --slowdown "$4" --launch "$5" \
        > "$to/$1.txt"
}

plain=worst-fit,cluster-minimization,flexible-cluster-minimization
rigid=cluster-minimization,connected-cluster-minimization
flexible=flexible-cluster-minimization,connected-flexible-cluster-minimization
many=${SEEDS:-10}
few=$(((many + 1) / 2))
# What the links change is small beside what seeds change.
regions=$((many * 4))
for gap in 80s 40s; do
    run "$gap-0.2-30s" grid.toml "$gap" 0.2 30s "$plain" "$many"
    run "$gap-cm" unequal.toml "$gap" 0.05 30s "$rigid" "$regions"
    run "$gap-fcm" unequal.toml "$gap" 0.05 30s "$flexible" "$regions"
    for setting in 0,30s 0.1,30s 0.4,30s 0.2,10s 0.2,60s; do
        run "$gap-${setting/,/-}" grid.toml "$gap" "${setting%,*}" "${setting#*,}" "$plain" "$few"
    done
done
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
