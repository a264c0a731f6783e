//! Job documents: every notation says the same, and every mistake is named.

use cospan_domain::job::spec::{
    ExecutableSource, JobSpec, JobSpecLimits, OutputDestination, OverrideScope, RequestType,
    UnreachableAction,
};
use cospan_domain::labels::LabelRule;
use cospan_domain::units::DurationMs;
use proptest::prelude::*;

use super::document::JobDocument;
use super::parse::{JobFormat, ParseError, parse, parse_all};

const FULL_TOML: &str = r#"
name = "wave"
request = "fixed"
policy = "worst-fit"
priority = "super-high"
wall_time = "1-12:00:00"
rerunnable = true
on_unreachable = { rerun_after = "45m" }
max_placement_tries = 100
max_claim_tries = 3
max_retries = 2
runner = "parallel"
warning = { signal = "TERM", before = "90s" }
notify = ["team", "alice"]

[[component]]
name = "solver"
site = "delft"
processors = 4
memory = "4GB"
disk = "10GB"
gpus = 2
resources = { licences = 1 }
constraints = ["arch=x86_64", "os!=windows", "mpi=mpich|openmpi"]
executable = "/bin/true"
arguments = ["-n", "4"]
directory = "run"
setup = ["module load gcc"]
environment = { OMP_NUM_THREADS = "2" }

[[component.input]]
file = "data/mesh.dat"

[[component.input]]
file = "params"
path = "etc/params.txt"
digest = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
size_bytes = 12

[[component.output]]
path = "result.dat"
site = "leiden"
register = "wave/result"

[[component.output]]
path = "trace.txt"

[component.at.delft]
executable = { file = "solver-delft" }
lrm_options = ["--partition=short"]

[component.at."arch=arm64"]
arguments = []
environment = { A = "b" }
setup = ["module load arm"]
directory = "arm"

[component.restart]
arguments = ["--resume"]
"#;

const SMALL_JSON: &str = r#"{"wall_time":"90s","component":[
  {"name":"a","processors":2,"executable":"/bin/true"}]}"#;

fn full_spec() -> JobSpec {
    parse(FULL_TOML, JobFormat::Toml)
        .unwrap()
        .into_spec()
        .unwrap()
}

fn parse_refused(text: &str, format: JobFormat) -> ParseError {
    parse(text, format).unwrap_err()
}

#[test]
fn a_full_document_says_everything_that_a_specification_can_hold() {
    let spec = full_spec();
    spec.validate(&JobSpecLimits::default()).unwrap();
    assert_eq!(spec.request, RequestType::Fixed);
    assert_eq!(spec.wall_time, DurationMs::from_secs(36 * 3600));
    assert_eq!(
        spec.on_unreachable,
        UnreachableAction::RerunAfter(DurationMs::from_secs(2700))
    );
    assert_eq!(spec.run.runner.as_ref().unwrap().as_str(), "parallel");
    assert_eq!(spec.run.warning.unwrap().before, DurationMs::from_secs(90));
    assert_eq!(spec.run.notify.len(), 2);
    let solver = &spec.components[0];
    assert_eq!(
        solver.restart.as_ref().unwrap().arguments,
        Some(vec!["--resume".into()])
    );
    assert_eq!(solver.resources.others["memory_mb"], 4_000);
    assert_eq!(solver.resources.others["disk_mb"], 10_000);
    assert_eq!(solver.resources.others["gpus"], 2);
    assert_eq!(solver.resources.others["licences"], 1);
    assert!(matches!(&solver.constraints[2].rule, LabelRule::OneOf(values) if values.len() == 2));
    assert_eq!(solver.inputs[0].path.as_str(), "mesh.dat");
    assert_eq!(solver.inputs[1].file.bound.unwrap().size.0, 12);
    assert!(matches!(
        &solver.outputs[0].collect,
        OutputDestination::ToSite { .. }
    ));
    assert_eq!(solver.outputs[1].collect, OutputDestination::Fetch);
    let arm = &solver.at[&OverrideScope::Label("arch".into(), "arm64".into())];
    assert_eq!(arm.arguments.as_deref(), Some(&[][..]));
    let delft = solver
        .at
        .values()
        .find(|change| change.executable.is_some())
        .unwrap();
    assert!(
        matches!(&delft.executable, Some(ExecutableSource::Staged(file)) if file.name.as_str() == "solver-delft")
    );
}

#[test]
fn a_specification_is_shown_as_a_document_that_means_the_same() {
    let spec = full_spec();
    let shown = JobDocument::from(&spec);
    let json = serde_json::to_string(&shown).unwrap();
    let again = parse(&json, JobFormat::Json).unwrap();
    assert_eq!(again, shown);
    assert_eq!(again.into_spec().unwrap(), spec);
    let toml = toml::to_string(&shown).unwrap();
    assert_eq!(
        parse(&toml, JobFormat::Toml).unwrap().into_spec().unwrap(),
        spec
    );
    // JSON is YAML.
    assert_eq!(
        parse(&json, JobFormat::Yaml).unwrap().into_spec().unwrap(),
        spec
    );
}

#[test]
fn a_component_may_begin_so_long_after_the_start_of_its_job() {
    let text = r#"
wall_time = "1h"
[reservation]
earliest = "2030-01-01T00:00:00Z"
[[component]]
name = "model"
processors = 2
executable = "/bin/true"
[[component]]
name = "movie"
start_after = "10m"
processors = 2
executable = "/bin/true"
"#;
    let spec = parse(text, JobFormat::Toml).unwrap().into_spec().unwrap();
    spec.validate(&JobSpecLimits::default()).unwrap();
    let offsets: Vec<DurationMs> = spec.components.iter().map(|one| one.start_after).collect();
    assert_eq!(offsets, [DurationMs::ZERO, DurationMs::from_secs(600)]);
    let shown = toml::to_string(&JobDocument::from(&spec)).unwrap();
    assert_eq!(
        parse(&shown, JobFormat::Toml).unwrap().into_spec().unwrap(),
        spec
    );
    let declined = text.replace("[reservation]", "[reservation]\nwanted = \"no\"");
    let declined = parse(&declined, JobFormat::Toml)
        .unwrap()
        .into_spec()
        .unwrap();
    let error = declined
        .validate(&JobSpecLimits::default())
        .unwrap_err()
        .to_string();
    for words in [
        "\"movie\"",
        "`start_after`",
        "wanted = \"always\"",
        "--start",
    ] {
        assert!(error.contains(words), "{words} is not in {error}");
    }
}

#[test]
fn the_three_notations_say_the_same() {
    let json = parse(SMALL_JSON, JobFormat::Json).unwrap();
    let toml =
        "wall_time = '90s'\n[[component]]\nname = 'a'\nprocessors = 2\nexecutable = '/bin/true'\n";
    let yaml =
        "wall_time: 90s\ncomponent:\n  - name: a\n    processors: 2\n    executable: /bin/true\n";
    assert_eq!(parse(toml, JobFormat::Toml).unwrap(), json);
    assert_eq!(parse(yaml, JobFormat::Yaml).unwrap(), json);
    for (text, format) in [
        (SMALL_JSON, JobFormat::Json),
        (toml, JobFormat::Toml),
        (yaml, JobFormat::Yaml),
    ] {
        assert_eq!(JobFormat::guess_format(text), format, "{text}");
    }
    let staged = "wall_time: 90s\ncomponent:\n  - name: a\n    processors: 2\n    executable: {file: run.sh}\n";
    assert!(parse(staged, JobFormat::Yaml).is_ok());
}

#[test]
fn what_is_left_out_has_sensible_defaults() {
    let spec = parse(SMALL_JSON, JobFormat::Json)
        .unwrap()
        .into_spec()
        .unwrap();
    assert_eq!(spec.request, RequestType::NonFixed);
    assert!(spec.rerunnable);
    assert_eq!(
        spec.on_unreachable,
        UnreachableAction::RerunAfter(DurationMs::from_secs(1800))
    );
    let fixed = SMALL_JSON.replace("\"processors\"", "\"site\":\"delft\",\"processors\"");
    let spec = parse(&fixed, JobFormat::Json).unwrap().into_spec().unwrap();
    assert_eq!(spec.request, RequestType::Fixed);
    let once = SMALL_JSON.replace("\"wall_time\"", "\"rerunnable\":false,\"wall_time\"");
    let spec = parse(&once, JobFormat::Json).unwrap().into_spec().unwrap();
    assert_eq!(spec.on_unreachable, UnreachableAction::Wait);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_path_and_the_nearest_key() {
    let toml = "wall_time = '90s'\n\n[[component]]\nname = 'a'\nprocesors = 2\n";
    let error = parse_refused(toml, JobFormat::Toml);
    assert_eq!(error.line, Some(5), "{error}");
    assert_eq!(error.key, "component[0].procesors", "{error}");
    assert_eq!(error.nearest.as_deref(), Some("processors"), "{error}");
    let json = "{\"wall_time\": \"90s\",\n \"component\": [{\"name\": \"a\",\n \"procesors\": 2}]}";
    let error = parse_refused(json, JobFormat::Json);
    assert_eq!(
        (error.line, error.key.as_str(), error.nearest.as_deref()),
        (Some(3), "component[0].procesors", Some("processors")),
        "{error}"
    );
    let yaml = "wall_time: 90s\ncomponent:\n  - name: a\n    procesors: 2\n";
    let error = parse_refused(yaml, JobFormat::Yaml);
    assert_eq!(
        (error.line, error.key.as_str(), error.nearest.as_deref()),
        (Some(4), "component[0].procesors", Some("processors")),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "line 4: component[0].procesors: unknown key `procesors`; did you mean `processors`?"
    );
}

#[test]
fn an_unknown_word_is_refused_with_the_nearest_known_one() {
    let text = SMALL_JSON.replace("\"wall_time\"", "\"priority\":\"superhigh\",\"wall_time\"");
    let error = parse_refused(&text, JobFormat::Json);
    assert_eq!(error.key, "priority", "{error}");
    assert_eq!(error.nearest.as_deref(), Some("super-high"), "{error}");
}

#[test]
fn a_number_out_of_its_range_is_refused_with_the_range_in_every_format() {
    type Written = fn(&str) -> String;
    let forms: [(JobFormat, Written); 3] = [
        (JobFormat::Toml, |n| {
            format!("wall_time = '90s'\n[[component]]\nname = 'a'\nprocessors = {n}\n")
        }),
        (JobFormat::Json, |n| {
            SMALL_JSON.replace("\"processors\":2", &format!("\"processors\":{n}"))
        }),
        (JobFormat::Yaml, |n| {
            format!("wall_time: 90s\ncomponent:\n  - name: a\n    processors: {n}\n")
        }),
    ];
    for (format, document) in forms {
        let words = ["many", "3 of them"].map(|word| match format {
            JobFormat::Yaml => word.to_owned(),
            JobFormat::Toml | JobFormat::Json => format!("\"{word}\""),
        });
        let huge = "9".repeat(23);
        let numbers = ["0", "-3", "1.5", "4294967296", &huge, "\"2\"", "true"].map(str::to_owned);
        for wrong in numbers.iter().chain(&words) {
            let error = parse_refused(&document(wrong), format);
            assert_eq!(
                error.key, "component[0].processors",
                "{format:?} {wrong}: {error}"
            );
            let range = "expected a whole number from 1 to 4294967295";
            assert!(error.problem.contains(range), "{format:?} {wrong}: {error}");
            let known = error.line.is_some() && error.column.is_some();
            assert!(known, "{format:?} {wrong}: {error:?}");
        }
    }
}

#[test]
fn quantities_that_are_none_or_negative_are_refused_at_their_place() {
    for wrong in ["1e400", "null"] {
        let text = SMALL_JSON.replace("\"processors\":2", &format!("\"processors\":{wrong}"));
        parse_refused(&text, JobFormat::Json);
    }
    for (from, to, key) in [
        (
            "\"processors\":2",
            "\"processors\":2,\"memory\":\"4\"",
            "component[0].memory",
        ),
        (
            "\"processors\":2",
            "\"processors\":2,\"gpus\":0",
            "component[0].gpus",
        ),
        (
            "\"processors\":2",
            "\"processors\":2,\"resources\":{\"x\":-1}",
            "component[0].resources.x",
        ),
        ("90s", "90", "wall_time"),
        ("90s", "-90s", "wall_time"),
        ("\"90s\"", "\"90s\",\"max_retries\":-1", "max_retries"),
        (
            "\"90s\"",
            "\"90s\",\"max_claim_tries\":0",
            "max_claim_tries",
        ),
    ] {
        let text = SMALL_JSON.replace(from, to);
        assert_ne!(text, SMALL_JSON);
        let error = parse_refused(&text, JobFormat::Json);
        // A map read as a whole tells only where the map is.
        assert!(
            key.starts_with(&error.key) && !error.key.is_empty(),
            "{to}: {error}"
        );
    }
}

#[test]
fn a_zero_or_endless_wall_time_is_refused() {
    for wrong in ["0s", "5000000h"] {
        let text = SMALL_JSON.replace("90s", wrong);
        let spec = parse(&text, JobFormat::Json).unwrap().into_spec().unwrap();
        let error = spec
            .validate(&JobSpecLimits::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("wall time"), "{error}");
    }
}

#[test]
fn a_wrong_name_is_refused_at_its_place() {
    let text = SMALL_JSON.replace("\"name\":\"a\"", "\"name\":\"a b\"");
    let error = parse_refused(&text, JobFormat::Json);
    assert_eq!(error.key, "component[0].name", "{error}");
    assert!(error.problem.contains("position 1"), "{error}");
    let text = SMALL_JSON.replace("\"processors\"", "\"directory\":\"../x\",\"processors\"");
    let error = parse_refused(&text, JobFormat::Json);
    assert_eq!(error.key, "component[0].directory", "{error}");
}

#[test]
fn fields_that_contradict_each_other_are_named() {
    let cases = [
        (r#""size_bytes":1"#, "component[0].input[0]", "go together"),
        (
            r#""path":"x","digest":"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff""#,
            "component[0].input[0]",
            "go together",
        ),
    ];
    for (extra, key, problem) in cases {
        let text = SMALL_JSON.replace(
            "\"processors\"",
            &format!("\"input\":[{{\"file\":\"f\",{extra}}}],\"processors\""),
        );
        let error = parse(&text, JobFormat::Json)
            .unwrap()
            .into_spec()
            .unwrap_err();
        assert_eq!(error.key, key);
        assert!(error.problem.contains(problem), "{error}");
    }
    for (extra, key) in [
        (
            r#""rerunnable":false,"on_unreachable":{"rerun_after":"1h"}"#,
            "on_unreachable",
        ),
        (
            r#""on_unreachable":{"rerun_after":"0s"}"#,
            "on_unreachable.rerun_after",
        ),
    ] {
        let text = SMALL_JSON.replace("\"wall_time\"", &format!("{extra},\"wall_time\""));
        let error = parse(&text, JobFormat::Json)
            .unwrap()
            .into_spec()
            .unwrap_err();
        assert_eq!(error.key, key);
    }
    for (extra, problem) in [
        (r#""output":[{"path":"x","site":"delft"}]"#, "register"),
        (r#""output":[{"path":"x","register":"y"}]"#, "site"),
        (
            r#""memory":"1GB","resources":{"memory_mb":5}"#,
            "resources.memory_mb",
        ),
        (r#""input":[{"file":"a/.."}]"#, "path"),
    ] {
        let text = SMALL_JSON.replace("\"processors\"", &format!("{extra},\"processors\""));
        let error = parse(&text, JobFormat::Json)
            .unwrap()
            .into_spec()
            .unwrap_err();
        assert!(error.problem.contains(problem), "{error}");
    }
}

#[test]
fn a_missing_field_is_named() {
    let error = parse_refused("{\"component\":[]}", JobFormat::Json);
    assert!(error.problem.contains("wall_time"), "{error}");
    let error = parse_refused("[[component]]\nname='a'\n", JobFormat::Toml);
    assert!(error.line.is_some(), "{error:?}");
}

#[test]
fn a_list_of_jobs_is_read_in_every_notation() {
    let json = format!("[{SMALL_JSON},{SMALL_JSON}]");
    assert_eq!(parse_all(&json, JobFormat::Json).unwrap().len(), 2);
    let yaml = "- wall_time: 90s\n  component: []\n- wall_time: 2m\n";
    assert_eq!(parse_all(yaml, JobFormat::Yaml).unwrap().len(), 2);
    let toml = "[[job]]\nwall_time = '90s'\n[[job.component]]\nname='a'\nprocessors=1\nexecutable='x'\n[[job]]\nwall_time='1m'\n";
    assert_eq!(parse_all(toml, JobFormat::Toml).unwrap().len(), 2);
    assert_eq!(parse_all(SMALL_JSON, JobFormat::Json).unwrap().len(), 1);
    let wrong = format!("[{SMALL_JSON},{{\"wall_tim\":1}}]");
    let error = parse_all(&wrong, JobFormat::Json).unwrap_err();
    assert_eq!(error.key, "[1].wall_tim", "{error}");
}

#[test]
fn text_after_the_end_and_deep_nesting_are_errors() {
    assert!(parse(&format!("{SMALL_JSON} x"), JobFormat::Json).is_err());
    let deep = "[".repeat(100_000);
    for format in [JobFormat::Json, JobFormat::Toml, JobFormat::Yaml] {
        assert!(parse(&deep, format).is_err());
        assert!(parse(&format!("name = {deep}"), format).is_err());
    }
    let bomb = "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n";
    assert!(parse(bomb, JobFormat::Yaml).is_err());
}

proptest! {
    #[test]
    fn any_text_is_a_document_or_an_error(text in any::<String>()) {
        for format in [JobFormat::Json, JobFormat::Toml, JobFormat::Yaml] {
            if let Err(error) = parse_all(&text, format) {
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn a_damaged_document_is_a_document_or_an_error(
        at in 0..FULL_TOML.len(), cut in 0usize..20, put in "[ -~\n]{0,3}",
    ) {
        let mut text = FULL_TOML.to_owned();
        text.replace_range(at..(at + cut).min(FULL_TOML.len()), &put);
        if let Ok(document) = parse(&text, JobFormat::Toml)
            && let Ok(spec) = document.into_spec()
            && spec.validate(&JobSpecLimits::default()).is_ok()
        {
            let json = serde_json::to_string(&JobDocument::from(&spec)).unwrap();
            prop_assert_eq!(parse(&json, JobFormat::Json).unwrap().into_spec().unwrap(), spec);
        }
    }
}
