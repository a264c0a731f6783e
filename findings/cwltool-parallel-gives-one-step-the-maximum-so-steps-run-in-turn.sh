#!/usr/bin/env bash
# cwltool 3.3.20260925135507 (PyPI), the reference runner of the Common Workflow Language.
#
# One would expect: a tool that says ramMin 10 and ramMax 1000000 (MiB) is given the same by the same
# runner with and without --parallel, and two such steps that do not depend on each other run
# at the same time with --parallel, since both minima fit many times.
# What it does: without --parallel a step is given its minimum, with --parallel its maximum, or all that
# the machine has left. So $(runtime.ram), which tools pass on as their heap, goes from 10 MiB to all
# memory; and the first step leaves nothing to the second, which waits until it has ended. Leaving out
# the maximum is what makes --parallel parallel. The same holds for coresMax.
#
# Seen (two processors or more):
#   ramMin 10, ramMax 1000000              given 10          one after the other
#   the same with --parallel               given much more   one after the other
#   ramMin 10 alone, with --parallel       given 10          at the same time
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check 'cwltool==3.3.20260925135507'
cd "$dir"
cat > flow.cwl <<'C'
cwlVersion: v1.2
class: Workflow
inputs: []
outputs:
  a: {type: File, outputSource: a/told}
  b: {type: File, outputSource: b/told}
steps:
  a: {run: NAME-a.cwl, in: [], out: [told]}
  b: {run: NAME-b.cwl, in: [], out: [told]}
C
step() { # file, ram, output
  cat > "$1" <<C
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [sh, -c, 'echo \$0 \$(date +%s%N); sleep 3; date +%s%N']
requirements: {ResourceRequirement: {$2}}
arguments: [\$(runtime.ram)]
inputs: []
outputs: {told: stdout}
stdout: $3.txt
C
}
run() { # what, ram, options: prints the memory that a step was given, and whether both overlapped
  local what=$1 ram=$2; shift 2
  step one-a.cwl "$ram" a; step one-b.cwl "$ram" b
  sed 's/NAME/one/' flow.cwl > one.cwl
  venv/bin/cwltool --quiet "$@" --outdir out one.cwl > log 2>&1 || { cat log >&2; exit 1; }
  read -r given begin_a end_a < <(paste -sd' ' out/a.txt)
  read -r _ begin_b end_b < <(paste -sd' ' out/b.txt)
  if (( begin_a < end_b && begin_b < end_a )); then how='at the same time'; else how='one after the other'; fi
  if (( given > 10 )); then given='much more'; fi
  echo "$what: given $given, $how"
  rm -rf out
}
seen=$(
  run 'both limits' 'ramMin: 10, ramMax: 1000000'
  run 'both limits, parallel' 'ramMin: 10, ramMax: 1000000' --parallel
  run 'minimum, parallel' 'ramMin: 10' --parallel
)
expected='both limits: given 10, one after the other
both limits, parallel: given much more, one after the other
minimum, parallel: given 10, at the same time'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
