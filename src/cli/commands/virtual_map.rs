//! `cospan map`: draws the virtual map of a job, for people who would rather look than read.

mod terminal;

use std::fs;

use crate::cli::args_job::VirtualMapArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::print::{format_columns, single_line};
use cospan_api::v1::explain::{BidReport, ExplainReport};
use cospan_simulator::simulate::report::{MapPoint, virtual_map};

/// Draws the sites as a job sees them.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &VirtualMapArgs,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let report =
        super::explain::read_whole_explanation(&client, context.resolve_one(&client, &args.id)?)?;
    if report.bids.is_empty() {
        let policy = report.policy.as_deref().unwrap_or("none");
        return Err(CliError::usage_error(
            format!(
                "job {} has no map: sites bid under mrs, its policy is {policy}",
                report.job
            ),
            "set `policy = \"mrs\"` in the job file; `cospan explain` is for any job",
        ));
    }
    if let Some(file) = &args.svg {
        let figure = virtual_map(
            &map_title(&report),
            &note_missing_sites(&report),
            &map_points(&report),
        );
        let written = fs::write(file, figure.to_standalone_svg());
        written.map_err(|error| CliError::file_error("write", file, &error))?;
    }
    context.out.print_answer(&report.bids, |bids| {
        let by = bid_basis(&report);
        let plot = terminal::plot_map(&map_points(&report));
        format!(
            "{}\n{by}\n{plot}\n{}",
            map_title(&report),
            format_bids(bids)
        )
    })?;
    Ok(CliExitCode::Done)
}

fn map_title(report: &ExplainReport) -> String {
    format!(
        "The virtual map of job {}, with sites as they are now",
        report.job
    )
}

/// Formats the basis of the bids, as a line.
pub(super) fn bid_basis(report: &ExplainReport) -> String {
    report
        .bids_by
        .as_ref()
        .map(|by| single_line(&format!("Bids: {by}.")))
        .unwrap_or_default()
}

/// Names the sites that are on no map.
fn note_missing_sites(report: &ExplainReport) -> String {
    let declined = report.bids.iter().filter(|bid| bid.at.is_none());
    let names: Vec<&str> = declined.map(|bid| bid.site.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("Not on it, as they do not bid: {}.", names.join(", ")),
    }
}

fn map_points(report: &ExplainReport) -> Vec<MapPoint> {
    report
        .bids
        .iter()
        .filter_map(|bid: &BidReport| {
            let at = bid.at.as_ref()?;
            let mut chosen = report.verdicts.iter().filter(|verdict| verdict.chosen);
            Some(MapPoint {
                name: bid.site.clone(),
                x: at.x,
                y: at.y,
                is_chosen: chosen.any(|verdict| verdict.site.as_ref() == Some(&bid.site)),
                tip: format!(
                    "{}: distance {:.3}{}",
                    bid.site,
                    at.distance,
                    format_nearer(bid)
                ),
            })
        })
        .collect()
}

fn format_nearer(bid: &BidReport) -> String {
    let nearer = bid.at.as_ref().and_then(|at| at.nearer.as_ref());
    nearer
        .map(|nearer| format!("; nearer with {nearer}"))
        .unwrap_or_default()
}

/// Formats each site with its position on the map, the nearest first.
pub(super) fn format_bids(bids: &[BidReport]) -> String {
    let mut sorted: Vec<&BidReport> = bids.iter().collect();
    sorted.sort_by(|a, b| {
        let by_distance = distance_of(a).total_cmp(&distance_of(b));
        by_distance.then_with(|| a.site.cmp(&b.site))
    });
    let rows: Vec<Vec<String>> = sorted.into_iter().map(bid_row).collect();
    let head = ["SITE", "DISTANCE", "X", "Y", "INDICES", "NEARER WITH"];
    format_columns(&head, &rows) + &note_without_gflops(bids)
}

fn distance_of(bid: &BidReport) -> f64 {
    bid.at.as_ref().map_or(f64::INFINITY, |at| at.distance)
}

/// Names the sites that bid although the configuration has no GFLOPS for them.
fn note_without_gflops(bids: &[BidReport]) -> String {
    let lacking = bids
        .iter()
        .filter(|bid| bid.at.is_some() && bid.lacks_gflops);
    let names: Vec<&str> = lacking.map(|bid| bid.site.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            "without GFLOPS figures (gflops_per_processor), so that compute counts processors \
             alone: {}\n",
            names.join(", ")
        ),
    }
}

fn bid_row(bid: &BidReport) -> Vec<String> {
    match &bid.at {
        Some(at) => {
            let indices = at
                .indices
                .iter()
                .map(|(name, index)| format!("{name} {index:.3}"));
            let indices = indices.collect::<Vec<_>>().join(", ");
            let nearer = at.nearer.clone().unwrap_or_else(|| "-".into());
            vec![
                bid.site.clone(),
                format!("{:.3}", at.distance),
                format!("{:.3}", at.x),
                format!("{:.3}", at.y),
                indices,
                nearer,
            ]
        }
        None => {
            let why = bid.declined.clone().unwrap_or_default();
            vec![
                bid.site.clone(),
                "-".to_owned(),
                "-".to_owned(),
                "-".to_owned(),
                format!("does not bid: {why}"),
                "-".to_owned(),
            ]
        }
    }
}

#[cfg(test)]
#[path = "virtual_map/tests.rs"]
mod tests;
