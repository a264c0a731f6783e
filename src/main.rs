//! The `cospan` program.

use std::process::ExitCode;

/// A server full of jobs is a server full of small values. The C library's allocator is slower with
/// them, and uses more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cospan::cli::main()
}
