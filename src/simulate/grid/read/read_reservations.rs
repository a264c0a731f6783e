//! `[reservations]`: the jobs that want reservations.

use cospan_domain::acquisition::Objective;
use cospan_domain::units::DurationMs;

use super::super::DescribedSite;
use super::super::grid_table::{GridTable, share, word, yes_or_no};
use super::read_links::length;
use crate::api::v1::preferences::ObjectiveName;
use crate::simulate::reserving_jobs::ReservationWorkload;

/// Reads the table, if it is there. `None`: it is wrong.
pub(super) fn reservations(
    root: &GridTable<'_, '_>,
    sites: &[Option<DescribedSite>],
) -> Option<Option<ReservationWorkload>> {
    if !root.has("reservations") {
        return Some(None);
    }
    let table = root.table("reservations", "[reservations]".into())?;
    table.only(&[
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
        table.wrong(
            table.at(),
            message.to_owned(),
            "add reserves = true to a [[site]]",
        );
    }
    let wanted = table.or("share", 1.0, |value| share(value, 1.0));
    let ahead = table.or("ahead", DurationMs::ZERO, length);
    let within = table.or("within", DurationMs::ZERO, length);
    let flexible = table.or("flexible", false, yes_or_no);
    let reserve_after = table.or("reserve_after", None, |value| length(value).map(Some));
    let objectives = [Objective::EarliestStart, Objective::EarliestCompletion]
        .map(|objective| (ObjectiveName::from(objective).as_str(), Some(objective)));
    let objective = table.or("objective", None, |value| word(value, &objectives))?;
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
