//! The program that is measured. It lies beside this one.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Returns the file of the `cospan` that was built with this bench.
pub(crate) fn cospan_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    let program = own.with_file_name("cospan");
    if !program.is_file() {
        bail!(
            "there is no {}: build it with cargo build --release -p cospan",
            program.display()
        );
    }
    Ok(program)
}
