#!/usr/bin/env bash
# Runs the experiment and prints its tables: run.sh [TO [LOGS]]. LOGS is a folder with the files that
# ../year-of-real-load/logs.txt names, plain, .gz or .xz; without it only the load that is drawn is
# run. SEEDS and LOG_SEEDS say how many seeds. Needs `cospan` on the path, or its place in COSPAN, and
# Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-reserved-or-claimed}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# The ways to get processors: what each adds to a grid whose sites grant reservations.
ways=(claimed needed reserved forward)
wanted() {
    case $1 in
        claimed) ;;
        needed) printf '[reservations]\nwithin = "7d"\nreserve_after = "30m"\n' ;;
        reserved) printf '[reservations]\nwithin = "7d"\n' ;;
        forward) printf '[reservations]\nwithin = "7d"\nflexible = true\n' ;;
    esac
}

# All ways in one world: simulate WORLD GRID [OPTIONS]
simulate() {
    local way out
    for way in "${ways[@]}"; do
        [[ $1-$way == ${ONLY:-*} ]] || continue
        out=$to/$1-$way
        mkdir -p "$out"
        { cat "$2"; wanted "$way"; } > "$out/grid.toml"
        "${COSPAN:-cospan}" simulate "$out/grid.toml" --to "$out" --policy "${POLICIES:-worst-fit}" \
            "${@:3}" > "$out.txt"
        rm -r "$out/figures" "$out/report.html" "$out/components.csv"
    done
}

simulate drawn "$here/drawn.toml" --model poisson --jobs 300 --interarrival 90m --sizes 1x8,2x8,4x8,8x8 \
    --shortest 10m --longest 6h --estimates tsafrir --seeds "${SEEDS:-10}"
if [ $# -gt 1 ]; then
    . "$here/../logs.sh"
    grep -v '^failures' "$here/../year-of-real-load/logs.txt" > "$to/logs.txt"
    take_logs "$to/logs.txt" "$2" "$to"
    {
        awk '!/^ *;/ && NF' "$to/das2.swf"
        awk '!/^ *;/ && NF { $1 += 100000; print }' "$to/kth.swf"
    } | sort -s -n -k 2,2 > "$to/grid.swf"
    # The same sites, which do not fail, and grant reservations.
    awk '/^\[/ { failures = /site\.failures/ } !failures' "$here/../year-of-real-load/grid.toml" |
        sed "s:= \"\([a-z]*.swf\)\":= \"$(realpath "$to")/\1\":; s/^nodes = /reserves = true\n&/" > "$to/year.toml"
    simulate year "$to/year.toml" --log "$to/grid.swf" --split random --seeds "${LOG_SEEDS:-1}"
fi
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
