#!/usr/bin/env bash
# Runs the experiment and prints its tables: run.sh [TO]. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-mrs}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# The jobs of one seed: run NAME SEED CONFIG POLICIES [MORE], on the grid in GRID
run() {
    [[ $1-$2 == ${ONLY:-*} ]] || return 0
    local out=$to/$1-$2
    mkdir -p "$out"
    python3 "$here/draw.py" "$here/groups.csv" "$2" "${JOBS:-100}" > "$out/jobs.swf"
    "${COSPAN:-cospan}" simulate "${GRID:-$here/grid.toml}" --config "$here/$3.toml" --to "$out" --seed "$2" \
        --policy "${POLICIES:-$4}" --log "$out/jobs.swf" --input-size 1GB,5GB,10GB,20GB "${@:5}" \
        > "$out.txt"
}

rivals=rival-backfill,rival-replication,rival-replication-cancel
for seed in $(seq "${SEEDS:-20}"); do
    run main "$seed" control-plane "$rivals,mrs" --flexible
    run whole "$seed" control-plane mrs
done
few=$(((${SEEDS:-20} + 1) / 2))
for seed in $(seq "$few"); do
    for config in no-compute no-potential no-data nominal; do
        run "$config" "$seed" "$config" mrs --flexible
    done
    for factor in 2 8; do
        python3 "$here/wrong.py" "$here/grid.toml" "$seed" "$factor" > "$to/wrong-$factor-$seed.toml"
        GRID=$to/wrong-$factor-$seed.toml run "wrong-$factor" "$seed" control-plane mrs --flexible
        GRID=$to/wrong-$factor-$seed.toml run "wrong-$factor-nominal" "$seed" nominal mrs --flexible
    done
    run policies "$seed" control-plane worst-fit,close-to-files,cluster-minimization,connected-cluster-minimization,flexible-cluster-minimization,connected-flexible-cluster-minimization,mrs
done
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
