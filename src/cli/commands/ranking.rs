//! The ranking of the sites that may reserve for a job, for people.

use cospan_domain::units::DurationMs;

use crate::cli::local_time::format_local;
use crate::cli::print::{format_columns, single_line};
use cospan_api::v1::preferences::ObjectiveName;
use cospan_api::v1::ranking::{CandidateReport, RankingReport};

/// Formats each ranking as a line with its objective, and a table.
pub(super) fn format_rankings(rankings: &[RankingReport]) -> String {
    let texts: Vec<String> = rankings.iter().map(format_ranking).collect();
    texts.join("\n")
}

fn format_ranking(ranking: &RankingReport) -> String {
    let by = match (ranking.by, &ranking.because) {
        (ObjectiveName::EarliestStart, Some(because)) => format!("by start only: {because}"),
        (by, _) => format!("by {}", by.as_str()),
    };
    let rows: Vec<Vec<String>> = ranking.candidates.iter().map(candidate_row).collect();
    let heading = ["SITE", "", "INPUT", "START", "RUNS", "DONE"];
    single_line(&format!("{}: sites ranked {by}", ranking.component))
        + &format_columns(&heading, &rows)
}

fn candidate_row(candidate: &CandidateReport) -> Vec<String> {
    let next = candidate
        .next
        .map(|next| format!("{}, not before {}", candidate.state, format_local(next)));
    vec![
        candidate.site.clone(),
        next.unwrap_or_else(|| candidate.state.clone()),
        candidate.stage_in_ms.map_or_else(
            || "unknown (0s)".into(),
            |stage_in| DurationMs(stage_in).to_string(),
        ),
        candidate.start.map_or_else(|| "-".into(), format_local),
        candidate
            .run_ms
            .map_or_else(|| "-".into(), |run| DurationMs(run).to_string()),
        candidate.done.map_or_else(|| "-".into(), format_local),
    ]
}
