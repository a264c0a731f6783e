#!/usr/bin/env bash
# byte-unit 5.2.6, set beside bytesize 2.7.0 (crates.io): amounts of memory as PBS writes them.
#
# One would expect: PBS's mem=4gb (the manual's own, lower-case spelling) is read as four gigabytes, as
# "4g" and "4GB" are, or else refused.
# What it does: a lower-case b is a bit. Byte::parse_str("4gb", false) is 500 MB, an eighth of
# what was asked, while "4g" without the b is 4 GB. The second argument, ignore_case, turns the same
# text into 4 GB. And "4b" is one byte: parts of a byte are rounded up without a word.
#
# Seen, bytes by byte-unit (case heeded; ignored) and by bytesize:
#   4gb  500000000  4000000000  4000000000
#   4g   4000000000 4000000000  4000000000
#   4GB  4000000000 4000000000  4000000000
#   4b   1          4           4
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'byte-unit = "=5.2.6"' \
  'bytesize = "=2.7.0"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use byte_unit::Byte;
fn main() {
    for text in ["4gb", "4g", "4GB", "4b"] {
        let heeded = Byte::parse_str(text, false).unwrap().as_u64();
        let ignored = Byte::parse_str(text, true).unwrap().as_u64();
        println!("{text} {heeded} {ignored} {}", text.parse::<bytesize::ByteSize>().unwrap().as_u64());
    }
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='4gb 500000000 4000000000 4000000000
4g 4000000000 4000000000 4000000000
4GB 4000000000 4000000000 4000000000
4b 1 4 4'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
