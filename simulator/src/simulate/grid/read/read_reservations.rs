//! `[reservations]`: the jobs that want reservations.

use cospan_domain::acquisition::RankingObjective;
use cospan_domain::units::DurationMs;

use super::super::DescribedSite;
use super::super::grid_table::{GridTable, read_bool, read_share, read_word};
use super::read_links::read_length;
use crate::simulate::reserving_jobs::ReservationWorkload;
use cospan_api::v1::preferences::ObjectiveName;

/// Reads the table, if it is there. `None`: it is wrong.
pub(super) fn read_reservations(
    root: &GridTable<'_, '_>,
    sites: &[Option<DescribedSite>],
) -> Option<Option<ReservationWorkload>> {
    if !root.has_key("reservations") {
        return Some(None);
    }
    let table = root.sub_table("reservations", "[reservations]".into())?;
    table.allow_only(&[
        "share",
        "ahead",
        "within",
        "flexible",
        "reserve_after",
        "objective",
    ]);
    if !sites
        .iter()
        .any(|site: &Option<DescribedSite>| site.as_ref().is_none_or(|site| site.reserves))
    {
        let message = "[reservations] is given, but no site grants any";
        table.add_problem(
            table.table_span(),
            message.to_owned(),
            "add reserves = true to a [[site]]",
        );
    }
    let wanted = table.value_or("share", 1.0, |value| read_share(value, 1.0));
    let ahead = table.value_or("ahead", DurationMs::ZERO, read_length);
    let within = table.value_or("within", DurationMs::ZERO, read_length);
    let flexible = table.value_or("flexible", false, read_bool);
    let reserve_after = table.value_or("reserve_after", None, |value| read_length(value).map(Some));
    let objectives = [
        RankingObjective::EarliestStart,
        RankingObjective::EarliestCompletion,
    ]
    .map(|objective| (ObjectiveName::from(objective).as_str(), Some(objective)));
    let objective = table.value_or("objective", None, |value| read_word(value, &objectives))?;
    let share = wanted?;
    let ahead = ahead?;
    let within = within?;
    let flexible = flexible?;
    let reserve_after = reserve_after?;
    Some(Some(ReservationWorkload {
        share,
        ahead,
        within,
        flexible,
        reserve_after,
        objective,
    }))
}
