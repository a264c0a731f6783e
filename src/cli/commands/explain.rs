//! `cospan explain`

use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs};

use super::{ranking, stderr_tail, virtual_map};
use crate::cli::args::OutputFormat;
use crate::cli::args_job::ExplainArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExitCode};
use crate::cli::local_time::format_clock;
use crate::cli::print::{bold, color_state, format_columns, print_note, single_line, warning_word};
use cospan_api::v1::explain::{
    CostReport, ExplainReport, TransferReport, VerdictGroup, VerdictReport,
};
use cospan_client::{Client, ClientError};

/// Explains why jobs are where they are.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &ExplainArgs,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let ids = context.resolve_ids(&client, &args.ids)?;
    let after = args.after;
    let limit = args.limit;
    let is_page = after.is_some() || limit.is_some();
    let is_for_people = context.out.format() == OutputFormat::Table;
    let reports: Vec<ExplainReport> = ids
        .into_iter()
        .map(|id| {
            if is_page || is_for_people {
                client.explain_page(id, after, limit)
            } else {
                read_whole_explanation(&client, id)
            }
        })
        .collect::<Result<_, _>>()?;
    context.out.print_answer(&reports, |reports| {
        let texts = reports.iter().map(|report| format_report(report, is_page));
        texts.collect::<Vec<String>>().join("\n")
    })?;
    Ok(CliExitCode::Done)
}

/// Reads all pages of an explanation; warns if they do not show one state of the job.
pub(super) fn read_whole_explanation(
    client: &Client,
    id: u64,
) -> Result<ExplainReport, ClientError> {
    let all = client.explain_all(id)?;
    if !all.held_still {
        let warning = warning_word();
        print_note(&format!(
            "{warning}: job {id} kept changing while it was read: its first components may be \
             shown in an earlier state than its last"
        ));
    }
    Ok(all.report)
}

/// Formats an explanation for people; a job of a dry run has no number.
pub(super) fn format_explanation(report: &ExplainReport) -> String {
    format_report(report, false)
}

/// Formats an explanation. Many verdicts are grouped, unless `each` is set.
fn format_report(report: &ExplainReport, each: bool) -> String {
    let job = match report.job {
        0 => "the job".into(),
        number => format!("job {number}"),
    };
    let mut text = single_line(&format!("{}: {}", bold(&job), report.summary));
    if let Some(position) = report.position {
        text.push_str(&format!("  number {position} in its queue\n"));
    }
    if let Some(priority) = &report.priority {
        text.push_str(&format!("  priority {priority}\n"));
    }
    text.push_str(&format_start(report));
    if let Some(policy) = &report.policy {
        let rule = report.rule.as_ref().map(|rule| format!(", rule {rule}"));
        text.push_str(&single_line(&format!(
            "  policy {policy}{}",
            rule.unwrap_or_default()
        )));
    }
    if let Some(refused) = &report.refused {
        text.push_str(&single_line(&format!("  when it was placed, {refused}")));
    }
    if let Some(withheld) = &report.withheld {
        let sites: Vec<String> = withheld
            .processors
            .iter()
            .map(|(site, count)| format!("{count} at {site}"))
            .collect();
        let sites = sites.join(", ");
        let until = format_clock(withheld.until);
        text.push_str(&single_line(&format!(
            "  withheld until {until} for job {}, which has waited long: {sites}",
            withheld.job
        )));
    }
    if let Some(cost) = &report.cost {
        text.push_str(&format_costs(cost));
    }
    text.push_str(&format_verdicts(report, each));
    if !report.bids.is_empty() {
        text.push('\n');
        text.push_str(&virtual_map::bid_basis(report));
        text.push_str(&virtual_map::format_bids(&report.bids));
    }
    if !report.ranking.is_empty() {
        text.push('\n');
        text.push_str(&ranking::format_rankings(&report.ranking));
    }
    if !report.transfers.is_empty() {
        let rows: Vec<Vec<String>> = report.transfers.iter().map(transfer_row).collect();
        text.push('\n');
        text.push_str(&format_columns(
            &["COMPONENT", "FROM", "TO", "HERE", "OF", "EXPECTED"],
            &rows,
        ));
        report
            .transfers
            .iter()
            .filter_map(transfer_failure)
            .for_each(|line| text.push_str(&line));
    }
    if !report.last_words.is_empty() {
        text.push('\n');
        text.push_str(&stderr_tail::format_indented(&report.last_words));
    }
    text.push_str(&format_left_out(report));
    text
}

/// Says what is left out, and which command shows it.
fn format_left_out(report: &ExplainReport) -> String {
    let Some(next) = report.next else {
        return String::new();
    };
    let what = match next {
        0 => "its components are left out".into(),
        next => format!("components after the first {next} are left out"),
    };
    let what = format!("{what}: their verdicts, transfers and rankings");
    match report.job {
        0 => format!("\n  {what}; sums count all\n"),
        job => {
            format!("\n  more: cospan explain {job} --after {next}, or -o json for all; {what}\n")
        }
    }
}

/// Formats the verdicts on the sites.
fn format_verdicts(report: &ExplainReport, each: bool) -> String {
    let mut text = String::new();
    if !each && !report.groups.is_empty() {
        let rows: Vec<Vec<String>> = report.groups.iter().map(verdict_group_row).collect();
        text.push('\n');
        text.push_str(&format_columns(
            &["SITES", "COMPONENTS", "CODE", "AS"],
            &rows,
        ));
        if report.job > 0 {
            text.push_str(&format!(
                "  list each: cospan explain {} --limit 10, or -o json\n",
                report.job
            ));
        }
        return text;
    }
    if !report.verdicts.is_empty() {
        let rows: Vec<Vec<String>> = report.verdicts.iter().map(verdict_row).collect();
        text.push('\n');
        text.push_str(&format_columns(
            &["COMPONENT", "SITE", "", "CODE", "WHY"],
            &rows,
        ));
    }
    text
}

fn verdict_group_row(group: &VerdictGroup) -> Vec<String> {
    let VerdictGroup {
        code,
        sites,
        components,
        example,
    } = group;
    vec![
        sites.to_string(),
        components.to_string(),
        code.clone(),
        example.clone(),
    ]
}

fn format_start(report: &ExplainReport) -> String {
    match (&report.estimate, &report.estimate_unknown) {
        (Some(estimate), _) => {
            let from = format_clock(estimate.from);
            let until = format_clock(estimate.until);
            let expected = estimate.expected.map(format_clock);
            let expected = expected.map_or_else(String::new, |at| format!("expected at {at}, "));
            let basis = &estimate.basis;
            single_line(&format!(
                "  start {expected}from {from}, in all likelihood before {until}: {basis}"
            ))
        }
        (None, Some(reason)) => single_line(&format!("  start unknown: {reason}")),
        (None, None) => String::new(),
    }
}

fn format_costs(cost: &CostReport) -> String {
    let mut text = format!(
        "  {} to be moved in {}; at most {:.1} processor-hours held, {:.1} of them running\n",
        Bytes(cost.moved_bytes),
        DurationMs(cost.transfer_ms),
        DurationMs(cost.held_processor_ms).as_secs_f64() / 3_600.0,
        DurationMs(cost.run_processor_ms).as_secs_f64() / 3_600.0,
    );
    let moved: Vec<Vec<String>> = cost
        .transfers
        .iter()
        .filter(|transfer| transfer.from != transfer.site)
        .map(|transfer| {
            let bandwidth = transfer
                .bandwidth_bps
                .map(|rate| BitsPerSecond(rate).to_string());
            let known = if transfer.measured_at.is_some() {
                "measured"
            } else {
                "configured"
            };
            vec![
                transfer.component.clone(),
                transfer.from.clone(),
                transfer.site.clone(),
                Bytes(transfer.bytes).to_string(),
                DurationMs(transfer.time_ms).to_string(),
                format!("{}, {known}", bandwidth.unwrap_or_default()),
            ]
        })
        .collect();
    if !moved.is_empty() {
        text.push('\n');
        text.push_str(&format_columns(
            &["COMPONENT", "FROM", "TO", "BYTES", "TIME", "AT"],
            &moved,
        ));
    }
    text
}

fn transfer_row(transfer: &TransferReport) -> Vec<String> {
    vec![
        transfer.component.clone(),
        transfer.from.clone(),
        transfer.site.clone(),
        Bytes(transfer.done_bytes).to_string(),
        Bytes(transfer.size_bytes).to_string(),
        match (transfer.here, transfer.expected_at) {
            (true, _) => "whole".into(),
            (false, at) => at.map_or_else(|| "-".into(), format_clock),
        },
    ]
}

/// Explains why content did not arrive; it is tried again.
fn transfer_failure(transfer: &TransferReport) -> Option<String> {
    let problem = transfer.problem.as_ref()?;
    let TransferReport {
        component,
        from,
        site,
        ..
    } = transfer;
    Some(single_line(&format!(
        "  {component}, {from} to {site}: the last try failed: {problem}"
    )))
}

fn verdict_row(verdict: &VerdictReport) -> Vec<String> {
    vec![
        verdict.component.as_deref().unwrap_or("-").to_owned(),
        verdict.site.as_deref().unwrap_or("-").to_owned(),
        if verdict.chosen {
            color_state("usable").replace("usable", "chosen")
        } else {
            "no".into()
        },
        verdict.code.clone(),
        verdict.detail.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: usize) -> ExplainReport {
        let code = "site-full".into();
        let example = "c0 at delft: it is full".into();
        ExplainReport {
            job: 7,
            verdicts: (0..count)
                .map(|number: usize| VerdictReport {
                    component: Some(format!("c{number}")),
                    site: Some("delft".into()),
                    code: "site-full".into(),
                    detail: "it is full".into(),
                    ..VerdictReport::default()
                })
                .collect(),
            groups: vec![VerdictGroup {
                code,
                sites: 197,
                components: 1_000,
                example,
            }],
            next: Some(25),
            ..ExplainReport::default()
        }
    }

    #[test]
    fn many_verdicts_are_summed_up_unless_each_is_wanted() {
        let summed_up = format_report(&report(5_000), false);
        assert!(summed_up.lines().count() < 10, "{summed_up}");
        assert!(
            summed_up.contains("197") && summed_up.contains("c0 at delft"),
            "{summed_up}"
        );
        assert!(
            summed_up.contains("cospan explain 7 --limit"),
            "{summed_up}"
        );
        let each = format_report(&report(25), true);
        assert!(each.contains("c24"), "{each}");
        assert!(each.contains("more: cospan explain 7 --after 25"), "{each}");
    }

    #[test]
    fn what_is_left_out_is_said_however_the_rest_is_told() {
        for each in [false, true] {
            let text = format_report(&report(5_000), each);
            assert!(text.contains("after the first 25 are left out"), "{text}");
            assert!(text.contains("--after 25, or -o json for all"), "{text}");
            let tried = format_report(
                &ExplainReport {
                    job: 0,
                    ..report(5_000)
                },
                each,
            );
            assert!(tried.contains("after the first 25 are left out"), "{tried}");
            assert!(!tried.contains("--after"), "{tried}");
        }
    }

    #[test]
    fn few_verdicts_are_all_told() {
        let few = ExplainReport {
            groups: Vec::new(),
            next: None,
            ..report(3)
        };
        let text = format_report(&few, false);
        assert!(text.contains("c2") && !text.contains("--limit"), "{text}");
    }
}
