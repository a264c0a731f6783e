#!/usr/bin/env bash
# tracing-subscriber 0.3.23 with tracing 0.1.44 (crates.io): EnvFilter by the value of a span's field.
#
# One would expect: [job{site=berlin}]=debug gives the debug entries of spans whose site is "berlin",
# and [job{site=7}]=debug those whose site is "7", however the field was recorded.
# What it does:
#   - text is matched at its end: site=berlin also takes "west-berlin", and site=lin takes "berlin";
#     but site=ber does not (as a pattern it would be "contains" or "equals" by anybody's guess).
#   - a value that looks like a number or a boolean is compared with numbers and booleans only.
#     No field recorded as text ("7", or %7 by Display, as ids often are) ever matches it. A
#     pattern that does not look like a number, ^7$, does.
#
# Seen: which spans each filter lets through
#   site=berlin   berlin west-berlin
#   site=lin      berlin west-berlin
#   site=ber      none
#   site=7        7 as a number
#   site=^7$      7 as text, 7 by Display
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'tracing = "=0.1.44"' \
  'tracing-subscriber = { version = "=0.3.23", features = ["env-filter"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use tracing::{debug, enabled, info_span, Level, Span};
use tracing_subscriber::EnvFilter;
fn main() {
    for value in ["berlin", "lin", "ber", "7", "^7$"] {
        let filter = EnvFilter::try_new(format!("[job{{site={value}}}]=debug")).unwrap();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::sink).finish();
        tracing::subscriber::with_default(log, || {
            let passes = |name: &str, span: Span| span.in_scope(|| {
                debug!("so that the call site is known");
                if enabled!(Level::DEBUG) { format!(" [{name}]") } else { String::new() }
            });
            let mut all = passes("berlin", info_span!("job", site = "berlin"));
            all += &passes("west-berlin", info_span!("job", site = "west-berlin"));
            all += &passes("7 as a number", info_span!("job", site = 7));
            all += &passes("7 as text", info_span!("job", site = "7"));
            all += &passes("7 by Display", info_span!("job", site = %7));
            println!("site={value}{all}");
        });
    }
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='site=berlin [berlin] [west-berlin]
site=lin [berlin] [west-berlin]
site=ber
site=7 [7 as a number]
site=^7$ [7 as text] [7 by Display]'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
