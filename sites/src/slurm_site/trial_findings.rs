//! Interprets what a job of a trial saw on its node.

use super::cluster_check::ClusterProbeFacts;
use super::findings::{
    DIRECTORY, advice_for, bad_finding, describe_missing_tmpdir, good_finding, odd_finding,
};
use crate::agent::SiteAgentAnswer;
use crate::examination::{FindingVerdict, SiteFinding};
use crate::port::SiteError;

/// Judges whether a job saw the root on its node.
fn judge_trial(answer: &SiteAgentAnswer, facts: &ClusterProbeFacts) -> SiteFinding {
    const WHAT: &str = "nodes";
    if let Some(node) = answer.last_value("seen_by") {
        return good_finding(WHAT, format!("{node} has {}", facts.root));
    }
    let state = answer.last_value("unseen").unwrap_or_default();
    if ["PENDING", "CONFIGURING", "RUNNING"]
        .iter()
        .any(|word| state.starts_with(word))
    {
        let found = format!("not tried: the job did not run within 20 s: {state}");
        return odd_finding(WHAT, found, "check again when a node is free");
    }
    let what = "give root = a directory that all nodes share with the login node under the same \
                name, usually below the home or project directory";
    bad_finding(
        WHAT,
        format!("a job did not find {} on its node: {state}", facts.root),
        what,
    )
}

/// Judges what a job saw on its node besides the root.
fn judge_node(answer: &SiteAgentAnswer, facts: &ClusterProbeFacts) -> Vec<SiteFinding> {
    let mut findings = Vec::new();
    if answer.values_of("noexec").next().is_some() {
        findings.push(bad_finding(
            "programs",
            format!("none below {} can be run on its node", facts.root),
            "scripts and programs of jobs lie there: give root = a directory of a file system that is \
             not mounted noexec on the nodes",
        ));
    }
    let missing = answer.last_value("node_tmpdir");
    findings.extend(missing.map(|told| describe_missing_tmpdir(&format!("{told} on its node"))));
    findings
}

/// Adds whether a job saw the root, if one could be submitted. A node that has the root is better
/// evidence than the kind of its file system.
pub(super) fn add_trial_finding(
    findings: &mut Vec<SiteFinding>,
    tried: Result<SiteAgentAnswer, SiteError>,
    facts: &ClusterProbeFacts,
) {
    let mut others = Vec::new();
    let nodes = match tried {
        Ok(answer) => {
            others = judge_node(&answer, facts);
            judge_trial(&answer, facts)
        }
        Err(error) => bad_finding("nodes", error.to_string(), advice_for(&error.to_string())),
    };
    if nodes.verdict == FindingVerdict::Good {
        for directory in findings
            .iter_mut()
            .filter(|finding| finding.what == DIRECTORY)
        {
            *directory = good_finding(DIRECTORY, std::mem::take(&mut directory.found));
        }
    }
    findings.push(nodes);
    findings.append(&mut others);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding_about<'a>(all: &'a [SiteFinding], what: &str) -> &'a SiteFinding {
        all.iter().find(|finding| finding.what == what).unwrap()
    }

    #[test]
    fn a_job_that_ran_and_saw_nothing_is_bad_and_one_that_waits_is_not() {
        let facts = ClusterProbeFacts::default();
        let of = |text: &str| judge_trial(&SiteAgentAnswer(text.to_owned()), &facts).verdict;
        assert_eq!(of("seen_by n1"), FindingVerdict::Good);
        assert_eq!(of("unseen PENDING (Resources)"), FindingVerdict::Odd);
        assert_eq!(of("unseen COMPLETED (None)"), FindingVerdict::Bad);
        assert_eq!(of("unseen "), FindingVerdict::Bad);
    }

    #[test]
    fn what_a_job_saw_on_its_node_is_told() {
        let facts = ClusterProbeFacts {
            root: "/scratch/me/cospan".to_owned(),
            ..ClusterProbeFacts::default()
        };
        let of = |text: &str| {
            let mut findings = Vec::new();
            let answer = Ok(SiteAgentAnswer(text.to_owned()));
            add_trial_finding(&mut findings, answer, &facts);
            findings
        };
        assert_eq!(of("seen_by n1").len(), 1);
        let found = of("seen_by n1\nnoexec yes\nnode_tmpdir /local/7");
        let programs = finding_about(&found, "programs");
        assert_eq!(programs.verdict, FindingVerdict::Bad);
        assert!(programs.found.contains("/scratch/me/cospan"));
        let temporary = finding_about(&found, "temporary");
        assert_eq!(temporary.verdict, FindingVerdict::Odd);
        assert!(temporary.found.contains("/local/7 on its node"));
    }
}
