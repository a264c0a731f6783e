#!/usr/bin/env bash
# humantime 2.4.0 (crates.io): lengths of time written for people.
#
# One would expect: format_duration of 30, 31 and 365 days says 30days, 31days and 1year, or at least
# stays in days: a Duration knows no calendar.
# What it does: from 30.44 days on it counts in months of 2,630,016 s and years of 365.25
# days, and writes the rest down to the second. A reservation of 31 days is shown as a month
# and 13 hours, one of 365 days as almost eleven months and 31 days with odd minutes. It reads
# its own text back exactly, so nothing but a reader is misled. "1M" is such a month, "1m" a minute.
#
# Seen:
#   30 days   30days
#   31 days   1month 13h 26m 24s
#   62 days   2months 1day 2h 52m 48s
#   365 days  11months 30days 3h 50m 24s
#   "1M" 2630016 s, "1m" 60 s
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'humantime = "=2.4.0"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::time::Duration;
fn main() {
    for days in [30, 31, 62, 365] {
        let length = Duration::from_secs(days * 86_400);
        let text = humantime::format_duration(length).to_string();
        assert_eq!(humantime::parse_duration(&text), Ok(length));
        println!("{days} days: {text}");
    }
    println!("1M: {} s, 1m: {} s", humantime::parse_duration("1M").unwrap().as_secs(), humantime::parse_duration("1m").unwrap().as_secs());
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='30 days: 30days
31 days: 1month 13h 26m 24s
62 days: 2months 1day 2h 52m 48s
365 days: 11months 30days 3h 50m 24s
1M: 2630016 s, 1m: 60 s'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
