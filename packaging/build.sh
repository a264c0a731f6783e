#!/usr/bin/env bash
# Builds what is installed: one stripped program without any library. Prints its path. Needs the
# static libraries of the C compiler (libc6-dev and libgcc).
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
# With a target the flags are those of the program alone: macros run in the compiler and are shared
# libraries. What says where to correct addresses at the start takes a megabyte unless it is packed.
export RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs ${RUSTFLAGS:-}"
cargo build --locked --release --package cospan --bin cospan --target "$target" >&2
echo "${CARGO_TARGET_DIR:-target}/$target/release/cospan"
