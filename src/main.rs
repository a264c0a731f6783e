//! The `cospan` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    cospan::cli::main()
}
