//! The agent of a site's files as a program of its own, for tests and benches.

use std::process::ExitCode;

fn main() -> ExitCode {
    cospan_sites::files::agent::main(std::env::args_os().skip(1))
}
