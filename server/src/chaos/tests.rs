use std::path::Path;

use cospan_domain::units::DurationMs;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_sites::port::SiteCallKind;

use super::{PlanBounds, fault_plan, injectable_faults};
use cospan_api::v1::Length;
use cospan_api::v1::chaos::ChaosPlan;

const MINUTE: DurationMs = DurationMs::from_secs(60);

fn plan_bounds() -> PlanBounds {
    let sites = ["delft", "leiden", "utrecht"].map(String::from).to_vec();
    PlanBounds {
        sites,
        max_duration: DurationMs(10 * MINUTE.0),
        max_sites: 1,
    }
}

fn parse_plan_text(text: &str) -> Result<ChaosPlan, String> {
    fault_plan::parse_plan(Path::new("plan.toml"), text, None, &plan_bounds())
        .map_err(|e| e.to_string())
}

const GOOD: &str = "for = \"5m\"\n[[inject]]\nsites = [\"delft\"]\nfault = \"reply-lost\"\n";

#[test]
fn a_plan_needs_sites_a_fault_and_a_length_only() {
    let plan = parse_plan_text(GOOD).unwrap();
    assert_eq!(
        (plan.lasting, plan.seed),
        (Length(DurationMs(5 * MINUTE.0)), None)
    );
    let one = &plan.inject[0];
    assert_eq!(
        (one.probability, one.calls.len(), one.after),
        (1.0, 0, None)
    );
    let longer =
        fault_plan::parse_plan(Path::new("plan.toml"), GOOD, Some(MINUTE), &plan_bounds()).unwrap();
    assert_eq!(
        longer.lasting,
        Length(MINUTE),
        "what is asked for on the spot wins"
    );
}

/// Each line of a bad plan, and what must be told of it.
#[test]
fn every_slip_in_a_plan_is_told_with_its_line_and_a_remedy() {
    let cases = [
        (
            "fault = \"reply-lots\"",
            "4: fault of [[inject]] number 1: there is no fault",
            "did you mean \"reply-lost\"?",
        ),
        (
            "fault = \"x\"",
            "there is no fault \"x\"",
            "there are: request-lost",
        ),
        (
            "fault = 7",
            "4: fault in [[inject]] number 1: the number 7",
            "give a text",
        ),
        (
            "sites = [\"delf\"]",
            "3: sites of [[inject]] number 1: there is no site \"delf\"",
            "did you mean \"delft\"?",
        ),
        (
            "sites = []",
            "none is named",
            "there are: delft, leiden, utrecht",
        ),
        (
            "sites = [\"delft\", \"leiden\"]",
            "2: the plan injects faults into 2 of 3 sites; at most 1",
            "max_sites_percent",
        ),
        (
            "for = \"1h\"",
            "1: 1h is longer than a rehearsal may take here, which is 10m",
            "max_duration",
        ),
        ("for = \"5\"", "1: for in the plan", "give a duration"),
        (
            "for = \"0s\"",
            "1: the rehearsal has no duration",
            "--for 10m",
        ),
        (
            "probability = 0",
            "5: probability of [[inject]] number 1: 0 is not a share",
            "above 0",
        ),
        ("probability = 1.5", "1.5 is not a share", "at most 1"),
        ("probability = nan", "NaN is not a share", "at most 1"),
        (
            "probability = \"half\"",
            "the text \"half\" where a number",
            "above 0",
        ),
        (
            "calls = [\"submitt\"]",
            "there is no kind of call \"submitt\"",
            "did you mean \"submit\"?",
        ),
        (
            "after = \"6m\"",
            "it would begin 6m after the rehearsal, which takes 5m",
            "begin earlier",
        ),
        ("lasting = \"0s\"", "it has no duration", "2m"),
        ("delay = \"5s\"", "reply-lost has none", "leave it out"),
        (
            "sit = \"delft\"",
            "unknown key \"sit\"",
            "did you mean \"sites\"?",
        ),
    ];
    for (line, problem, remedy) in cases {
        let key = line.split(' ').next().unwrap();
        let mut lines: Vec<&str> = GOOD.lines().collect();
        match lines
            .iter()
            .position(|old| old.starts_with(&format!("{key} =")))
        {
            Some(at) => lines[at] = line,
            None => lines.push(line),
        }
        let told = parse_plan_text(&lines.join("\n")).unwrap_err();
        assert!(
            told.contains(problem) && told.contains(remedy),
            "{line}:\n{told}"
        );
    }
}

#[test]
fn all_slips_are_told_at_once() {
    let text = "seed = \"x\"\n[[inject]]\nsites = [\"delf\"]\n[[inject]]\nsites = [\"delft\"]\n\
                fault = \"late\"\ncalls = [\"submit\"]\n[[inject]]\nsites = [\"delft\"]\n\
                fault = \"site-full\"\ncalls = [\"status\"]\n";
    let told = parse_plan_text(text).unwrap_err();
    for words in [
        "plan.toml:1: seed in the plan",
        "[[inject]] number 1 has no \"fault\"",
        "delay of [[inject]] number 2: it is not given",
        "plan.toml:11: calls of [[inject]] number 3: site-full cannot strike status",
        "it strikes: submit",
        "the rehearsal has no duration",
    ] {
        assert!(told.contains(words), "{words:?} is not in:\n{told}");
    }
    assert!(
        parse_plan_text("[[inject]\n")
            .unwrap_err()
            .contains("toml.io")
    );
    assert!(
        parse_plan_text("for = \"1m\"\n")
            .unwrap_err()
            .contains("injects nothing")
    );
}

#[test]
fn the_guide_lists_the_kinds_that_can_be_injected() {
    let guide = include_str!("../../../docs/src/guide/rehearsing.md");
    let table = guide.split("| fault | what").nth(1).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    let mut kinds: Vec<&str> = injectable_faults::injectable_kinds()
        .map(FaultKind::as_str)
        .collect();
    listed.sort_unstable();
    kinds.sort_unstable();
    assert_eq!(listed, kinds);
}

#[test]
fn no_kind_lies_about_an_attempt_or_a_file() {
    for kind in injectable_faults::injectable_kinds() {
        assert_ne!(kind.as_str(), "absent");
        assert!(
            !injectable_faults::affected_calls(kind).is_empty(),
            "{}",
            kind.as_str()
        );
    }
    // Refused, a file would be taken for missing.
    for call in [
        SiteCallKind::Inspect,
        SiteCallKind::Read,
        SiteCallKind::StartCopy,
        SiteCallKind::HasContent,
    ] {
        assert!(
            !injectable_faults::can_affect(FaultKind::Refused, call),
            "{}",
            call.as_str()
        );
    }
}
