#!/usr/bin/env bash
# Runs the experiment and prints its tables. Needs `cospan` on the path, or its place in
# COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-koala-stable}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# A workload of 200 jobs under both policies: run NAME REPLICAS INTERARRIVAL FILES SIZES
run() {
    [[ $1-$2 == ${ONLY:-*} ]] || return 0
    "${COSPAN:-cospan}" simulate "$here/$network.toml" --config "$here/control-plane.toml" \
        --to "$to/$1-$2" --seeds "${SEEDS:-10}" \
        --policy "${POLICIES:-worst-fit,close-to-files}" --model poisson --jobs 200 --priority high \
        --shortest 90s --longest 192s --interarrival "$3" --input-size "$4" --replicas "$2" \
        --sizes "$5" > "$to/$1-$2.txt"
}

for network in slow fast; do
    for replicas in 1 3; do
        mixed=1x8,1x16,2x8,2x16,4x8,4x16
        run "$network-w30" "$replicas" 32.9s 2GB,4GB,6GB "$mixed"
        run "$network-w50" "$replicas" 19.74s 2GB,4GB,6GB "$mixed"
        run "$network-spread" "$replicas" 45.8s 2GB 2x4,2x8,2x16,2x24,4x4,4x8,4x16,4x24
    done
done
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
