#!/usr/bin/env bash
# tracing-subscriber 0.3.23 (crates.io): EnvFilter made from an empty setting.
#
# One would expect: an empty RUST_LOG (as "Environment=RUST_LOG=" of a unit file, or an unset variable
# passed on by a job script makes it) is as good as none: the usual
# try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")) falls to info, or at least
# errors are still logged.
# What it does: an empty setting parses, and switches everything off, errors too. Only a builder with
# a default directive, and from_default_env, fill in a level; try_new(""), new("") and
# try_from_default_env() do not.
#
# Seen, with RUST_LOG="":
#   try_from_default_env, else info   off
#   try_new("")                       off
#   from_default_env                  error
#   builder with default info         info
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'tracing-subscriber = { version = "=0.3.23", features = ["env-filter"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use tracing_subscriber::EnvFilter;
fn main() {
    std::env::set_var("RUST_LOG", "");
    let show = |name: &str, filter: EnvFilter| println!("{name}: {:?}", filter.max_level_hint());
    show("try_from_default_env, else info", EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info")));
    show("try_new(\"\")", EnvFilter::try_new("").unwrap());
    show("from_default_env", EnvFilter::from_default_env());
    show("builder with default info", EnvFilter::builder().with_default_directive("info".parse().unwrap()).from_env_lossy());
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='try_from_default_env, else info: Some(LevelFilter::OFF)
try_new(""): Some(LevelFilter::OFF)
from_default_env: Some(LevelFilter::ERROR)
builder with default info: Some(LevelFilter::INFO)'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
