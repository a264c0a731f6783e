//! `cospan report`

use std::io;

use crate::api::v1::accounting::{AccountPage, AccountRow};
use crate::cli::args::Format;
use crate::cli::args_job::ReportArgs;
use crate::cli::context::{Context, PAGE};
use crate::cli::exit::{CliError, Exit};

/// Heads of the columns, in their order.
pub(crate) const COLUMNS: [&str; 27] = [
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
];

/// Writes what jobs cost, page after page, so that any number of them can be written.
pub(crate) fn run(context: &mut Context, args: &ReportArgs) -> Result<Exit, CliError> {
    let client = context.client()?;
    let mut filter = args.only.filter(args.after, PAGE);
    let structured = context.out.format() != Format::Table;
    let mut whole = AccountPage::default();
    let mut page = client.accounts(&filter)?;
    if !structured {
        context.out.bytes(&lines(&[COLUMNS.map(str::to_owned)])?)?;
    }
    loop {
        match structured {
            true => whole.jobs.extend(page.jobs),
            false => {
                let rows: Vec<_> = page.jobs.iter().map(cells).collect();
                context.out.bytes(&lines(&rows)?)?;
            }
        }
        let Some(next) = page.next else { break };
        filter.after = Some(next);
        page = client.accounts(&filter)?;
    }
    if structured {
        context.out.answer(&whole, |_| String::new())?;
    }
    Ok(Exit::Done)
}

fn lines(rows: &[[String; COLUMNS.len()]]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

fn cells(row: &AccountRow) -> [String; COLUMNS.len()] {
    fn or_empty(value: Option<impl ToString>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let cost = &row.accounting;
    [
        row.id.to_string(),
        or_empty(row.name.as_ref()),
        row.owner.clone(),
        row.state.clone(),
        row.priority.to_string(),
        or_empty(row.policy.as_ref()),
        row.components.to_string(),
        row.processors.to_string(),
        row.submitted_at.to_string(),
        or_empty(row.placed_at),
        or_empty(row.started_at),
        or_empty(row.ended_at),
        row.rounds.to_string(),
        row.attempts.to_string(),
        or_empty(cost.placement_time_ms),
        cost.total_placement_time_ms.to_string(),
        or_empty(cost.queue_time_ms),
        or_empty(cost.wait_time_ms),
        or_empty(cost.start_overhead_ms),
        or_empty(cost.start_delay_ms),
        or_empty(cost.gained_time_ms),
        cost.gained_processor_ms.to_string(),
        cost.wasted_processor_ms.to_string(),
        or_empty(cost.execution_time_ms),
        or_empty(cost.response_time_ms),
        cost.sites_combined.to_string(),
        cost.transfer_volume_bytes.to_string(),
    ]
}
