//! The `cospan-bench` program.

use std::process::ExitCode;

/// That of the program that is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cospan_bench::command::main()
}
