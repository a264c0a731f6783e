mod build_tests;
mod check;
mod failures_tests;
mod file;

use std::path::Path;

use cospan_domain::units::{DurationMs, Timestamp};

use super::{BuiltGrid, Grid, GridBuildOptions};
use cospan_languages::logs::BadLineTreatment;

const BEGIN: Timestamp = Timestamp(1_000_000_000);
const DAY: DurationMs = DurationMs::from_secs(86_400);

fn parsed(text: &str) -> Grid {
    Grid::parse(Path::new("/grids/test.toml"), text).unwrap()
}

/// All problems of a text, as people see them.
fn refused(text: &str) -> String {
    Grid::parse(Path::new("test.toml"), text)
        .unwrap_err()
        .to_string()
}

/// A grid of one site with these lines.
fn one_site(lines: &str) -> String {
    format!("[[site]]\nname = \"delft\"\nnodes = 16\nprocessors_per_node = 2\n{lines}\n")
}

fn options(days: u64, seed: u64) -> GridBuildOptions {
    let horizon = DurationMs(DAY.0 * days);
    let on_bad = BadLineTreatment::Skip {
        kept_per_kind_max: 10,
    };
    GridBuildOptions {
        begin: BEGIN,
        horizon,
        seed,
        on_bad,
    }
}

fn built(text: &str, days: u64, seed: u64) -> BuiltGrid {
    parsed(text).build(&options(days, seed)).unwrap()
}
