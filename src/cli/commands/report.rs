//! `cospan report`

use std::io;

use crate::cli::args::OutputFormat;
use crate::cli::args_job::ReportArgs;
use crate::cli::context::{CommandContext, PAGE};
use crate::cli::exit::{CliError, CliExitCode};
use cospan_api::v1::accounting::{AccountPage, AccountRow};
use cospan_printing::csv_file::{CsvField, CsvFile};

/// The names of the columns, in their order.
pub(crate) const COLUMNS: [&str; 29] = [
    "id",
    "name",
    "owner",
    "state",
    "priority",
    "policy",
    "components",
    "processors",
    "submitted_at",
    "placed_at",
    "started_at",
    "ended_at",
    "rounds",
    "attempts",
    "placement_time_ms",
    "total_placement_time_ms",
    "queue_time_ms",
    "wait_time_ms",
    "start_overhead_ms",
    "start_delay_ms",
    "gained_time_ms",
    "gained_processor_ms",
    "wasted_processor_ms",
    "execution_time_ms",
    "response_time_ms",
    "sites_combined",
    "transfer_volume_bytes",
    "group",
    "parameters",
];

/// Writes the costs of jobs page by page, so that any number of jobs can be written.
pub(crate) fn run(
    context: &mut CommandContext,
    args: &ReportArgs,
) -> Result<CliExitCode, CliError> {
    let client = context.client()?;
    let mut filter = args.only.to_job_filter(args.after, PAGE);
    let structured = context.out.format() != OutputFormat::Table;
    let mut whole = AccountPage::default();
    let mut page = client.list_accounts(&filter)?;
    if !structured {
        context
            .out
            .print_bytes(&csv_lines([COLUMNS.map(CsvField::text)])?)?;
    }
    loop {
        if structured {
            whole.jobs.extend(page.jobs);
        } else {
            context
                .out
                .print_bytes(&csv_lines(page.jobs.iter().map(account_cells))?)?;
        }
        let Some(next) = page.next else { break };
        filter.after = Some(next);
        page = client.list_accounts(&filter)?;
    }
    if structured {
        context.out.print_answer(&whole, |_| String::new())?;
    }
    Ok(CliExitCode::Done)
}

fn csv_lines(rows: impl IntoIterator<Item = [CsvField; COLUMNS.len()]>) -> io::Result<Vec<u8>> {
    let mut file = CsvFile::new();
    for row in rows {
        file.write_row(row)?;
    }
    Ok(file.finish_file()?)
}

fn account_cells(row: &AccountRow) -> [CsvField; COLUMNS.len()] {
    fn or_empty(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    fn number(value: Option<impl ToString>) -> CsvField {
        CsvField::number(or_empty(value))
    }
    let cost = &row.accounting;
    [
        CsvField::number(row.id),
        CsvField::text(or_empty(row.name.as_ref())),
        CsvField::text(&row.owner),
        CsvField::text(&row.state),
        CsvField::text(row.priority.to_string()),
        CsvField::text(or_empty(row.policy.as_ref())),
        CsvField::number(row.components),
        CsvField::number(row.processors),
        CsvField::text(row.submitted_at.to_string()),
        CsvField::text(or_empty(row.placed_at)),
        CsvField::text(or_empty(row.started_at)),
        CsvField::text(or_empty(row.ended_at)),
        CsvField::number(row.rounds),
        CsvField::number(row.attempts),
        number(cost.placement_time_ms),
        CsvField::number(cost.total_placement_time_ms),
        number(cost.queue_time_ms),
        number(cost.wait_time_ms),
        number(cost.start_overhead_ms),
        number(cost.start_delay_ms),
        number(cost.gained_time_ms),
        CsvField::number(cost.gained_processor_ms),
        CsvField::number(cost.wasted_processor_ms),
        number(cost.execution_time_ms),
        number(cost.response_time_ms),
        CsvField::number(cost.sites_combined),
        CsvField::number(cost.transfer_volume_bytes),
        number(row.group),
        CsvField::text(join_parameters(row)),
    ]
}

/// The parameters of a run of a sweep, with blanks in between.
fn join_parameters(row: &AccountRow) -> String {
    let parameters = row.parameters.iter();
    let told: Vec<String> = parameters
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cospan_api::v1::Instant;
    use cospan_api::v1::accounting::AccountingReport;
    use cospan_api::v1::document::PriorityName;
    use cospan_domain::units::Timestamp;

    /// A row in which no two values are the same.
    fn row() -> AccountRow {
        let at = |seconds: u64| Instant(Timestamp(1_700_000_000_000 + 1_000 * seconds));
        AccountRow {
            id: 1,
            name: Some("wave, in \"quotes\"".into()),
            owner: "alice".into(),
            state: "finished".into(),
            priority: PriorityName::High,
            policy: Some("worst-fit".into()),
            components: 2,
            processors: 3,
            submitted_at: at(4),
            placed_at: Some(at(5)),
            started_at: Some(at(6)),
            ended_at: Some(at(7)),
            rounds: 8,
            attempts: 9,
            group: Some(23),
            parameters: [("size".into(), "24".into())].into(),
            accounting: AccountingReport {
                placement_time_ms: Some(10),
                total_placement_time_ms: 11,
                queue_time_ms: Some(12),
                wait_time_ms: Some(13),
                start_overhead_ms: Some(14),
                start_delay_ms: Some(-15),
                gained_time_ms: Some(16),
                gained_processor_ms: 17,
                wasted_processor_ms: 18,
                execution_time_ms: Some(19),
                response_time_ms: Some(20),
                sites_combined: 21,
                transfer_volume_bytes: 22,
            },
        }
    }

    #[test]
    fn each_cell_stands_below_the_name_that_the_structured_report_has_for_it() {
        let written = csv_lines([COLUMNS.map(CsvField::text), account_cells(&row())]).unwrap();
        let mut reader = csv::Reader::from_reader(&written[..]);
        let heads = reader.headers().unwrap().clone();
        let cells = reader.records().next().unwrap().unwrap();
        let structured = serde_json::to_value(row()).unwrap();
        let values = structured.as_object().unwrap().len() - 1;
        let accounted = structured["accounting"].as_object().unwrap().len();
        assert_eq!(heads.len(), values + accounted, "no value is left out");
        for (head, cell) in heads.iter().zip(&cells) {
            let value = structured
                .get(head)
                .unwrap_or(&structured["accounting"][head]);
            let value = match value["size"].as_str() {
                Some(size) => format!("size={size}").into(),
                None => value.clone(),
            };
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(cell, value, "{head}");
        }
    }
}
