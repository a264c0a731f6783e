//! The `cospan` program.

use std::process::ExitCode;

/// A server full of jobs is a server full of small values, for which the C
/// library's allocator takes longer and keeps more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cospan::cli::main()
}
