#!/usr/bin/env bash
# Runs the experiment and prints its tables: run.sh LOGS [TO]. LOGS is a folder with the
# files that logs.txt names, plain, .gz or .xz; TO is for everything that is written. Needs
# `cospan` on the path, or its place in COSPAN, and Python 3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
logs=${1:?"name the folder with the logs; $here/logs.txt tells where they come from"}
to=${2:-year-of-real-load}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

. "$here/../logs.sh"
take_logs "$here/logs.txt" "$logs" "$to"

# The jobs of das2 and kth are those of the grid; the numbers of kth begin at 100,001.
{
    awk '!/^ *;/ && NF' "$to/das2.swf"
    awk '!/^ *;/ && NF { $1 += 100000; print }' "$to/kth.swf"
} | sort -s -n -k 2,2 > "$to/grid.swf"

cp "$here/grid.toml" "$to/failures.toml"
awk '/^\[/ { failures = /site\.failures/ } !failures' "$here/grid.toml" > "$to/no-failures.toml"
# Under one policy: simulate GRID POLICY [MORE]
simulate() {
    "${COSPAN:-cospan}" simulate "$to/$1.toml" --to "$to/$1-$2" --policy "$2" --log "$to/grid.swf" \
        --split random --seeds "${SEEDS:-3}" "${@:3}" > "$to/$1-$2.txt"
}
policies=(
    worst-fit
    cluster-minimization
    connected-cluster-minimization
    flexible-cluster-minimization
)
for policy in "${policies[@]}"; do
    simulate no-failures "$policy"
    if [ "$policy" = worst-fit ]; then
        simulate failures "$policy" --rerunnable yes,no
    else
        simulate failures "$policy"
    fi
done
# Whether the others differ here at all, where no job has input and links are alike.
alike=close-to-files,connected-flexible-cluster-minimization
"${COSPAN:-cospan}" simulate "$to/failures.toml" --to "$to/alike" --log "$to/grid.swf" --jobs 5000 \
    --split random --policy "$(IFS=,; echo "${policies[*]}"),$alike" > "$to/alike.txt"
python3 "$here/table.py" "$to" "${policies[@]}" | tee "$to/tables.md"
cp "$to/failures-worst-fit/figures/utilization-1-rerunnable.svg" "$to/utilization.svg"
