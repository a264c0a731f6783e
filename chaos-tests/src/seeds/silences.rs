//! Judges what is said of jobs of which something may run at sites that cannot be heard: each
//! such component and its site, by name, and nothing else.

use cospan_domain::ids::SiteName;
use cospan_domain::job::spec::Request;
use cospan_domain::job::state::{Job, Run};
use cospan_domain::site::contact::Contact;

use cospan_simulator::reign::Reign;

/// What is wrong with what is said of the first job that cannot be heard of.
pub(super) fn misjudged(reign: &Reign) -> Option<String> {
    let sites = reign.plane.sites();
    let is_silent = |site: &SiteName| {
        let contact = sites.iter().find(|known| known.name == *site).map(|k| k.report.contact);
        matches!(
            contact,
            None | Some(Contact::Unreachable { .. } | Contact::CredentialsExpired { .. })
        )
    };
    let of = |job: &Job| -> Vec<(String, SiteName)> {
        let components = job.components.iter().enumerate();
        let living = components.filter(|(_, c)| !matches!(c.run, Run::Idle | Run::Ended { .. }));
        let placed = living.filter_map(|(at, c)| Some((at, c.placement.as_ref()?.site.clone())));
        let silent = placed.filter(|(_, site)| is_silent(site));
        silent.map(|(at, site)| (name(job, at), site)).collect()
    };
    let view = reign.plane.view();
    let (job, ought) = view.jobs.values().find_map(|job| {
        let silent = of(job);
        (!silent.is_empty()).then_some((job, silent))
    })?;
    let explanation = reign.plane.explain(job);
    let said = explanation.silence.attempts.iter();
    let said: Vec<_> = said.map(|one| (one.component.clone(), one.site.clone())).collect();
    let text = explanation.silence.told(job).unwrap_or_default();
    let names = |(component, site): &(String, SiteName)| {
        text.contains(&format!("component {component} may still run at {site}"))
    };
    let cut_off = explanation.silence.isolated == reign.plane.isolated();
    let right = said == ought && cut_off && ought.iter().all(names);
    (!right).then(|| {
        format!(
            "an explanation is not so: job {} is silent as {said:?}, {text:?}, not {ought:?}",
            job.id
        )
    })
}

/// A component's name: those of a flexible request are numbered from 1, if there are several.
fn name(job: &Job, at: usize) -> String {
    let specs = &job.spec.components;
    match job.spec.request {
        Request::Flexible(_) if job.components.len() > 1 => format!("{}-{}", specs[0].name, at + 1),
        Request::Flexible(_) => specs[0].name.to_string(),
        Request::Fixed | Request::NonFixed => specs[at].name.to_string(),
    }
}
