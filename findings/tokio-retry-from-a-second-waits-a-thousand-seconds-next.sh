#!/usr/bin/env bash
# tokio-retry 0.3.2, set beside retry 2.2.0 (crates.io): pauses between tries.
#
# One would expect: ExponentialBackoff::from_millis(1000) begins with a second and doubles: 1, 2,
# 4, 8 s. So does the constructor of the same name in the crate retry.
# What it does: the number is not only the first pause but also what each pause is multiplied by.
# From 1000 ms the second pause is 17 minutes, the third 11 days, the fourth 31 years. Doubling
# needs from_millis(2).factor(500). A supervisor that backs off from one second seems dead after
# its second failure.
#
# Seen:
#   tokio-retry from_millis(1000)           1s 1000s 1000000s 1000000000s
#   tokio-retry from_millis(2).factor(500)  1s 2s 4s 8s
#   retry from_millis(1000)                 1s 2s 4s 8s
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'tokio-retry = "=0.3.2"' \
  'retry = "=2.2.0"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use tokio_retry::strategy::ExponentialBackoff;
fn main() {
    println!("tokio-retry from_millis(1000) {:?}", ExponentialBackoff::from_millis(1000).take(4).collect::<Vec<_>>());
    println!("tokio-retry from_millis(2).factor(500) {:?}", ExponentialBackoff::from_millis(2).factor(500).take(4).collect::<Vec<_>>());
    println!("retry from_millis(1000) {:?}", retry::delay::Exponential::from_millis(1000).take(4).collect::<Vec<_>>());
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='tokio-retry from_millis(1000) [1s, 1000s, 1000000s, 1000000000s]
tokio-retry from_millis(2).factor(500) [1s, 2s, 4s, 8s]
retry from_millis(1000) [1s, 2s, 4s, 8s]'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
