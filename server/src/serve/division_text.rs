//! The division of a flexible job that is not submitted, in words.

use cospan_actors::reserver::DivisionPreview;
use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::{JobSpec, RequestType};

use cospan_api::v1::Instant;
use cospan_api::v1::split::SplitReport;

/// Returns true if a job is divided at once over the sites that grant it reservations.
pub(super) fn is_divided(spec: &JobSpec) -> bool {
    let wish = spec.run.reservation.as_ref();
    matches!(spec.request, RequestType::Flexible(_))
        && wish.is_some_and(|wish| wish.reserve_after.is_none())
}

/// Describes the division that sites would grant now.
pub(super) fn describe_division(
    spec: &JobSpec,
    division: &Result<DivisionPreview, String>,
) -> String {
    let DivisionPreview {
        shape,
        start,
        is_accepted,
        parts,
    } = match division {
        Ok(division) => division,
        Err(reason) => return format!("no site would reserve a start for it now: {reason}"),
    };
    let processors = parts.iter().map(|(_, count)| count).sum();
    let split = SplitReport::of_shape(spec, *shape, processors, parts.len());
    let parts = parts
        .iter()
        .map(|(site, count): &(SiteName, u32)| format!("{count} at {site}"))
        .collect::<Vec<_>>()
        .join(", ");
    let start = Instant(*start);
    if *is_accepted {
        format!("sites would reserve a start for it at {start}: {split}: {parts}")
    } else {
        format!(
            "no site would reserve a start for it within its window; the earliest would be \
             {start}: {split}: {parts}"
        )
    }
}
