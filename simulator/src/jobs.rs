//! Jobs for simulated sites.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_domain::ids::ComponentName;
use cospan_domain::job::spec::{
    ComponentSpec, ExecutableSource, JobSpec, Priority, Program, RequestType, UnreachableAction,
};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;

use crate::world::attempt::PROGRAM;

/// Builds a job with one component for each entry of `components`, its number of processors. Each
/// component runs for `run_time` and exits with `code`.
///
/// # Errors
/// Never: the names of the components are valid.
pub fn build_job(
    components: &[u32],
    run_time: DurationMs,
    wall_time: DurationMs,
    code: i32,
) -> Result<JobSpec> {
    let components = components
        .iter()
        .enumerate()
        .map(
            |(index, processors): (usize, &u32)| -> Result<ComponentSpec> {
                Ok(ComponentSpec {
                    name: ComponentName::new(&format!("part-{index}"))?,
                    site: None,
                    resources: Resources::processors(*processors),
                    constraints: Vec::new(),
                    program: Program {
                        executable: ExecutableSource::AtSite(PROGRAM.into()),
                        arguments: vec![run_time.0.to_string().into(), code.to_string().into()],
                        environment: BTreeMap::new(),
                        directory: None,
                        setup: Vec::new(),
                    }
                    .into(),
                    inputs: Vec::new(),
                    outputs: Vec::new(),
                    at: BTreeMap::new(),
                    restart: None,
                    start_after: DurationMs::ZERO,
                })
            },
        )
        .collect::<Result<_>>()?;
    Ok(JobSpec {
        name: None,
        request: RequestType::NonFixed,
        components,
        policy: None,
        priority: Priority::Low,
        wall_time: DurationMs(wall_time.0.max(1)),
        rerunnable: true,
        on_unreachable: UnreachableAction::RerunAfter(DurationMs::from_secs(1_800)),
        max_placement_tries: None,
        max_claim_tries: None,
        max_retries: 0,
        run: Default::default(),
    })
}

/// Builds the same job as [`build_job`], ready to be submitted.
///
/// # Errors
/// As for [`build_job`].
pub fn build_shared_job(
    components: &[u32],
    run_time: DurationMs,
    wall_time: DurationMs,
    code: i32,
) -> Result<Arc<JobSpec>> {
    build_job(components, run_time, wall_time, code).map(Arc::new)
}
