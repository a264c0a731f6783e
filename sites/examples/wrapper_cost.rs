//! Measures what the wrapper costs on this machine.
//!
//! `cargo run --release -p cospan-sites --example wrapper_cost [seconds per figure] [shell]`

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::time::Duration;

use cospan_sites::wrapper::cost::measure_cost;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let shell = arguments.next().unwrap_or_else(|| "/bin/sh".to_owned());
    let place = tempfile::tempdir_in(".")?;
    let root = place.path().canonicalize()?;
    let cost = measure_cost(&root, Duration::from_secs_f64(seconds), &shell)?;
    println!("{cost:#?}\nbest: {:.0} a second", cost.best_per_s());
    Ok(())
}
