#!/usr/bin/env bash
# prometheus 0.14.0 (crates.io), with its feature "process": the collector of the process's figures.
#
# One would expect: process_cpu_seconds_total counts parts of seconds, as the libraries for Go and
# Python do, so that rate() of it shows the load.
# What it does: it counts whole seconds of CPU only, cut off. A process that uses 2 % of a core shows
# 0 for 50 s, and rate() over a minute is then 0 or 1/60 and nothing between. A quiet server's graph is
# a comb, and an alert on a low share of CPU fires or not by chance.
#
# Seen, once the kernel counts between 1.6 and 2 s of CPU time:
#   process_cpu_seconds_total 1
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'prometheus = { version = "=0.14.0", default-features = false, features = ["process"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use prometheus::{process_collector::ProcessCollector, Registry, TextEncoder};
/// CPU time by the kernel, in hundredths of a second.
fn used() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
fn main() {
    let registry = Registry::new();
    registry.register(Box::new(ProcessCollector::for_self())).unwrap();
    while used() < 160 {
        std::hint::black_box((0..100_000u64).fold(0, |a, b| std::hint::black_box(a ^ b)));
    }
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    println!("{}", text.lines().find(|line| line.starts_with("process_cpu")).unwrap());
    assert!(used() < 200, "it took too long to read");
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='process_cpu_seconds_total 1'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
