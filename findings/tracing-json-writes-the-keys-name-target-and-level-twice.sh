#!/usr/bin/env bash
# tracing-subscriber 0.3.23 with tracing 0.1.44 (crates.io): log entries as JSON.
#
# One would expect: each entry is an object whose keys are unique, so fields of the program that are
# called name, target or level are kept apart from the format's own, or are renamed.
# What it does: both are written under one key. A span's own field "name" is followed by the span's
# name; with flatten_event an event's "target" or "level" stands beside the format's. Readers
# that keep the last (serde_json, Python's json) lose the job's name and the target,
# and take the level that the program wrote for the entry's level.
#
# Seen, for a span "job" with name="fft" and an event with target="mail" and level="high":
#   {"level":"WARN","message":"not told","target":"mail","level":"high","target":"finding",
#    "span":{"name":"fft","name":"job"},"spans":[{"name":"fft","name":"job"}]}
#   read by serde_json: level "high", target "finding", span.name "job"
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'tracing = "=0.1.44"' \
  'tracing-subscriber = { version = "=0.3.23", features = ["json"] }' \
  'serde_json = "=1.0.154"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::sync::{Arc, Mutex};
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);
impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> { self.0.lock().unwrap().write(bytes) }
    fn flush(&mut self) -> std::io::Result<()> { Ok(()) }
}
fn main() {
    let kept = Kept::default();
    let writer = { let kept = kept.clone(); move || kept.clone() };
    let log = tracing_subscriber::fmt().json().flatten_event(true).without_time().with_writer(writer).finish();
    tracing::subscriber::with_default(log, || {
        let _job = tracing::info_span!("job", name = "fft").entered();
        tracing::warn!(target = "mail", level = "high", "not told");
    });
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    print!("{text}");
    let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
    println!("read: {} {} {}", entry["level"], entry["target"], entry["span"]["name"]);
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='{"level":"WARN","message":"not told","target":"mail","level":"high","target":"finding","span":{"name":"fft","name":"job"},"spans":[{"name":"fft","name":"job"}]}
read: "high" "finding" "job"'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
