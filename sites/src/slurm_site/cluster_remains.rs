//! Remains of attempts at a cluster, for its removal.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Bytes;

use super::SlurmSite;
use super::queue::SlurmJob;
use crate::agent::{SiteAgentAnswer, SiteAgentRequest};
use crate::examination::AttemptRemains;
use crate::port::SiteError;

impl SlurmSite {
    /// Lists the remains of attempts of any control plane below the root. Nothing is touched;
    /// [`crate::port::SiteQueue::remove_attempt`] removes those that are not live.
    ///
    /// # Errors
    /// As for [`crate::port::SiteQueue::list_attempts`].
    pub async fn list_remains(&self) -> Result<Vec<AttemptRemains>, SiteError> {
        let answer = self
            .agent
            .send_request(&["remains"], SiteAgentRequest::default())
            .await?;
        let active = self
            .own_jobs(&answer)
            .into_iter()
            .filter(SlurmJob::is_active);
        Ok(sum_remains(&answer, &active.map(|job| job.tag).collect()))
    }
}

/// Adds up lines of `du`: kilobytes, a tab, and a path that ends in a tag.
fn sum_remains(answer: &SiteAgentAnswer, live: &BTreeSet<AttemptTag>) -> Vec<AttemptRemains> {
    let mut taken: BTreeMap<AttemptTag, u64> = BTreeMap::new();
    for line in answer.values_of("takes") {
        let Some((kilobytes, path)) = line.split_once('\t') else {
            continue;
        };
        let tag = path.rsplit('/').next().and_then(|name| name.parse().ok());
        if let (Some(tag), Ok(kilobytes)) = (tag, kilobytes.parse::<u64>()) {
            *taken.entry(tag).or_default() += kilobytes;
        }
    }
    taken
        .into_iter()
        .map(|(tag, kilobytes): (AttemptTag, u64)| AttemptRemains {
            tag,
            bytes: Bytes(kilobytes.saturating_mul(1_024)),
            is_live: live.contains(&tag),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_several_places_is_added_up_and_what_lives_is_told() {
        let one = "cabcdefgh-1-0-1";
        let two = "cabcdefgh-2-0-1";
        let text = format!(
            "takes 8\tattempts/{one}\ntakes 4\tspool/{one}\ntakes 1\tspool/{two}\n\
             takes 9\tattempts/notes\n"
        );
        let found = sum_remains(
            &SiteAgentAnswer(text),
            &BTreeSet::from([two.parse().unwrap()]),
        );
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].bytes, found[0].is_live), (Bytes(12 << 10), false));
        assert!(found[1].is_live);
    }
}
