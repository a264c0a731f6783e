//! `cospan explain`

use cospan_domain::units::{BitsPerSecond, Bytes, DurationMs};

use super::{ranking, stderr_tail, virtual_map};
use crate::api::v1::explain::{
    CostReport, ExplainReport, TransferReport, VerdictGroup, VerdictReport,
};
use crate::cli::args::OutputFormat;
use crate::cli::args_job::ExplainArgs;
use crate::cli::context::CommandContext;
use crate::cli::exit::{CliError, CliExit};
use crate::cli::local_time::clock;
use crate::cli::print::{bold, columns, line, note, state, warning_word};
use crate::client::{Client, ClientError};

/// Explains why jobs are where they are.
pub(crate) fn run(context: &mut CommandContext, args: &ExplainArgs) -> Result<CliExit, CliError> {
    let client = context.client()?;
    let ids = context.resolve(&client, &args.ids)?;
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
                whole(&client, id)
            }
        })
        .collect::<Result<_, _>>()?;
    context.out.answer(&reports, |reports| {
        let texts = reports.iter().map(|report| told(report, is_page));
        texts.collect::<Vec<String>>().join("\n")
    })?;
    Ok(CliExit::Done)
}

/// Reads all pages of an explanation; warns if they do not show one state of the job.
pub(super) fn whole(client: &Client, id: u64) -> Result<ExplainReport, ClientError> {
    let all = client.explain_all(id)?;
    if !all.held_still {
        let warning = warning_word();
        note(&format!(
            "{warning}: job {id} changed each time while it was read: what is told of its first \
             components may be of an earlier state than what is told of its last"
        ));
    }
    Ok(all.report)
}

/// Formats an explanation for people; a job of a dry run has no number.
pub(super) fn text(report: &ExplainReport) -> String {
    told(report, false)
}

/// Formats an explanation. Many verdicts are grouped, unless `each` is set.
fn told(report: &ExplainReport, each: bool) -> String {
    let job = match report.job {
        0 => "the job".into(),
        number => format!("job {number}"),
    };
    let mut text = line(&format!("{}: {}", bold(&job), report.summary));
    if let Some(position) = report.position {
        text.push_str(&format!("  number {position} in its queue\n"));
    }
    if let Some(priority) = &report.priority {
        text.push_str(&format!("  priority {priority}\n"));
    }
    text.push_str(&start(report));
    if let Some(policy) = &report.policy {
        let rule = report.rule.as_ref().map(|rule| format!(", rule {rule}"));
        text.push_str(&line(&format!(
            "  policy {policy}{}",
            rule.unwrap_or_default()
        )));
    }
    if let Some(refused) = &report.refused {
        text.push_str(&line(&format!("  when it was placed, {refused}")));
    }
    if let Some(withheld) = &report.withheld {
        let sites: Vec<String> = withheld
            .processors
            .iter()
            .map(|(site, count)| format!("{count} at {site}"))
            .collect();
        let sites = sites.join(", ");
        let until = clock(withheld.until);
        text.push_str(&line(&format!(
            "  withheld until {until} for job {}, which has waited long: {sites}",
            withheld.job
        )));
    }
    if let Some(cost) = &report.cost {
        text.push_str(&costs(cost));
    }
    text.push_str(&verdicts(report, each));
    if !report.bids.is_empty() {
        text.push('\n');
        text.push_str(&virtual_map::by(report));
        text.push_str(&virtual_map::table(&report.bids));
    }
    if !report.ranking.is_empty() {
        text.push('\n');
        text.push_str(&ranking::text(&report.ranking));
    }
    if !report.transfers.is_empty() {
        let rows: Vec<Vec<String>> = report.transfers.iter().map(transfer).collect();
        text.push('\n');
        text.push_str(&columns(
            &["COMPONENT", "FROM", "TO", "HERE", "OF", "EXPECTED"],
            &rows,
        ));
        report
            .transfers
            .iter()
            .filter_map(failure)
            .for_each(|line| text.push_str(&line));
    }
    if !report.last_words.is_empty() {
        text.push('\n');
        text.push_str(&stderr_tail::text(&report.last_words));
    }
    text.push_str(&left_out(report));
    text
}

/// Says what is left out, and which command shows it.
fn left_out(report: &ExplainReport) -> String {
    let Some(next) = report.next else {
        return String::new();
    };
    let what = match next {
        0 => "of its components nothing is told".into(),
        next => format!("of components after the first {next} nothing is told"),
    };
    let what = format!("{what}: no verdict, no transfer and what keeps it, no ranking");
    match report.job {
        0 => format!("\n  {what}; sums are of all\n"),
        job => {
            format!("\n  more: cospan explain {job} --after {next}, or -o json for all; {what}\n")
        }
    }
}

/// Formats the verdicts on the sites.
fn verdicts(report: &ExplainReport, each: bool) -> String {
    let mut text = String::new();
    if !each && !report.groups.is_empty() {
        let rows: Vec<Vec<String>> = report.groups.iter().map(group).collect();
        text.push('\n');
        text.push_str(&columns(&["SITES", "COMPONENTS", "CODE", "AS"], &rows));
        if report.job > 0 {
            text.push_str(&format!(
                "  each of them: cospan explain {} --limit 10, or -o json\n",
                report.job
            ));
        }
        return text;
    }
    if !report.verdicts.is_empty() {
        let rows: Vec<Vec<String>> = report.verdicts.iter().map(row).collect();
        text.push('\n');
        text.push_str(&columns(&["COMPONENT", "SITE", "", "CODE", "WHY"], &rows));
    }
    text
}

fn group(group: &VerdictGroup) -> Vec<String> {
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

fn start(report: &ExplainReport) -> String {
    match (&report.estimate, &report.estimate_unknown) {
        (Some(estimate), _) => {
            let from = clock(estimate.from);
            let until = clock(estimate.until);
            let basis = &estimate.basis;
            line(&format!(
                "  start from {from}, in all likelihood before {until}: {basis}"
            ))
        }
        (None, Some(reason)) => line(&format!("  start unknown: {reason}")),
        (None, None) => String::new(),
    }
}

fn costs(cost: &CostReport) -> String {
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
        text.push_str(&columns(
            &["COMPONENT", "FROM", "TO", "BYTES", "TIME", "AT"],
            &moved,
        ));
    }
    text
}

fn transfer(transfer: &TransferReport) -> Vec<String> {
    vec![
        transfer.component.clone(),
        transfer.from.clone(),
        transfer.site.clone(),
        Bytes(transfer.done_bytes).to_string(),
        Bytes(transfer.size_bytes).to_string(),
        match (transfer.here, transfer.expected_at) {
            (true, _) => "whole".into(),
            (false, at) => at.map_or_else(|| "-".into(), clock),
        },
    ]
}

/// Explains why content did not arrive; it is tried again.
fn failure(transfer: &TransferReport) -> Option<String> {
    let problem = transfer.problem.as_ref()?;
    let TransferReport {
        component,
        from,
        site,
        ..
    } = transfer;
    Some(line(&format!(
        "  {component}, {from} to {site}: the last try failed: {problem}"
    )))
}

fn row(verdict: &VerdictReport) -> Vec<String> {
    vec![
        verdict.component.as_deref().unwrap_or("-").to_owned(),
        verdict.site.as_deref().unwrap_or("-").to_owned(),
        if verdict.chosen {
            state("usable").replace("usable", "chosen")
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
        let summed_up = told(&report(5_000), false);
        assert!(summed_up.lines().count() < 10, "{summed_up}");
        assert!(
            summed_up.contains("197") && summed_up.contains("c0 at delft"),
            "{summed_up}"
        );
        assert!(
            summed_up.contains("cospan explain 7 --limit"),
            "{summed_up}"
        );
        let each = told(&report(25), true);
        assert!(each.contains("c24"), "{each}");
        assert!(each.contains("more: cospan explain 7 --after 25"), "{each}");
    }

    #[test]
    fn what_is_left_out_is_said_however_the_rest_is_told() {
        for each in [false, true] {
            let text = told(&report(5_000), each);
            assert!(
                text.contains("after the first 25 nothing is told"),
                "{text}"
            );
            assert!(text.contains("--after 25, or -o json for all"), "{text}");
            let tried = told(
                &ExplainReport {
                    job: 0,
                    ..report(5_000)
                },
                each,
            );
            assert!(
                tried.contains("after the first 25 nothing is told"),
                "{tried}"
            );
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
        let text = told(&few, false);
        assert!(text.contains("c2") && !text.contains("--limit"), "{text}");
    }
}
