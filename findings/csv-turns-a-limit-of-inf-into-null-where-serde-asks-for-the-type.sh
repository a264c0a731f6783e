#!/usr/bin/env bash
# csv 1.4.0 with serde 1.0.229 and serde_json 1.0.154 (crates.io): rows whose columns are not fixed.
#
# One would expect: cells are text. A row read into a struct of known columns, with the others in a
# flattened map, gives each cell as it stands; and what goes wrong depends on columns, not on values.
# What it does: where serde asks "what is this?" (a flattened field, or a JSON value) the reader
# guesses a type from each cell. The queue "007" becomes the number 7, "true" a boolean,
# and a time limit of "inf" or "infinity", or the name "nan", becomes a float that JSON
# can't hold: null. A flattened map of Strings refuses the row with the queue "007", after taking
# thousands of rows with queues such as "short".
#
# Seen, for the second column:
#   short     map of text: short     JSON: "short"
#   007       map of text: refused   JSON: 7
#   1e5       map of text: refused   JSON: 100000.0
#   inf       map of text: refused   JSON: null
#   12:30:00  map of text: 12:30:00  JSON: "12:30:00"
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'csv = "=1.4.0"' \
  'serde = { version = "=1.0.229", features = ["derive"] }' \
  'serde_json = "=1.0.154"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::collections::BTreeMap;
#[derive(serde::Deserialize)]
struct Row {
    name: String,
    #[serde(flatten)]
    rest: BTreeMap<String, String>,
}
fn main() {
    for cell in ["short", "007", "1e5", "inf", "12:30:00"] {
        let text = format!("name,limit\nfft,{cell}\n");
        let row = csv::Reader::from_reader(text.as_bytes()).into_deserialize::<Row>().next().unwrap();
        let map = row.map_or("refused".into(), |row| { assert_eq!(row.name, "fft"); row.rest["limit"].clone() });
        let mut json = csv::Reader::from_reader(text.as_bytes()).into_deserialize::<BTreeMap<String, serde_json::Value>>();
        println!("{cell}: text {map}, JSON {}", json.next().unwrap().unwrap()["limit"]);
    }
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='short: text short, JSON "short"
007: text refused, JSON 7
1e5: text refused, JSON 100000.0
inf: text refused, JSON null
12:30:00: text 12:30:00, JSON "12:30:00"'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
