#!/usr/bin/env bash
# Runs the experiment and prints its tables: run.sh [TO [LOGS]]. LOGS is a folder with the logs of the
# Paragon and of Blue Horizon that ../year-of-real-load/logs.txt names, plain, .gz or .xz; without it
# only the load that is drawn is run. WEEKS takes the first ones of the half year only, WORLDS those
# worlds of the logs only whose names fit; SEEDS and LOG_SEEDS say how many seeds. Needs `cospan` on
# the path, or its place in COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-flexco}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

# All that may be moved, in one world: simulate TO [MORE]
simulate() {
    "${COSPAN:-cospan}" simulate "$1/grid.toml" --to "$1" --split above:400 \
        --policy "${POLICIES:-flexco-rigid,flexco-shift,flexco-remap}" "${@:2}" > "$1.txt"
    rm -r "$1/figures" "$1/report.html" "$1/components.csv"
}

# A load that is drawn: drawn NAME TIMES
drawn() {
    [[ $1 == ${ONLY:-*} ]] || return 0
    mkdir -p "$to/$1"
    sed "s/TIMES/$2/" "$here/drawn.toml" > "$to/$1/grid.toml"
    simulate "$to/$1" --model poisson --jobs 100 --interarrival 90m \
        --sizes 64,128,256,512 --shortest 10m --longest 6h --estimates tsafrir \
        --estimates-times "$2" --until 8d --seeds "${SEEDS:-10}"
}

# The load of the logs: logged NAME SITES METAS ESTIMATES TIMES
logged() {
    [[ $1 == ${ONLY:-${WORLDS:-*}} ]] || return 0
    for seed in $(seq "${LOG_SEEDS:-${SEEDS:-10}}"); do
        local of=$to/$1/$seed local_estimates=$4
        mkdir -p "$of"
        [ "$4" = exact ] || local_estimates=tsafrir
        sed "s/LOG/$2/; s/ESTIMATES/$local_estimates/; s/TIMES/$5/" "$here/grid.toml" |
            sed "s:load/:$(realpath "$to")/load-$seed/:" > "$of/grid.toml"
        simulate "$of" --log "$to/load-$seed/$3.swf" --estimates "$4" --estimates-times "$5" --seed "$seed"
    done
}

drawn drawn 1
drawn drawn-1.25 1.25
if [ $# -gt 1 ]; then
    . "$here/../logs.sh"
    echo "${WEEKS:-26}" > "$to/weeks.txt"
    for name in paragon blue; do
        take_logs "$here/../year-of-real-load/logs.txt" "$2" "$to" "$name.swf"
    done
    for seed in $(seq "${LOG_SEEDS:-${SEEDS:-10}}"); do
        mkdir -p "$to/load-$seed"
        python3 "$here/prepare.py" "$to/paragon.swf" "$to/blue.swf" "$to/load-$seed" "$seed" "${WEEKS:-26}"
    done > "$to/loads.txt"
    for times in 1 1.1 1.25; do
        for load in 80 90; do
            logged "$load-all-estimates-$times" "" "metas-$load" as-given "$times"
            logged "$load-large-estimates-$times" -large "metas-$load-large" as-given "$times"
            logged "$load-all-run-times-$times" "" "metas-$load" exact "$times"
            logged "$load-large-run-times-$times" -large "metas-$load-large" exact "$times"
        done
    done
fi
[ -z "${ONLY:-}" ] || exit 0
python3 "$here/table.py" "$to" | tee "$to/tables.md"
