//! The ranking of the sites that may reserve for a job, for people.

use cospan_domain::units::DurationMs;

use crate::api::v1::preferences::ObjectiveName;
use crate::api::v1::ranking::{CandidateReport, RankingReport};
use crate::cli::local_time::local;
use crate::cli::print::{columns, line};

/// Formats each ranking as a line with its objective, and a table.
pub(super) fn text(rankings: &[RankingReport]) -> String {
    let texts: Vec<String> = rankings.iter().map(one).collect();
    texts.join("\n")
}

fn one(ranking: &RankingReport) -> String {
    let by = match (ranking.by, &ranking.because) {
        (ObjectiveName::EarliestStart, Some(because)) => format!("by start only: {because}"),
        (by, _) => format!("by {}", by.as_str()),
    };
    let rows: Vec<Vec<String>> = ranking.candidates.iter().map(row).collect();
    let heading = ["SITE", "", "INPUT", "START", "RUNS", "DONE"];
    line(&format!("{}: sites ranked {by}", ranking.component)) + &columns(&heading, &rows)
}

fn row(candidate: &CandidateReport) -> Vec<String> {
    let next = candidate
        .next
        .map(|next| format!("{}, not before {}", candidate.state, local(next)));
    vec![
        candidate.site.clone(),
        next.unwrap_or_else(|| candidate.state.clone()),
        candidate.stage_in_ms.map_or_else(
            || "unknown (0s)".into(),
            |stage_in| DurationMs(stage_in).to_string(),
        ),
        candidate.start.map_or_else(|| "-".into(), local),
        candidate
            .run_ms
            .map_or_else(|| "-".into(), |run| DurationMs(run).to_string()),
        candidate.done.map_or_else(|| "-".into(), local),
    ]
}
