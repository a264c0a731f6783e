//! The places from which content can be copied now.

use std::collections::BTreeSet;

use cospan_domain::content::{Content, FileChunk};
use cospan_domain::ids::{InstanceId, SiteName};
use cospan_domain::job::job_state::Job;
use cospan_domain::job::spec::OutputDestination;
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::transfer::link_bandwidth::{ChosenSource, LinkBandwidths, choose_source};

use super::CopyKey;
use super::copy_users::{copies_of_content, files_with_content};
use crate::committed::CommittedView;

/// A file at a site.
pub(super) type SourceReplica = (SiteName, FilePlace);

/// The standing of a site as a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceReadiness {
    /// The site's files can be read.
    Yes,
    /// Not now: it does not answer, or is in maintenance.
    No,
    /// It has not answered since our start.
    Unknown,
}

/// The result of looking for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SourceChoice {
    /// This source.
    Source(ChosenSource),
    /// Soon known: a site that has the content is yet to answer for the first time.
    NotYet,
    /// No source.
    Nothing {
        /// Waiting does not help.
        hopeless: bool,
        /// The reason, for people.
        detail: String,
    },
}

/// Lists all that is known to have the content: files of the catalogue, whole copies at other
/// sites, and outputs of jobs that are to be collected there. A chunk is cut from a file of the
/// catalogue, or from a whole copy of it at any site.
pub(super) fn known_replicas(
    view: &CommittedView,
    key: &CopyKey,
    chunk: Option<FileChunk>,
    instance: InstanceId,
) -> BTreeSet<SourceReplica> {
    let (digest, site) = key;
    let file = chunk.map_or(*digest, |chunk| chunk.of.digest);
    let named = files_with_content(view, file)
        .flat_map(|file| file.entry.iter().flat_map(|entry| entry.replicas.clone()))
        // A replica of the catalogue in a store is a copy, and counts while it is whole.
        .filter(|(_, place)| match place {
            FilePlace::Store(_) => false,
            FilePlace::User(_) | FilePlace::Output(..) => true,
        });
    let copies = copies_of_content(view, file)
        .filter(|copy| copy.is_ready() && (chunk.is_some() || copy.site != *site))
        .map(|copy| (copy.site.clone(), FilePlace::Store(file)));
    let jobs = view
        .needs
        .get(key)
        .into_iter()
        .flatten()
        .filter_map(|id| view.jobs.get(id));
    let outputs = jobs.flat_map(|job| outputs_to_collect(job, key, instance));
    named.chain(copies).chain(outputs).collect()
}

/// Lists the outputs of a job that are to be brought to this site and have this content.
fn outputs_to_collect(
    job: &Job,
    (digest, to): &CopyKey,
    instance: InstanceId,
) -> Vec<SourceReplica> {
    let found = job
        .components_with_specs()
        .flat_map(|(index, component, spec)| {
            let tag = job.latest_tag(instance, index);
            let from = component
                .placement
                .as_ref()
                .map(|placement| placement.site.clone());
            component
                .collected
                .iter()
                .zip(&spec.outputs)
                .filter_map(move |(state, output)| {
                    let OutputDestination::ToSite { site, .. } = &output.collect else {
                        return None;
                    };
                    let wanted = site == to && state.content.is_some_and(|c| c.digest == *digest);
                    wanted.then(|| {
                        Some((from.clone()?, FilePlace::Output(tag, output.path.clone())))
                    })?
                })
        });
    found.collect()
}

/// Chooses among `replicas` for a copy to `to`.
pub(super) fn choose_replica(
    replicas: &BTreeSet<SourceReplica>,
    to: &SiteName,
    content: Content,
    links: &LinkBandwidths,
    excluded: &BTreeSet<SiteName>,
    serving: impl Fn(&SiteName) -> SourceReadiness,
) -> SourceChoice {
    let able: Vec<SourceReplica> = replicas
        .iter()
        .filter(|replica: &&SourceReplica| serving(&replica.0) == SourceReadiness::Yes)
        .map(|(site, place): &'_ SourceReplica| (site.clone(), place.clone()))
        .collect();
    let able = able.iter().map(|(site, place)| (site, place));
    if let Some(chosen) = choose_source(able, to, content.size, links, excluded) {
        return SourceChoice::Source(chosen);
    }
    let left = replicas.iter().filter(|replica: &&SourceReplica| {
        !excluded.contains(&replica.0)
            && links.transfer_time(&replica.0, to, content.size).is_some()
    });
    let left: Vec<SourceReadiness> = left.map(|replica| serving(&replica.0)).collect();
    if left.contains(&SourceReadiness::Unknown) {
        return SourceChoice::NotYet;
    }
    let silent = left.contains(&SourceReadiness::No);
    SourceChoice::Nothing {
        hopeless: !silent,
        detail: no_source_text(replicas, to, excluded, silent),
    }
}

fn no_source_text(
    replicas: &BTreeSet<SourceReplica>,
    to: &SiteName,
    excluded: &BTreeSet<SiteName>,
    silent: bool,
) -> String {
    let sites = replicas.iter().map(|(site, _)| site);
    let failed = join_names(sites.clone().filter(|site| excluded.contains(*site)));
    let others = join_names(sites.filter(|site| !excluded.contains(*site)));
    match (failed.is_empty(), others.is_empty()) {
        (true, true) => "no site is known to have it; register a replica of it".into(),
        (false, true) => format!("every site that has it failed as a source: {failed}"),
        (_, false) if silent => format!("the sites that have it do not answer now: {others}"),
        (_, false) => format!(
            "no link with bandwidth to {to} from the sites that have it: {others}; configure one"
        ),
    }
}

/// The names of these sites, each once.
fn join_names<'a>(sites: impl Iterator<Item = &'a SiteName>) -> String {
    let names: BTreeSet<&str> = sites.map(SiteName::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::{Digest, RelPath};
    use cospan_domain::units::{BitsPerSecond, Bytes};

    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).expect("a name")
    }

    fn replica(at: &str) -> SourceReplica {
        (
            site(at),
            FilePlace::User(RelPath::new("data").expect("a path")),
        )
    }

    /// Chooses for a copy to C, of replicas at A and B, where the link from B is faster.
    fn choice(excluded: &[&str], serving: impl Fn(&str) -> SourceReadiness) -> SourceChoice {
        let content = Content {
            digest: Digest([1; 32]),
            size: Bytes(1_000),
        };
        let link = |from: &str, rate| (site(from), site("C"), BitsPerSecond(rate));
        let links = [link("A", 8_000), link("B", 16_000)].into_iter().collect();
        let excluded = excluded.iter().map(|name| site(name)).collect();
        let replicas = [replica("A"), replica("B"), replica("Unlinked")].into();
        choose_replica(&replicas, &site("C"), content, &links, &excluded, |at| {
            serving(at.as_str())
        })
    }

    fn source(choice: SourceChoice) -> String {
        match choice {
            SourceChoice::Source(chosen) => chosen.source.site.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_fastest_site_that_serves_files_is_chosen() {
        assert_eq!(source(choice(&[], |_| SourceReadiness::Yes)), "B");
        assert_eq!(
            source(choice(&[], |at: &str| if at == "B" {
                SourceReadiness::No
            } else {
                SourceReadiness::Yes
            })),
            "A"
        );
        assert_eq!(source(choice(&["B"], |_| SourceReadiness::Yes)), "A");
    }

    #[test]
    fn a_silent_site_leaves_hope_and_a_failed_one_does_not() {
        let hopeless = |choice| match choice {
            SourceChoice::Nothing { hopeless, .. } => hopeless,
            other => panic!("{other:?}"),
        };
        assert!(!hopeless(choice(&["B"], |_| SourceReadiness::No)));
        assert!(hopeless(choice(&["A", "B"], |_| SourceReadiness::Yes)));
        // One that has no link to here is no hope, whether it answers or not.
        assert!(hopeless(choice(&["A", "B"], |_| SourceReadiness::No)));
    }

    #[test]
    fn nothing_is_said_while_a_site_is_yet_to_answer_for_the_first_time() {
        assert_eq!(
            choice(&["B"], |_| SourceReadiness::Unknown),
            SourceChoice::NotYet
        );
    }

    #[test]
    fn what_is_missing_is_told_in_words() {
        let told = |choice| match choice {
            SourceChoice::Nothing { detail, .. } => detail,
            other => panic!("{other:?}"),
        };
        let text = told(choice(&["A", "B"], |_| SourceReadiness::Yes));
        assert!(
            text.contains("no link") && text.contains("Unlinked"),
            "{text}"
        );
        let text = told(choice(&["B"], |_| SourceReadiness::No));
        assert!(text.contains("do not answer now: A"), "{text}");
    }
}
