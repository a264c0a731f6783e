//! From the text of a grid file to a [`Grid`].

mod read_links;
mod read_reservations;
mod read_site;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::Bytes;
use toml::de::DeTable;

use super::grid_table::{GridFileValue, GridTable};
use super::problems::ProblemCollector;
use super::{DescribedSite, Grid, GridProblems, SITES_MAX};

/// Reads the text; logs are in the directory of `file`.
pub(super) fn parse_grid(file: &Path, text: &str) -> Result<Grid, GridProblems> {
    let mut problems = ProblemCollector::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        problems.add(
            &at,
            error.message(),
            "correct the TOML, see https://toml.io",
        );
    }
    if !problems.is_empty() {
        // Errors that follow from a slip of the notation would only hide it.
        return Err(problems.finish(file));
    }
    let problems = RefCell::new(problems);
    let grid = GridReading::new(file).read_grid(&GridTable::root(&root, &problems));
    let problems = problems.into_inner();
    match grid {
        Some(grid) if problems.is_empty() => Ok(grid),
        _ => Err(problems.finish(file)),
    }
}

/// The state while a file is read.
struct GridReading<'f> {
    /// The directory of logs.
    directory: &'f Path,
    /// The names of sites, also of those that have problems, with their lines.
    names: BTreeMap<SiteName, usize>,
    /// The first size of each file, with its line.
    files: BTreeMap<LogicalName, (Bytes, usize)>,
}

impl<'f> GridReading<'f> {
    fn new(file: &'f Path) -> Self {
        let directory = file.parent().unwrap_or(Path::new(""));
        Self {
            directory,
            names: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    fn read_grid(&mut self, root: &GridTable<'_, '_>) -> Option<Grid> {
        root.allow_only(&["site", "link", "network", "reservations"]);
        let tables = root.sub_tables("site");
        let count = tables.as_ref().map(Vec::len);
        if let Some(count) = count.filter(|count| !(1..=SITES_MAX).contains(count)) {
            let message = format!("the grid has {count} sites");
            let remedy = format!("describe 1 to {SITES_MAX} sites, each in a [[site]]");
            root.add_problem(root.table_span(), message, remedy);
        }
        let sites: Vec<Option<DescribedSite>> = tables
            .iter()
            .flatten()
            .map(|table| self.read_site(table))
            .collect();
        let network = read_links::read_network_defaults(root);
        let links = read_links::read_links(root, &self.names, network.unwrap_or_default());
        let reservations = read_reservations::read_reservations(root, &sites);
        Some(Grid {
            sites: sites.into_iter().collect::<Option<_>>()?,
            links,
            network: network?,
            reservations: reservations?,
        })
    }

    fn read_site(&mut self, table: &GridTable<'_, '_>) -> Option<DescribedSite> {
        let name = table.required_value("name", super::grid_table::read_parsed::<SiteName>);
        if let Some(GridFileValue { value, at }) = &name {
            let line = table.line_at(at);
            if let Some(first) = self.names.insert(value.clone(), line) {
                let message = format!("site {value:?} is given twice, first on line {first}");
                table.add_problem(at, message, "give each site its own name");
            }
        }
        let site = read_site::read_site(table, name.map(|name| name.value), self.directory);
        self.compare_files(table, site.as_ref()?);
        site
    }

    /// Checks that all replicas of a logical file have one size.
    fn compare_files(&mut self, table: &GridTable<'_, '_>, site: &DescribedSite) {
        let line = table.line_at(table.table_span());
        for (name, size) in &site.files {
            let (first_size, first) = *self.files.entry(name.clone()).or_insert((*size, line));
            if first_size != *size {
                let message = format!(
                    "file {name:?} of site {} has {} bytes, but {} at the site on line {first}",
                    site.name, size.0, first_size.0
                );
                table.add_problem(
                    table.table_span(),
                    message,
                    "give it one size, or another name",
                );
            }
        }
    }
}
