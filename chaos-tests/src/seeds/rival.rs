//! Another control plane at the same sites.

use anyhow::{Context, Result};
use cospan_domain::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, JobId};
use cospan_domain::units::DurationMs;
use cospan_sites::port::AttemptSubmitRequest;

use cospan_simulator::jobs::build_job;
use cospan_simulator::world::SimulatedWorld;

/// Run time of the other's jobs; so long its job has a number that was ours.
const RIVAL_RUN_TIME: DurationMs = DurationMs(15 * 60_000);

/// Plants another control plane that uses the same sites under the same account; its jobs have the
/// numbers that ours will have.
pub(super) fn plant_others(world: &mut SimulatedWorld, instance: InstanceId) -> Result<()> {
    let other = InstanceId::from_random(u64::MAX);
    anyhow::ensure!(other != instance, "the other control plane must be another");
    let spec = build_job(
        &[1],
        DurationMs::from_secs(7 * 86_400),
        DurationMs::from_secs(8 * 86_400),
        0,
    )?;
    for site in 0..world.sites().len() {
        let name = world.sites()[site].name().clone();
        let index = world.index_of(&name).context("a site of the world")?;
        for number in 1..=3 {
            let component = ComponentIndex(0);
            let tag = AttemptTag {
                instance: other,
                job: JobId(number),
                component,
                attempt: Attempt(1),
            };
            let program = spec.components[0].program.unpack();
            let hold_max = DurationMs::from_secs(30 * 86_400);
            let order = AttemptSubmitRequest {
                hold_max,
                ..AttemptSubmitRequest::with_one_processor(tag, program, spec.wall_time)
            };
            world.submit(index, &order)?;
            if number == 3 {
                world.set_rival(rival_submission(order)?);
            }
        }
    }
    Ok(())
}

/// Returns the submission of the other control plane where numbers are handed out again.
fn rival_submission(order: AttemptSubmitRequest) -> Result<AttemptSubmitRequest> {
    let spec = build_job(&[1], RIVAL_RUN_TIME, RIVAL_RUN_TIME + RIVAL_RUN_TIME, 0)?;
    let tag = AttemptTag {
        job: JobId(1_000),
        ..order.tag
    };
    let program = spec.components[0].program.unpack();
    // Nobody opens its gate: it uses its processors of the site for that long.
    let hold_max = RIVAL_RUN_TIME;
    Ok(AttemptSubmitRequest {
        tag,
        program,
        wall_time: spec.wall_time,
        hold_max,
        ..order
    })
}
