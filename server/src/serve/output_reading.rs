//! Outputs of a job that sites read to find out their content, in words.

use cospan_actors::api::ControlPlane;
use cospan_actors::site::InspectionState;
use cospan_domain::ids::SiteName;
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::job::spec::OutputDestination;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::InspectionProgress;

/// Of many outputs only this many are named.
const MOST_NAMED: usize = 3;

/// An output that a site reads, or is going to read.
struct OutputReading {
    /// The output and its component.
    what: String,
    site: SiteName,
    state: InspectionState,
    so_far: Option<InspectionProgress>,
}

impl OutputReading {
    fn describe(&self) -> String {
        let Self { what, site, .. } = self;
        if self.state == InspectionState::AwaitsTurn {
            return format!("{what} waits for its owner's turn to be read at {site}");
        }
        let so_far = match self.so_far {
            Some(InspectionProgress { done, of: Some(of) }) => format!(", {done} of {of} so far"),
            Some(InspectionProgress { done, of: None }) => format!(", {done} so far"),
            None => String::new(),
        };
        format!("{what} is being read at {site}{so_far}")
    }
}

/// Tells of the outputs of a job that are read, or wait for that; `None` if there are none.
pub(super) fn describe_readings(plane: &ControlPlane, job: &Job) -> Option<String> {
    if !matches!(job.phase, JobPhase::Collecting { .. }) {
        return None;
    }
    list_readings(&output_readings(plane, job))
}

fn output_readings(plane: &ControlPlane, job: &Job) -> Vec<OutputReading> {
    let mut readings = Vec::new();
    for (index, component) in job.indexed_components() {
        let (Some(placement), Some(spec)) = (&component.placement, job.component_spec(index))
        else {
            continue;
        };
        let tag = job.tag_of(plane.instance(), index, component.attempt);
        for (collected, output) in component.collected.iter().zip(&spec.outputs) {
            // First it is read where it was made, and then where it was brought.
            let (site, place) = match (collected.content, &output.collect) {
                (None, _) => (&placement.site, FilePlace::Output(tag, output.path.clone())),
                (Some(content), OutputDestination::ToSite { site, .. }) => {
                    (site, FilePlace::Store(content.digest))
                }
                (Some(_), OutputDestination::Fetch) => continue,
            };
            let Some((state, so_far)) = plane.inspection_state(site, &place) else {
                continue;
            };
            let name = job.component_name(index).unwrap_or_default();
            readings.push(OutputReading {
                what: format!("output {} of component {name}", output.path),
                site: site.clone(),
                state,
                so_far,
            });
        }
    }
    readings
}

fn list_readings(readings: &[OutputReading]) -> Option<String> {
    let mut told: Vec<String> = readings
        .iter()
        .take(MOST_NAMED)
        .map(OutputReading::describe)
        .collect();
    if readings.len() > MOST_NAMED {
        told.push(format!("and so are {} more", readings.len() - MOST_NAMED));
    }
    Some(told.join("; ")).filter(|told| !told.is_empty())
}

#[cfg(test)]
mod tests {
    use cospan_domain::units::Bytes;

    use super::*;

    fn reading(state: InspectionState, so_far: Option<InspectionProgress>) -> OutputReading {
        OutputReading {
            what: "output t of component one".into(),
            site: "delft".parse().unwrap(),
            state,
            so_far,
        }
    }

    #[test]
    fn an_output_is_told_to_wait_for_its_turn_or_how_far_it_is_read() {
        let done = Bytes(1_500_000);
        let of = Some(Bytes(3_000_000_000));
        let begun = |so_far| reading(InspectionState::Begun, so_far).describe();
        assert_eq!(
            begun(Some(InspectionProgress { done, of })),
            "output t of component one is being read at delft, 1.5 MB of 3.0 GB so far"
        );
        assert_eq!(
            begun(Some(InspectionProgress { done, of: None })),
            "output t of component one is being read at delft, 1.5 MB so far"
        );
        assert_eq!(
            begun(None),
            "output t of component one is being read at delft"
        );
        let waits: Vec<_> = (0..5)
            .map(|_| reading(InspectionState::AwaitsTurn, None))
            .collect();
        let told = list_readings(&waits).unwrap();
        assert!(
            told.starts_with(
                "output t of component one waits for its owner's turn to be read at delft; "
            ) && told.ends_with("; and so are 2 more"),
            "{told}"
        );
        assert_eq!(list_readings(&[]), None);
    }
}
