#!/usr/bin/env bash
# tracing-subscriber 0.3.23 with tracing 0.1.44 (crates.io): a span's field that is recorded again.
#
# One would expect: span.record("state", ...) sets the field, and later entries show the present value,
# whichever format they are written in.
# What it does: JSON shows the present value. The text formats append: every entry shows all values
# that the field ever had. A span that lives as long as its job, and records its
# state at each change, makes each line longer than the last, and a search for
# state="queued" finds the running jobs as well.
#
# Seen:
#   text   INFO job{state="queued" state="running" state="done"}: finding: hello
#   json   "span":{"state":"done","name":"job"}
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'tracing = "=0.1.44"' \
  'tracing-subscriber = { version = "=0.3.23", features = ["json"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
fn told() {
    let job = tracing::info_span!("job", state = "queued");
    job.record("state", "running");
    job.record("state", "done");
    job.in_scope(|| tracing::info!("hello"));
}
fn main() {
    let text = tracing_subscriber::fmt().without_time().with_ansi(false).with_writer(std::io::stdout);
    tracing::subscriber::with_default(text.finish(), told);
    let json = tracing_subscriber::fmt().json().without_time().with_span_list(false).with_writer(std::io::stdout);
    tracing::subscriber::with_default(json.finish(), told);
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected=' INFO job{state="queued" state="running" state="done"}: finding: hello
{"level":"INFO","fields":{"message":"hello"},"target":"finding","span":{"state":"done","name":"job"}}'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
