#!/usr/bin/env bash
# serde-saphyr 2.2.0 (crates.io): numbers in YAML job files.
#
# One would expect: "nodes: 08" is eight (YAML 1.2), or octal and so wrong (YAML 1.1), the same for
# each type that it is read into; and "1_000" (YAML 1.1) is a thousand for all of them or for none.
# What it does: it depends on the type. 08 and 010 are refused for integers, yet 8 and 10 for a float;
# untyped they become floats (8.0), so a count that a script wrote with a leading zero stops being
# an integer. With underscores it is the other way round: a thousand for integers, refused for floats.
#
# Seen, as u32, as f64 and untyped:
#   8      8        8        8
#   08     refused  8        8.0
#   010    refused  10       10.0
#   1_000  1000     refused  1000
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'serde-saphyr = { version = "=2.2.0", default-features = false, features = ["deserialize"] }' \
  'serde_json = "=1.0.154"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::collections::BTreeMap;
fn main() {
    for text in ["8", "08", "010", "1_000"] {
        let file = format!("nodes: {text}");
        let whole = serde_saphyr::from_str::<BTreeMap<String, u32>>(&file).map_or("refused".into(), |map| map["nodes"].to_string());
        let float = serde_saphyr::from_str::<BTreeMap<String, f64>>(&file).map_or("refused".into(), |map| map["nodes"].to_string());
        let untyped = serde_saphyr::from_str::<BTreeMap<String, serde_json::Value>>(&file).unwrap();
        println!("{text}: u32 {whole}, f64 {float}, untyped {}", untyped["nodes"]);
    }
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='8: u32 8, f64 8, untyped 8
08: u32 refused, f64 8, untyped 8.0
010: u32 refused, f64 10, untyped 10.0
1_000: u32 1000, f64 refused, untyped 1000'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
