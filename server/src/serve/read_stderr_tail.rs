//! The last lines that failed components printed, read at their sites.

use std::time::Duration;

use cospan_actors::api::ControlPlane;
use cospan_domain::ids::{ComponentIndex, KeyName, SiteName};
use cospan_domain::job::job_state::{AttemptEnding, AttemptState, Component, Job};
use cospan_domain::units::Bytes;
use cospan_sites::port::{PayloadStream, ReadableFile, SiteError};

use cospan_api::v1::stderr_tail::{LastWordsReport, TAIL_BYTES, last_lines};

/// Most components of a job that are covered; they mostly fail for the same reason.
const COMPONENTS: usize = 3;
/// Longest time that a request waits for the sites of a failed job.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads the last lines of the components that failed.
pub(super) async fn read_last_words(plane: &ControlPlane, job: &Job) -> Vec<LastWordsReport> {
    let failed = job
        .indexed_components()
        .filter(|(_, component): &(ComponentIndex, &Component)| {
            matches!(
                component.run,
                AttemptState::Ended {
                    how: AttemptEnding::Failed(_),
                    ..
                }
            )
        })
        .take(COMPONENTS);
    let told = failed.filter_map(|(index, component)| {
        let site = &component.placement.as_ref()?.site;
        Some(read_component_last_words(
            plane, job, index, component, site,
        ))
    });
    futures_util::future::join_all(told).await
}

async fn read_component_last_words(
    plane: &ControlPlane,
    job: &Job,
    index: ComponentIndex,
    component: &Component,
    site: &SiteName,
) -> LastWordsReport {
    let name = job.component_name(index).unwrap_or_default();
    let tag = job.tag_of(plane.instance(), index, component.attempt);
    let log = ReadableFile::Log(tag, PayloadStream::Stderr);
    let read = tokio::time::timeout(PATIENCE, read_tail(plane, &job.owner, site, log)).await;
    let (lines, shortened, problem) = match read {
        Ok(Ok((bytes, whole))) => {
            let (lines, shortened) = last_lines(&bytes, whole);
            (lines, shortened, None)
        }
        // Its place in the site's own directories helps nobody.
        Ok(Err(SiteError::Refused(_))) => (Vec::new(), false, Some("it left none".to_owned())),
        Ok(Err(error)) => (Vec::new(), false, Some(error.to_string())),
        Err(_) => {
            let problem = format!("{site} did not answer within {} s", PATIENCE.as_secs());
            (Vec::new(), false, Some(problem))
        }
    };
    // A component without output on standard error may have used the other stream.
    let stream = if lines.is_empty() {
        ""
    } else {
        " --stream stderr"
    };
    LastWordsReport {
        more: format!("cospan logs {} --component {name}{stream}", job.id),
        component: name,
        attempt: component.attempt.0,
        site: site.to_string(),
        lines,
        shortened,
        problem,
    }
}

/// The end of a log, and whether that is all of it.
async fn read_tail(
    plane: &ControlPlane,
    by: &KeyName,
    site: &SiteName,
    log: ReadableFile,
) -> Result<(Vec<u8>, bool), SiteError> {
    let begin = plane
        .read_site_file(by, site, log.clone(), Bytes(0), TAIL_BYTES)
        .await?;
    let offset = begin.size.0.saturating_sub(TAIL_BYTES.into());
    if offset == 0 {
        return Ok((begin.bytes, true));
    }
    let end = plane
        .read_site_file(by, site, log, Bytes(offset), TAIL_BYTES)
        .await?;
    Ok((end.bytes, false))
}
