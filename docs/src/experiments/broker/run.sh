#!/usr/bin/env bash
# Runs the experiment and prints its tables: run.sh [TO]. SEEDS says how many seeds. Needs `cospan` on
# the path, or its place in COSPAN, `cospan-bench` beside it, and Python 3. What the machine measures
# takes two minutes, and is better run alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-broker}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# Jobs that ask for more than there is, of which this share want a reservation: simulate NAME SHARE [MORE]
simulate() {
    [[ $1 == ${ONLY:-*} ]] || return 0
    mkdir -p "$to/$1"
    cp "$here/site.toml" "$to/$1/grid.toml"
    [ "$2" = 0 ] ||
        printf '[reservations]\nshare = %s\nahead = "2h"\nwithin = "1d"\n%s\n' "$2" "${3:-}" >> "$to/$1/grid.toml"
    "${COSPAN:-cospan}" simulate "$to/$1/grid.toml" --to "$to/$1" --policy "${POLICIES:-worst-fit}" \
        --model poisson --jobs 1200 --interarrival 12m --sizes 1,2,4,8,16,32,64 --shortest 10m --longest 6h \
        --estimates tsafrir --until 10d --seeds "${SEEDS:-10}" > "$to/$1.txt"
    rm -r "$to/$1/figures" "$to/$1/report.html" "$to/$1/components.csv"
}

simulate share-0 0
for share in 0.1 0.2 0.3 0.4 0.5; do
    simulate "share-$share" "$share"
    simulate "forward-$share" "$share" 'flexible = true'
done
[ -z "${ONLY:-}" ] || exit 0
"${COSPAN:-cospan}-bench" reserve --directory "$to" --output json > "$to/bench.json"
python3 "$here/table.py" "$to" | tee "$to/tables.md"
