//! What descriptions become, and what attempts are told.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::ids::{Attempt, ComponentIndex, JobId, LogicalName, RelPath, SiteName};
use crate::job::job_state::{BegunAttempt, Component};
use crate::job::spec::{
    ExecutableSource, JobSpecLimits, OutputDestination, OutputSpec, ProgramOverride,
};
use crate::job::tests::job_world::{JobWorld, spec};
use crate::labels::SiteLabels;
use crate::units::DurationMs;

fn sweep_description(over: SweepSource) -> JobDescription {
    let mut spec = spec(1);
    spec.run.runner = Some(RunnerName::new("sweep").unwrap());
    let max_bytes = Bytes(u64::MAX);
    JobDescription {
        spec,
        sweep: Some(Sweep {
            over,
            at_once: None,
        }),
        max_tasks: 1_000,
        max_bytes,
    }
}

fn index_source(text: &str) -> SweepSource {
    SweepSource::Array(text.parse().unwrap())
}

fn first_arguments(jobs: &[JobSpec]) -> Vec<String> {
    jobs.iter()
        .map(|job| job.components[0].program.unpack().arguments.join(" "))
        .collect()
}

/// Gives the first component these arguments.
fn set_arguments(spec: &mut JobSpec, arguments: &[&str]) {
    let arguments = arguments.iter().map(|word| (*word).into()).collect();
    spec.components[0]
        .program
        .change_program(|program| program.arguments = arguments);
}

#[test]
fn a_grid_becomes_every_combination_and_the_last_name_varies_fastest() {
    let axis = |values: &[&str]| values.iter().map(|value| Arc::from(*value)).collect();
    let axes = [
        ("seed".into(), axis(&["1", "2"])),
        ("model".into(), axis(&["a", "b"])),
    ];
    let mut described = sweep_description(SweepSource::Grid(axes.into()));
    set_arguments(
        &mut described.spec,
        &["{{model}}", "x{{ seed }}", "{{{{no}}", "{{task}}"],
    );
    let jobs = described.into_jobs().unwrap();
    let expected = [
        "a x1 {{no}} 0",
        "a x2 {{no}} 1",
        "b x1 {{no}} 2",
        "b x2 {{no}} 3",
    ];
    assert_eq!(first_arguments(&jobs), expected);
    let tasks = jobs.iter().map(|job| job.run.task.as_ref().unwrap());
    assert!(tasks.clone().map(|task| task.index).eq(0..4));
    assert!(tasks.clone().all(|task| task.count == 4));
}

#[test]
fn an_array_is_written_as_batch_systems_write_it() {
    for (text, expected, at_once) in [
        ("0-3", vec![0, 1, 2, 3], None),
        ("7", vec![7], None),
        ("1,3,5-6", vec![1, 3, 5, 6], None),
        ("0-10:5", vec![0, 5, 10], None),
        ("0-9:4%2", vec![0, 4, 8], Some(2)),
    ] {
        let indices: SweepIndices = text.parse().unwrap();
        assert_eq!(
            indices.list_indices().collect::<Vec<u64>>(),
            expected,
            "{text}"
        );
        assert_eq!(
            (indices.count(), indices.run_limit()),
            (expected.len() as u64, at_once)
        );
    }
    for text in [
        "",
        "a",
        "3-1",
        "1-2-3",
        "0-9:0",
        "1,,2",
        "0-3%0",
        "0-3%",
        "-1",
        "0-99999999999999999",
    ] {
        assert!(text.parse::<SweepIndices>().is_err(), "{text:?}");
    }
}

#[test]
fn every_text_of_a_component_is_filled_but_shell_lines() {
    let mut described = sweep_description(index_source("7"));
    let component = &mut described.spec.components[0];
    component.program.executable = ExecutableSource::AtSite("/opt/{{index}}/run".into());
    component.program.change_program(|program| {
        program.environment.insert("N".into(), "{{index}}".into());
        program.directory = Some(RelPath::new("run-{{index}}").unwrap());
        program.setup = vec!["echo {{index}}".into()];
    });
    let restart = ProgramOverride {
        arguments: Some(vec!["{{index}}".into()]),
        ..ProgramOverride::default()
    };
    component.restart = Some(restart.into());
    let register = LogicalName::new("out/{{index}}").unwrap();
    let site = SiteName::new("delft").unwrap();
    let path = RelPath::new("o.{{index}}").unwrap();
    component.outputs = vec![OutputSpec {
        path,
        collect: OutputDestination::ToSite { site, register },
    }];
    described.spec.name = Some("run {{index}}".into());
    let job = described.into_jobs().unwrap().remove(0);
    let component = &job.components[0];
    assert_eq!(job.name.as_deref(), Some("run 7"));
    let program = component.program.unpack();
    assert_eq!(
        program.executable,
        ExecutableSource::AtSite("/opt/7/run".into())
    );
    assert_eq!(program.environment["N"].as_ref(), "7");
    assert_eq!(program.directory.as_ref().unwrap().as_str(), "run-7");
    assert_eq!(program.setup, ["echo {{index}}".into()]);
    assert_eq!(
        component.restart.as_ref().unwrap().arguments,
        Some(vec!["7".into()])
    );
    assert_eq!(component.outputs[0].path.as_str(), "o.7");
    assert_eq!(job.validate(&JobSpecLimits::default()), Ok(()));
}

#[test]
fn a_sweep_that_cannot_be_says_why_and_where() {
    let with = |change: fn(&mut JobDescription)| {
        let mut described = sweep_description(index_source("0-9"));
        change(&mut described);
        let error = described.into_jobs().unwrap_err();
        (error.job_file_key().to_owned(), error.to_string())
    };
    let of = |over: SweepSource| {
        move |described: &mut JobDescription| described.sweep.as_mut().unwrap().over = over
    };
    let refused = |over: SweepSource| {
        let mut described = sweep_description(index_source("0-9"));
        of(over)(&mut described);
        described.into_jobs().unwrap_err().to_string()
    };
    let value = |text: &str| Arc::<str>::from(text);
    let one = |name: &str| SweepRow::from([(value(name), value("1"))]);
    for (found, key, text) in [
        (with(|d| d.sweep = None), "sweep", "nothing to sweep"),
        (with(|d| d.max_tasks = 9), "sweep", "10 tasks; at most 9"),
        (
            with(|d| d.sweep.as_mut().unwrap().at_once = Some(0)),
            "sweep.at_once",
            "at least 1",
        ),
        (
            with(|d| d.spec.name = Some("{{inde}}".into())),
            "name",
            "there are: task, index",
        ),
        (
            with(|d| d.spec.name = Some("{{index".into())),
            "name",
            "does not end",
        ),
        (
            with(|d| set_arguments(&mut d.spec, &["{{x}}"])),
            "component[0].arguments[0]",
            "{{x}} names no parameter",
        ),
        (
            with(|d| d.spec.run.runner = None),
            "sweep",
            "\"default\" makes one job",
        ),
        (
            with(|d| d.spec.run.runner = Some(RunnerName::new("swep").unwrap())),
            "runner",
            "default, parallel, sweep",
        ),
    ] {
        assert_eq!(found.0, key, "{found:?}");
        assert!(found.1.contains(text), "{found:?}");
    }
    assert!(refused(SweepSource::List(Vec::new())).contains("no tasks"));
    assert!(
        refused(SweepSource::Grid(ParameterValues::from([(
            value("a"),
            Vec::new()
        )])))
        .contains("no tasks")
    );
    assert!(refused(SweepSource::Grid(ParameterValues::new())).contains("no tasks"));
    assert!(refused(SweepSource::List(vec![one("a"), one("b")])).contains("row 1"));
    assert!(refused(SweepSource::List(vec![one("task")])).contains("name a parameter"));
    assert!(refused(SweepSource::List(vec![one("a-b")])).contains("name a parameter"));
    let huge = vec![value("1"); 100_000];
    let axes = ["a", "b", "c", "d", "e"].map(|name| (value(name), huge.clone()));
    assert!(
        refused(SweepSource::Grid(axes.into())).contains("at most 1000"),
        "and counts nothing out"
    );
    let mut twice = sweep_description(index_source("0-9%3"));
    twice.sweep.as_mut().unwrap().at_once = Some(3);
    assert_eq!(twice.into_jobs(), Err(RunnerError::LimitTwice));
}

/// Bytes of the programs' texts that no other run has.
fn own_bytes(jobs: &[JobSpec]) -> usize {
    let mut texts: Vec<&Arc<str>> = jobs
        .iter()
        .flat_map(|job| &job.components)
        .flat_map(|component| component.program.pieces())
        .map(|piece| piece.text())
        .collect();
    texts.sort_by_key(|text| text.as_ptr());
    texts.dedup_by_key(|text| text.as_ptr());
    texts.iter().map(|text| text.len()).sum()
}

#[test]
fn runs_share_what_they_have_in_common_whatever_else_is_filled() {
    const LARGE: usize = 300_000;
    let many = |count: usize| (0..count).map(|number| (format!("V{number:05}"), "y".repeat(90)));
    let variables: [Vec<(String, String)>; 3] = [
        vec![
            ("BIG".into(), "x".repeat(LARGE)),
            ("I".into(), "{{index}}".into()),
        ],
        many(3_000)
            .chain([("W".into(), "{{index}}".into())])
            .collect(),
        vec![
            ("BIG".into(), "{{big}}".into()),
            ("I".into(), "{{index}}".into()),
        ],
    ];
    for variables in variables {
        let axes = [
            (
                "index".into(),
                (0..1_000).map(|index| index.to_string().into()).collect(),
            ),
            ("big".into(), vec!["z".repeat(LARGE).into()]),
        ];
        let mut described = sweep_description(SweepSource::Grid(axes.into()));
        set_arguments(&mut described.spec, &["-c", "{{index}}"]);
        described.spec.components[0]
            .program
            .change_program(|program| {
                program
                    .environment
                    .extend(variables.into_iter().map(|(k, v)| (k.into(), v.into())));
            });
        let jobs = described.into_jobs().unwrap();
        let last = jobs[999].components[0].program.unpack();
        assert_eq!(*last.arguments, ["-c".into(), "999".into()]);
        assert!(last.environment.values().any(|value| **value == *"999"));
        let own = own_bytes(&jobs);
        assert!(own < LARGE + 1_000 * 8_000, "{own}");
    }
}

#[test]
fn what_grows_beyond_all_bounds_when_it_is_filled_is_refused_and_said_where() {
    let with = |value: usize, argument: &str, runs: usize| {
        let axes = [
            (
                "n".into(),
                (0..runs).map(|index| index.to_string().into()).collect(),
            ),
            ("text".into(), vec!["z".repeat(value).into()]),
        ];
        let mut described = sweep_description(SweepSource::Grid(axes.into()));
        set_arguments(&mut described.spec, &["-c", argument]);
        described
            .into_jobs()
            .map_err(|error| (error.job_file_key().to_owned(), error.to_string()))
    };
    let (key, problem) = with(100_000, &"{{text}}".repeat(100_000), 1).unwrap_err();
    assert_eq!(key, "component[0].arguments[1]");
    assert!(
        problem.contains("task 0") && problem.contains("into an input file"),
        "{problem}"
    );
    let (key, problem) = with(300_000, "{{n}}{{text}}", 1_000).unwrap_err();
    assert_eq!(key, "component[0].arguments[1]");
    assert!(problem.contains("apart from placeholders"), "{problem}");
    assert_eq!(
        with(300_000, "{{text}}", 1_000).unwrap().len(),
        1_000,
        "that is shared"
    );
}

#[test]
fn runs_that_would_take_more_memory_than_they_may_are_not_made() {
    let mut described = sweep_description(index_source("0-9"));
    let each = described.spec.memory_footprint().0;
    described.max_bytes = Bytes(10 * each);
    assert_eq!(described.clone().into_jobs().unwrap().len(), 10);
    described.max_bytes = Bytes(10 * each - 1);
    let error = described.into_jobs().unwrap_err();
    assert_eq!(error.job_file_key(), "sweep");
    assert!(
        error.to_string().contains("max_job_memory_per_key"),
        "{error}"
    );
}

type ParameterValues = std::collections::BTreeMap<Arc<str>, Vec<Arc<str>>>;

#[test]
fn two_runs_never_register_the_same_file() {
    let with = |name: &str| {
        let mut described = sweep_description(index_source("0-9"));
        let site = SiteName::new("delft").unwrap();
        let register = LogicalName::new(name).unwrap();
        let path = RelPath::new("o").unwrap();
        described.spec.components[0].outputs = vec![OutputSpec {
            path,
            collect: OutputDestination::ToSite { site, register },
        }];
        described.into_jobs()
    };
    assert!(matches!(
        with("o"),
        Err(RunnerError::RegisterTwice {
            first: 0,
            second: 1,
            ..
        })
    ));
    assert_eq!(with("o-{{task}}").unwrap().len(), 10);
}

#[test]
fn a_warning_comes_within_the_wall_time() {
    let mut spec = spec(1);
    for (before, fits) in [(0, false), (1, true), (3_599_999, true), (3_600_000, false)] {
        let warning = EndWarning {
            signal: PayloadSignal::Usr1,
            before: DurationMs(before),
            to: SignalReceiver::Payload,
        };
        spec.run.warning = Some(warning);
        assert_eq!(
            spec.validate(&JobSpecLimits::default()).is_ok(),
            fits,
            "{before}"
        );
    }
}

#[test]
fn what_must_not_run_twice_has_no_restart() {
    let mut spec = spec(2);
    spec.components[1].restart = Some(Box::default());
    assert_eq!(spec.validate(&JobSpecLimits::default()), Ok(()));
    spec.rerunnable = false;
    assert!(spec.validate(&JobSpecLimits::default()).is_err());
}

/// The launch of the first component at a site, of a job that may have been started before.
fn prepared_launch(runner: &str, started: bool, at: &str) -> AttemptLaunch {
    let mut spec = spec(1);
    spec.run.runner = Some(RunnerName::new(runner).unwrap());
    let group = JobId(7);
    let values = SweepRow::from([("alpha".into(), "0.5".into())]);
    spec.run.task = Some(SweepTask {
        group,
        index: 2,
        count: 4,
        at_once: None,
        values,
    });
    let arguments = Some(vec!["--resume".into()]);
    spec.components[0].restart = Some(Box::new(ProgramOverride {
        arguments,
        ..ProgramOverride::default()
    }));
    let mut job = JobWorld::new(spec).job;
    let began = Some(BegunAttempt {
        site: SiteName::new("delft").unwrap(),
        attempt: Attempt(3),
        at: None,
    });
    let began = began.filter(|_| started);
    job.components = vec![Component {
        began,
        ..Component::default()
    }];
    let site = SiteName::new(at).unwrap();
    AttemptLaunch::for_component(&job, ComponentIndex(0), &site, &SiteLabels::default()).unwrap()
}

#[test]
fn a_first_start_is_no_restart_which_finds_what_was_left_at_its_site() {
    let resume: [Arc<str>; 1] = ["--resume".into()];
    let first = prepared_launch("default", false, "delft");
    assert_eq!(
        (first.earlier, first.at_site.program.arguments.len()),
        (None, 0)
    );
    assert!(
        !first
            .at_site
            .program
            .environment
            .contains_key(AttemptLaunch::RESTART)
    );
    let again = prepared_launch("default", true, "delft");
    assert_eq!(again.earlier, Some(Attempt(3)));
    assert_eq!(again.at_site.program.arguments, resume);
    assert_eq!(
        again.at_site.program.environment[AttemptLaunch::RESTART].as_ref(),
        "1"
    );
    let elsewhere = prepared_launch("default", true, "leiden");
    assert_eq!((elsewhere.earlier, elsewhere.lists_hosts), (None, false));
    assert_eq!(elsewhere.at_site.program.arguments, resume);
}

#[test]
fn each_runner_tells_its_programs_what_they_need() {
    assert!(prepared_launch("parallel", false, "delft").lists_hosts);
    let task = prepared_launch("sweep", false, "delft")
        .at_site
        .program
        .environment;
    for (name, value) in [
        ("COSPAN_GROUP", "7"),
        ("COSPAN_TASK", "2"),
        ("COSPAN_TASKS", "4"),
        ("COSPAN_PARAMETER_alpha", "0.5"),
    ] {
        assert_eq!(task[name].as_ref(), value);
    }
}

proptest! {
    /// Whatever is swept over, there is one job for each row, each with its own values, and
    /// what has no placeholder stays as it was.
    #[test]
    fn a_sweep_makes_one_job_of_each_row(
        lengths in prop::collection::vec(1_usize..5, 1..4),
        other in "[a-z${}]{0,12}",
    ) {
        prop_assume!(!other.contains("{{"));
        let axis = |length: usize| (0..length).map(|value| value.to_string().into()).collect();
        let axes = lengths.iter().enumerate();
        let axes = axes.map(|(i, length)| (format!("p{i}").into(), axis(*length)));
        let mut described = sweep_description(SweepSource::Grid(axes.collect()));
        let all: Vec<String> = (0..lengths.len()).map(|i| format!("{{{{p{i}}}}}")).collect();
        set_arguments(&mut described.spec, &[&all.join("-"), &other]);
        let jobs = described.into_jobs().unwrap();
        let distinct: std::collections::BTreeSet<String> = first_arguments(&jobs).into_iter().collect();
        prop_assert_eq!(distinct.len(), lengths.iter().product::<usize>());
        prop_assert!(jobs.iter().all(|job| *job.components[0].program.unpack().arguments[1] == *other));
    }

    /// No text makes the filling panic or loop.
    #[test]
    fn any_text_is_filled_or_refused(text in "[{}a-z ]{0,40}") {
        let mut described = sweep_description(index_source("0-1"));
        set_arguments(&mut described.spec, &[&text]);
        let _ = described.into_jobs();
    }

    #[test]
    fn any_indices_are_read_or_refused(text in "[0-9,:%-]{0,12}") {
        if let Ok(indices) = text.parse::<SweepIndices>() {
            prop_assert!(indices.count() > 0);
            prop_assert!(indices.list_indices().take(100).count() as u64 <= indices.count());
        }
    }
}
