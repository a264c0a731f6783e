//! The check of the options that a job hands to batch systems, when it is submitted.

use std::collections::BTreeMap;
use std::sync::Arc;

use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::{JobSpec, OverrideScope};
use cospan_sites::port::Site;

/// Checks the options of all components. One is refused if a batch system that may get it refuses
/// it, and none takes it: kinds of batch systems have different options.
///
/// # Errors
/// The component, and the reason why its first such option is refused.
pub(super) fn check_options(
    spec: &JobSpec,
    sites: &BTreeMap<SiteName, Arc<dyn Site>>,
) -> Result<(), String> {
    for component in &spec.components {
        for (place, change) in &component.at {
            for option in &change.lrm_options {
                check_option_at(place, option, sites)
                    .map_err(|why| format!("component {} at {place}: {why}", component.name))?;
            }
        }
    }
    Ok(())
}

fn check_option_at(
    place: &OverrideScope,
    option: &Arc<str>,
    sites: &BTreeMap<SiteName, Arc<dyn Site>>,
) -> Result<(), String> {
    let mut refusal = None;
    for (name, site) in sites {
        let is_meant = match place {
            OverrideScope::Site(meant) => meant == name,
            // Labels are known once a site has answered.
            OverrideScope::Label(..) => true,
        };
        match site.queue().check_option(option).filter(|_| is_meant) {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => refusal = Some(why),
            None => {}
        }
    }
    refusal.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::spec::ProgramOverride;

    use super::*;
    use crate::transfer::testing::{MemoryWorld, content, queued_job, run_paused, site};

    #[test]
    fn option_that_no_batch_system_takes_is_refused_when_its_job_is_submitted() {
        run_paused(async || {
            let world = MemoryWorld::new(&["delft", "leiden", "twente"]);
            let sites = &world.shared.sites;
            let option: Arc<str> = "--wrap=id".into();
            let mut spec = JobSpec::clone(&queued_job(1, content(1)).spec);
            let mut check_at = |place: OverrideScope| {
                let change = ProgramOverride {
                    lrm_options: vec!["--exclusive".into(), option.clone()],
                    ..ProgramOverride::default()
                };
                spec.components[0].at = [(place, change)].into();
                check_options(&spec, sites)
            };
            let anywhere = OverrideScope::Label("kind".into(), "slurm".into());
            assert_eq!(check_at(anywhere.clone()), Ok(()), "none takes options");
            world.fake_site("delft").lock_state().refused_option = Some("--wrap=id");
            let refused = check_at(anywhere.clone()).unwrap_err();
            assert!(refused.ends_with("--wrap=id is not passed on"), "{refused}");
            assert!(check_at(OverrideScope::Site(site("delft"))).is_err());
            assert_eq!(check_at(OverrideScope::Site(site("leiden"))), Ok(()));
            world.fake_site("leiden").lock_state().refused_option = Some("--other");
            assert_eq!(
                check_at(anywhere),
                Ok(()),
                "leiden has another batch system"
            );
            assert!(check_at(OverrideScope::Site(site("delft"))).is_err());
        });
    }
}
