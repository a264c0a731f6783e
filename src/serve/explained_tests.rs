//! What a job is told of the files that it waits for.

use cospan_domain::job::spec::Output;
use cospan_domain::job::state::{Collected, Source};

use super::*;
use crate::serve::verdicts::tests::placed_at;

const NOW: Timestamp = Timestamp(1);
const CONTENT: Content = Content { digest: Digest([7; 32]), size: Bytes(30) };

fn full(_: Digest, _: &SiteName) -> CopyProgress {
    CopyProgress { problem: Some("no space left".into()), ..CopyProgress::default() }
}

/// From, to, and what went wrong.
fn told(job: &Job) -> Vec<(String, String, Option<String>)> {
    let told = |report: TransferReport| (report.from, report.site, report.problem);
    transfers(job, full).into_iter().map(told).collect()
}

#[test]
fn who_waits_for_input_is_told_what_keeps_it_from_arriving() {
    for phase in [Phase::Placed { at: NOW, start_estimate: NOW }, Phase::Claiming { since: NOW }] {
        let mut job = placed_at("leiden", phase);
        let from = "delft".parse().unwrap();
        let source = Source { content: CONTENT, from, chunk: None };
        job.components[0].placement.as_mut().unwrap().sources.push(source);
        let expected = ("delft".into(), "leiden".into(), Some("no space left".into()));
        assert_eq!(told(&job), [expected]);
        job.inputs_here = true;
        assert_eq!(told(&job), []);
    }
}

#[test]
fn who_waits_for_outputs_is_told_where_each_goes_and_what_keeps_it_from_arriving() {
    let mut job = placed_at("leiden", Phase::Collecting { since: NOW });
    let collect =
        Collect::ToSite { site: "delft".parse().unwrap(), register: "results".parse().unwrap() };
    let spec = Arc::make_mut(&mut job.spec);
    spec.components[0].outputs = vec![
        Output { path: "out".parse().unwrap(), collect },
        Output { path: "log".parse().unwrap(), collect: Collect::Fetch },
    ];
    job.components[0].collected = vec![
        Collected { content: Some(CONTENT), done: false },
        Collected { content: Some(CONTENT), done: false },
    ];
    let expected = ("leiden".into(), "delft".into(), Some("no space left".into()));
    assert_eq!(told(&job), [expected]);
    job.components[0].collected[0].done = true;
    assert_eq!(told(&job), []);
}
