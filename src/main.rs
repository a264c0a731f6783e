//! The `cospan` program.

use std::process::ExitCode;

/// A server full of jobs is a server full of small values: the allocator of the
/// C library takes half as long again for them, and keeps more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cospan::cli::main()
}
