#!/usr/bin/env bash
# All placement policies on the year of real load, with data: year.sh LOGS [TO]. Every job reads a file
# of its own that lies at one site. LOGS is as for ../year-of-real-load/run.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
year=$here/../year-of-real-load
logs=${1:?"name the folder with the logs; $year/logs.txt tells where they come from"}
to=${2:-mrs-year}
mkdir -p "$to"
"${COSPAN:-cospan}" --version | tee "$to/version.txt"

. "$here/../logs.sh"
take_logs "$year/logs.txt" "$logs" "$to" "*.swf"
{
    awk '!/^ *;/ && NF' "$to/das2.swf"
    awk '!/^ *;/ && NF { $1 += 100000; print }' "$to/kth.swf"
} | sort -s -n -k 2,2 > "$to/grid.swf"

# The sites without failures, with links that carry less from the smaller sites, and processors that
# differ: what was usual of such machines.
{
    printf '[network]\ndefault_bandwidth = "100 Mbit/s"\n\n'
    awk '/^\[/ { failures = /site\.failures/ } !failures' "$year/grid.toml" |
        sed '/^name = "das2"/a gflops_per_processor = 2.0
             /^name = "kth"/a gflops_per_processor = 0.3
             /^name = "ctc"/a gflops_per_processor = 0.3
             /^name = "paragon"/a gflops_per_processor = 0.1
             /^name = "blue"/a gflops_per_processor = 1.5'
    for from in das2 kth; do
        for to_site in ctc paragon blue; do
            printf '\n[[link]]\nfrom = "%s"\nto = "%s"\nbandwidth = "20 Mbit/s"\nboth_ways = false\n' \
                "$from" "$to_site"
        done
    done
} > "$to/grid.toml"

# One policy: place POLICY FOLDER [MORE]
place() {
    "${COSPAN:-cospan}" simulate "$to/grid.toml" --config "$here/control-plane.toml" --to "$to/$2" \
        --policy "$1" --log "$to/grid.swf" --split random --input-size 100MB,1GB,5GB --seeds "${SEEDS:-1}" \
        --jobs "${JOBS:-67831}" "${@:3}" > "$to/$2.txt"
}

for policy in worst-fit close-to-files cluster-minimization connected-cluster-minimization \
    flexible-cluster-minimization connected-flexible-cluster-minimization mrs; do
    place "$policy" "$policy"
done
place mrs mrs-splitting --flexible
python3 "$here/year.py" "$to" | tee "$to/tables.md"
