#!/usr/bin/env bash
# wait4 0.2.0 (crates.io), and Python's resource: what a finished child used. Linux (seen on 6.18, x86_64).
#
# One would expect: maxrss of a child is the most memory that the child had. `true` needs a megabyte or two, whoever
# started it.
# What it does: between fork and exec the child is its parent, and the kernel counts that moment in. A program that ever
# had 200 MB of memory finds 200 MB for each child, also after it gave the memory back, and for a shell that starts others.
# A supervisor that grows makes all its small jobs look as big as itself; those that are bigger are right.
#
# Seen:
#   wait4, `true`, parent of few MB                  under 50 MB
#   wait4, `true`, parent with 200 MB                over 200 MB
#   the same, after the memory was given back        over 200 MB
#   Python, getrusage(RUSAGE_CHILDREN) after `true`  under 50 MB, with 200 MB in the parent over 200 MB
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'wait4 = "=0.2.0"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::process::Command;
use wait4::Wait4;
fn run(parent: &str) {
    let used = Command::new("true").spawn().unwrap().wait4().unwrap().rusage.maxrss >> 20;
    let size = match used { 0..50 => "under 50 MB", 200.. => "over 200 MB", _ => "between" };
    println!("wait4, {parent}: {size}");
}
fn main() {
    run("small parent");
    let memory = std::hint::black_box(vec![1u8; 210 << 20]);
    run("big parent");
    drop(memory);
    run("memory given back");
}
R
cat > "$dir/children.py" <<'P'
import resource, subprocess, sys
memory = b"1" * (int(sys.argv[1]) << 20)
subprocess.run(["true"], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(f"python, {sys.argv[1]} MB in the parent:", "under 50 MB" if used < 50 else "over 200 MB" if used >= 200 else "between")
P
seen=$(
  CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml"
  for memory in 1 210; do python3 "$dir/children.py" $memory; done
)
expected='wait4, small parent: under 50 MB
wait4, big parent: over 200 MB
wait4, memory given back: over 200 MB
python, 1 MB in the parent: under 50 MB
python, 210 MB in the parent: over 200 MB'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
