//! Checks that the payloads of a round begin together, by what their sites say.
//!
//! Only a site's own clock says when something began there: ours may have been set, or the server
//! was down, frozen or stalled between two gates. So each component has a last moment by its site's
//! clock, fixed when the start was decided ([`Component::start_by`]).

use crate::ids::ComponentIndex;
use crate::job::decide::decision_draft::DecisionDraft;
use crate::job::job_state::Component;
use crate::units::{ClockSkew, DurationMs};

/// Returns how long ago the last moment for the common start was at a site where a component still
/// waits at its gate; zero if it is to come everywhere.
pub(super) fn common_start_overrun(draft: &DecisionDraft<'_>) -> DurationMs {
    let past = draft
        .job
        .components
        .iter()
        .map(|component| component.time_waited_past_start(draft.now));
    past.max().unwrap_or_default()
}

/// Returns the component whose payload began last, if that was later than the grace after the
/// first.
pub(super) fn find_late_component(draft: &DecisionDraft<'_>) -> Option<ComponentIndex> {
    let (first, _) = draft
        .job
        .indexed_components()
        .filter_map(start_skew)
        .min()?;
    let (last, component) = draft
        .job
        .indexed_components()
        .filter_map(start_skew)
        .max()?;
    (last.0.abs_diff(first.0) > draft.parameters.go_grace.0).then_some(component)
}

/// The distance between the last moment of a component and its begin, if it began.
fn start_skew(
    (index, component): (ComponentIndex, &Component),
) -> Option<(ClockSkew, ComponentIndex)> {
    let at = component.began.as_ref()?.at?;
    Some((ClockSkew::between(at, component.start_by?), index))
}
