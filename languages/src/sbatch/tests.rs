//! Whole scripts: what they become, and what is refused.

use proptest::prelude::*;

use super::*;
use cospan_api::v1::document::ComponentDocument;
use cospan_api::v1::label::OverrideTarget;
use cospan_api::v1::runner::ReceiverName;
use cospan_domain::units::DurationMs;

pub(super) fn translate_text(text: &str) -> Result<TranslatedScript, ScriptError> {
    let script = BatchScript {
        name: "job.sh",
        text,
        arguments: &[],
    };
    let variable = |name: &str| (name == "HERE").then(|| "from here".to_owned());
    let default_time = |names: Option<&str>| {
        let (minutes, name) = match names {
            Some("short") => (10, "short"),
            None => (60, "normal"),
            Some(_) => return None,
        };
        Some((
            DurationMs(minutes * 60_000),
            format!("partition {name} of alpha"),
        ))
    };
    let smallest_node = |names: Option<&str>| match names {
        Some("short") => Some((16, "partition short of alpha".to_owned())),
        None => Some((64, "partition normal of alpha".to_owned())),
        Some(_) => None,
    };
    translate_script(
        &script,
        JobFileContext {
            variable: &variable,
            default_time: &default_time,
            smallest_node: &smallest_node,
        },
    )
}

/// A script with these option lines and a time.
pub(super) fn script_with_lines(lines: &str) -> String {
    format!("#!/bin/bash\n{lines}\n#SBATCH --time=10\necho\n")
}

fn translate_job(lines: &str) -> JobDocument {
    translate_text(&script_with_lines(lines)).unwrap().job
}

pub(super) fn translate_component(lines: &str) -> ComponentDocument {
    translate_job(lines).component.remove(0)
}

/// The problem and what to do, in one line.
pub(super) fn refusal_of(text: &str) -> (Option<usize>, String) {
    let error = translate_text(text).unwrap_err();
    (error.line, format!("{}; {}", error.problem, error.remedy))
}

pub(super) fn slurm_options(component: &ComponentDocument) -> Vec<String> {
    let place: OverrideTarget = "lrm=slurm".parse().unwrap();
    let options = component
        .at
        .get(&place)
        .map(|change| change.lrm_options.clone());
    options
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_script_is_told_from_a_job_file_by_its_beginning_and_name() {
    let is_script = |shown, text| {
        SbatchScripts.recognises(&JobFile {
            shown,
            name: None,
            text,
            arguments: &[],
        })
    };
    assert!(is_script("job.sh", "#!/bin/sh\n") && is_script("standard input", "#!/bin/sh\n"));
    assert!(!is_script("job.toml", "#!/usr/bin/env -S cospan submit\n"));
    assert!(!is_script("job", "# a job\nname = \"x\"\n"));
}

#[test]
fn tasks_nodes_and_processors_are_multiplied_as_slurm_does() {
    for (lines, processors) in [
        ("", 1),
        ("#SBATCH -n 4", 4),
        ("#SBATCH -n4 -c2", 8),
        ("#SBATCH -N 3", 3),
        ("#SBATCH --nodes=2-4 --ntasks-per-node=8", 16),
        ("#SBATCH -N2 --ntasks-per-node 4 --cpus-per-task=2", 16),
        ("#SBATCH -N 2 -n 6 --ntasks-per-node=4", 6),
        ("#SBATCH -n 4\n#SBATCH -n 5", 5),
    ] {
        assert_eq!(translate_component(lines).processors, processors, "{lines}");
    }
    assert!(
        refusal_of(&script_with_lines("#SBATCH -n 4294967295 -c 2"))
            .1
            .contains("more than 4294967295")
    );
}

#[test]
fn memory_and_graphics_processors_are_totals_of_the_component() {
    let of = |lines: &str| {
        let component = translate_component(lines);
        (
            component.memory.map_or(0, |size| size.0.0 >> 20),
            component.gpus.unwrap_or(0),
        )
    };
    for (lines, expected) in [
        ("#SBATCH --mem=4G", (4_096, 0)),
        ("#SBATCH --mem=4G -N 2", (8_192, 0)),
        ("#SBATCH --mem-per-cpu=500 -n 4 -c 2", (4_000, 0)),
        ("#SBATCH --mem-per-gpu=1G --gpus=2", (2_048, 2)),
        ("#SBATCH --mem=0", (0, 0)),
        ("#SBATCH --gres=gpu:2 -N 2", (0, 4)),
        ("#SBATCH --gpus-per-task=1 -n 3", (0, 3)),
        ("#SBATCH --gpus=a100:4 --gres=gpu:1", (0, 4)),
        ("#SBATCH --gres=shard:3", (0, 0)),
    ] {
        assert_eq!(of(lines), expected, "{lines}");
    }
    assert!(
        refusal_of(&script_with_lines("#SBATCH --mem=1G --mem-per-cpu=1G"))
            .1
            .contains("exclude each other")
    );
}

#[test]
fn what_sites_must_have_becomes_demands_on_their_labels() {
    let of = |lines: &str| {
        let demands = translate_component(lines).constraints;
        demands
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (line, expected) in [
        ("-p short", "partition=short"),
        (
            "--partition=short,long -A physics",
            "partition=long|short account=physics",
        ),
        ("--qos=fast -C skylake", "qos=fast feature=skylake"),
        ("-C 'ib&ssd'", "feature=ib feature=ssd"),
        ("-C 'ib|ssd'", "feature=ib|ssd"),
        ("-C '[rack1*2&rack2*4]'", ""),
        ("-N 1 -n 1", ""),
        (
            "-N 2-4 --ntasks-per-node=8 -c 2",
            "nodes>=2 node_processors>=16",
        ),
        ("-n 32", ""),
        ("-n 32 -N 3", "nodes>=3 node_processors>=11"),
        ("--mem=4G", "node_memory_mb>=4295"),
        (
            "--mem-per-cpu=1G -c 8",
            "node_processors>=8 node_memory_mb>=8590",
        ),
        ("--gpus-per-node=4 -N2", "nodes>=2 node_gpus>=4"),
        ("--gres=gpu:a100:2", "gpu=a100 node_gpus>=2"),
    ] {
        assert_eq!(of(&format!("#SBATCH {line}")), expected, "{line}");
    }
    assert!(
        refusal_of(&script_with_lines("#SBATCH -p 'a b'"))
            .1
            .contains("--partition")
    );
}

/// As sbatch does, which starts a process for each of these nodes and sets no `SLURM_NTASKS`.
#[test]
fn a_script_that_says_nothing_of_tasks_leaves_them_to_srun() {
    for (lines, expected) in [
        ("-J x", &["--nodes=1"][..]),
        ("-c 8", &["--cpus-per-task=8", "--nodes=1"]),
        ("--gpus=4", &["--gpus=4", "--nodes=1-4"]),
        ("-n 1", &["--ntasks=1"]),
        ("-N 1 -n 1", &["--nodes=1", "--ntasks=1"]),
        ("--nodelist=a,b", &["--nodelist=a,b"]),
    ] {
        let component = translate_component(&format!("#SBATCH {lines}"));
        assert_eq!(slurm_options(&component), expected, "{lines}");
    }
}

/// Each as sbatch of 22.05 took it, beside real scripts.
#[test]
fn what_sbatch_passes_over_is_passed_over() {
    let mail =
        "#SBATCH --mail-type=BEGIN\n#SBATCH --mail-type=NONE\n#SBATCH --mail-type=END,FAIL -n1";
    let expected = ["--mail-type=BEGIN,END,FAIL", "--ntasks=1"];
    assert_eq!(slurm_options(&translate_component(mail)), expected);
    let none = translate_component("#SBATCH --mail-type=NONE -n1");
    assert_eq!(slurm_options(&none), ["--mail-type=NONE", "--ntasks=1"]);
    assert_eq!(translate_component("#SBATCH --begin=now").processors, 1);
    let account = translate_component("#SBATCH --account=ab1@h100");
    assert_eq!(account.constraints.len(), 1);
    let text = script_with_lines("#SBATCH --export=/usr/local/cuda/bin,GONE,HERE");
    let script = translate_text(&text).unwrap();
    let variables = &script.job.component[0].environment;
    assert_eq!(
        variables.get("HERE").map(|value| &**value),
        Some("from here")
    );
    assert!(!variables.contains_key("GONE"));
    let notes = script
        .notes
        .iter()
        .filter(|(_, note)| note.contains("left out"));
    assert_eq!(notes.count(), 2);
}

/// Steps of a script open their files as it says.
#[test]
fn steps_are_told_whether_to_append() {
    for (lines, expected) in [
        ("--open-mode=append", Some("a")),
        ("--open-mode=truncate", Some("t")),
        ("-n 1", None),
    ] {
        let component = translate_component(&format!("#SBATCH {lines}"));
        let mode = component.environment.get("SLURM_OPEN_MODE");
        assert_eq!(mode.map(|mode| &**mode), expected, "{lines}");
    }
}

#[test]
fn whole_nodes_have_all_their_processors() {
    for (lines, processors) in [
        ("--nodes=2 --exclusive", 128),
        ("--nodes=2 --exclusive -p short", 32),
        ("--nodes=2-4 --exclusive -p short", 32),
        ("--exclusive -p short", 16),
        ("--nodes=2 --exclusive=topo -p short", 32),
        // Nobody knows what its nodes have.
        ("--nodes=2 --exclusive -p other", 2),
        // It gets what it asks for, beside nobody else's job.
        ("--nodes=2 --exclusive=user", 2),
        ("--exclusive -n 4", 4),
        ("--nodes=2 --exclusive --mincpus=80", 160),
        ("--nodes=2", 2),
    ] {
        let component = translate_component(&format!("#SBATCH {lines}"));
        assert_eq!(component.processors, processors, "{lines}");
    }
    let component = translate_component("#SBATCH --nodes=2 --exclusive --mincpus=8");
    let expected = ["--exclusive", "--nodes=2", "--mincpus=64"];
    assert_eq!(slurm_options(&component), expected);
    let component = translate_component("#SBATCH --exclusive");
    let expected = ["--exclusive", "--mincpus=64", "--nodes=1"];
    assert_eq!(slurm_options(&component), expected);
    let text = script_with_lines("#SBATCH -N2\n#SBATCH --exclusive");
    let notes = translate_text(&text).unwrap().notes;
    let note = &notes.iter().find(|(line, _)| *line == 3).unwrap().1;
    assert!(
        note.contains("128 processors") && note.contains("alpha"),
        "{note}"
    );
}

#[test]
fn slurm_gets_what_only_it_understands_and_the_shape() {
    let lines = "#SBATCH -n 4 -c2 --mem=1G -p short -wn1 --exclusive --mail-user=me@x\n\
                 #SBATCH -p long --gres=gpu:1 -C '[a*2]'";
    let expected = [
        "--constraint=[a*2]",
        "--cpus-per-task=2",
        "--exclusive",
        "--gres=gpu:1",
        "--mail-user=me@x",
        "--mem=1G",
        "--nodelist=n1",
        "--ntasks=4",
        "--partition=long",
    ];
    assert_eq!(slurm_options(&translate_component(lines)), expected);
    assert_eq!(
        slurm_options(&translate_component("#SBATCH -n 4")),
        ["--ntasks=4"]
    );
}

#[test]
fn sites_under_slurm_take_every_option_that_is_passed_on() {
    for known in option_table::TABLE
        .iter()
        .filter(|known: &&option_table::SbatchOption| {
            known.meaning == option_table::OptionTreatment::Passed
                || component_demands::BOTH.contains(&known.name)
        })
    {
        for value in [None, Some("x".to_owned())] {
            let given = getopt::GivenOption {
                line: 1,
                known,
                value,
            };
            let is_whole = match known.takes {
                getopt::OptionArity::Value => given.value.is_some(),
                getopt::OptionArity::Perhaps => true,
                getopt::OptionArity::Nothing => given.value.is_none(),
            };
            let passed = cospan_sites::slurm_site::check_option(&given.as_word().into());
            assert!(!is_whole || passed.is_ok(), "{passed:?}");
        }
    }
}

#[test]
fn the_book_tells_of_every_option() {
    let page = include_str!("../../../docs/src/guide/sbatch.md");
    for known in option_table::TABLE {
        let told = ["`", ","]
            .iter()
            .any(|end| page.contains(&format!("`--{}{end}", known.name)))
            || page.contains(&format!("`--{}=", known.name));
        assert!(told, "--{}", known.name);
    }
}

#[test]
fn an_array_becomes_a_sweep_whose_texts_come_out_as_they_were() {
    let text = script_with_lines("#SBATCH --array=3-9:3%2 -J 'x {{'")
        + "echo {{ {{{ $SLURM_ARRAY_TASK_ID\n";
    let job = translate_text(&text).unwrap().job;
    let specs = job
        .into_specs(10, cospan_domain::units::Bytes(u64::MAX))
        .unwrap();
    assert_eq!(specs.len(), 3);
    let last = specs[2].components[0].program.unpack();
    assert_eq!(*last.arguments[3], *text, "byte for byte");
    assert_eq!(specs[2].name.as_deref(), Some("x {{"));
    for (name, value) in [
        ("ID", "9"),
        ("MIN", "3"),
        ("MAX", "9"),
        ("STEP", "3"),
        ("COUNT", "3"),
    ] {
        let name = format!("SLURM_ARRAY_TASK_{name}");
        assert_eq!(
            last.environment.get(name.as_str()).map(|v| &**v),
            Some(value),
            "{name}"
        );
    }
    assert_eq!(
        specs[0].run.task.as_ref().and_then(|task| task.at_once),
        Some(2)
    );
    let plain = translate_text("#!/bin/sh\n#SBATCH -t1\necho {{\n")
        .unwrap()
        .job;
    assert!(
        plain.component[0].arguments[3].contains("echo {{\n"),
        "nothing is filled in there"
    );
}

#[test]
fn a_heterogeneous_job_has_a_component_for_each_part() {
    let lines = "#SBATCH -n 4 -t 5 -J both\n#SBATCH hetjob\n#SBATCH -n 2 -p short -t 20";
    let translated = translate_text(&format!("#!/bin/sh\n{lines}\n")).unwrap();
    let job = translated.job;
    assert_eq!(job.wall_time.to_string(), "20m", "they run together");
    let parts: Vec<_> = job
        .component
        .iter()
        .map(|c: &ComponentDocument| (c.name.to_string(), c.processors, c.constraints.len()))
        .collect();
    assert_eq!(
        parts,
        [("het-0".to_owned(), 4, 0), ("het-1".to_owned(), 2, 1)]
    );
    assert!(translated.notes[0].1.contains("COSPAN_RANK"));
    assert!(
        job.component[1]
            .arguments
            .iter()
            .any(|word| &**word == "SLURM_HET_SIZE=2")
    );
}

#[test]
fn a_job_says_as_a_whole_what_its_script_says() {
    let job =
        translate_job("#SBATCH -J wave --no-requeue --signal=B:USR2@300 --export=NIL,A=b,HERE");
    assert_eq!(job.name.as_deref(), Some("wave"));
    assert!(!job.rerunnable);
    let warning = job.warning.unwrap();
    assert_eq!(
        (warning.before.to_string().as_str(), warning.signal as u8),
        ("5m", 1)
    );
    assert_eq!(warning.to, ReceiverName::Script);
    let variables = &job.component[0].environment;
    for (name, value) in [
        ("A", "b"),
        ("HERE", "from here"),
        ("SLURM_JOB_NAME", "wave"),
    ] {
        assert_eq!(variables.get(name).map(|v| &**v), Some(value), "{name}");
    }
    let has =
        |job: &JobDocument, word: &str| job.component[0].arguments.iter().any(|w| &**w == word);
    assert!(!has(&job, "login"), "NIL is nothing");
    assert!(
        has(&super::tests::translate_job(""), "login"),
        "as a login has it"
    );
    assert!(
        !has(
            &translate_text("#!/bin/sh -l\n#SBATCH -t1\n").unwrap().job,
            "login"
        ),
        "by itself"
    );
}

#[test]
fn files_at_the_site_are_written_and_others_are_noted() {
    let words = |lines: &str| {
        let translated = translate_text(&script_with_lines(lines)).unwrap();
        let words = translated.job.component[0].arguments.iter();
        (
            words
                .map(|w| &**w)
                .filter(|word: &&str| {
                    ["output=", "error=", "cd=", "append"]
                        .iter()
                        .any(|begin| word.starts_with(begin))
                })
                .map(str::to_owned)
                .collect::<Vec<_>>(),
            translated.notes,
        )
    };
    let (written, notes) = words("#SBATCH -o /scratch/%x-%j.out --open-mode=append");
    assert_eq!(
        (written, notes.len()),
        (vec!["output=/scratch/%x-%j.out".into(), "append".into()], 0)
    );
    let (written, notes) = words("#SBATCH -D /home/you/run -e %A_%a.err");
    assert_eq!(
        (written, notes.len()),
        (
            vec![
                "cd=/home/you/run".into(),
                "error=/home/you/run/%A_%a.err".into()
            ],
            0
        )
    );
    let (written, notes) = words("#SBATCH -o out/%j");
    assert_eq!((written.len(), notes[0].0), (0, 2));
    assert!(notes[0].1.contains("cospan logs"), "{notes:?}");
    assert_eq!(
        translate_component("#SBATCH -D run/1")
            .directory
            .unwrap()
            .as_str(),
        "run/1"
    );
}

#[test]
fn what_cannot_be_had_is_refused_with_its_line_and_a_way_out() {
    for (line, expected) in [
        (
            "--dependency=afterok:7",
            "--dependency cannot be passed on; take it out, and wait",
        ),
        ("-d singleton", "--dependency"),
        ("--begin=now+1hour", "--begin"),
        ("--hold", "cospan freeze"),
        ("--wait", "cospan submit --wait"),
        ("--clusters=a", "placement chooses"),
        ("--test-only", "--dry-run"),
        ("--wrap=id", "--wrap"),
        ("--partiton=x", "did you mean --partition?"),
        ("--mem=lots", "\"lots\" cannot be read; write it as 4G"),
        ("--mem", "--mem has no value"),
        ("--mem=", "--mem has no value"),
        ("-n", "--ntasks has no value"),
        ("-n 0", "at least 1"),
        ("-Z", "there is no option -Z"),
        ("--hold=1", "takes no value"),
        ("job.sh", "\"job.sh\" is no option"),
        ("-", "\"-\" is no option"),
        ("-J 'x", "a quote ' is not closed"),
        ("--array=5-1", "--array: "),
        ("--signal=KILL", "signals are USR1"),
        ("--export=A-B=c", "--export"),
        ("-o /x/%4q", "only %A"),
        ("--chdir=../x", "--chdir"),
        ("--open-mode=w", "append or truncate"),
        ("-N 4-2", "--nodes"),
        ("--gres=gpu:many:x", "--gres"),
    ] {
        let (at, said) = refusal_of(&format!(
            "#!/bin/sh\n# about\n#SBATCH {line}\n#SBATCH -t1\n"
        ));
        assert_eq!(at, Some(3), "{line}: {said}");
        assert!(said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn a_script_without_a_limit_or_that_is_no_text_is_refused() {
    let (_, told) = refusal_of("#!/bin/sh\n#SBATCH -p odd\necho\n");
    assert!(
        told.contains("no site reports a default time of odd; say how long"),
        "{told}"
    );
    for none in ["0", "UNLIMITED", "INFINITE"] {
        let said = refusal_of(&format!("#!/bin/sh\n#SBATCH -t {none}\n"));
        assert!(said.0 == Some(2) && said.1.contains("no limit"), "{said:?}");
    }
    assert_eq!(refusal_of("#!/bin/sh\r\necho\r\n").0, Some(1));
    assert_eq!(refusal_of("#!/bin/sh\n\n\0").0, Some(3));
    assert!(
        refusal_of(&("#!/bin/sh\n".to_owned() + &"#".repeat(130_000)))
            .1
            .contains("are allowed")
    );
}

#[test]
fn options_that_say_nothing_here_are_noted_unless_nobody_would_miss_them() {
    let notes = |lines: &str| translate_text(&script_with_lines(lines)).unwrap().notes;
    assert_eq!(
        notes("#SBATCH --parsable -Q --verbose --get-user-env=10L"),
        []
    );
    let told = notes("#SBATCH --comment=mine");
    assert!(
        told[0].0 == 2 && told[0].1.contains("--comment has no effect"),
        "{told:?}"
    );
    let late = translate_text("#!/bin/sh\n#SBATCH -t1\necho\n#SBATCH -n 9\n").unwrap();
    assert!(late.notes[0].0 == 4 && late.notes[0].1.contains("after the first command"));
    assert_eq!(late.job.component[0].processors, 1);
}

#[test]
fn arguments_of_the_script_come_last_and_as_they_are() {
    let arguments = ["a b".to_owned(), "{{".to_owned(), "--".to_owned()];
    let text = script_with_lines("#SBATCH -a 1-2");
    let script = BatchScript {
        name: "job.sh",
        text: &text,
        arguments: &arguments,
    };
    let around = JobFileContext {
        variable: &|_| None,
        default_time: &|_| None,
        smallest_node: &|_| None,
    };
    let job = translate_script(&script, around)
        .unwrap()
        .job
        .into_specs(2, cospan_domain::units::Bytes(u64::MAX))
        .unwrap()
        .remove(0);
    let given = job.components[0].program.unpack().arguments;
    let last: Vec<&str> = given[given.len() - 4..].iter().map(AsRef::as_ref).collect();
    assert_eq!(last, ["--", "a b", "{{", "--"]);
}

/// Beginnings of option lines that are right, and pieces that may not be.
fn any_script() -> impl Strategy<Value = String> {
    let names = option_table::TABLE
        .iter()
        .map(|known| known.name)
        .collect::<Vec<_>>();
    let piece = prop_oneof![
        any::<String>(),
        prop::sample::select(names).prop_map(|name| format!("--{name}=")),
        "[-a-zA-Z]{1,3}",
        "[0-9:@%,\\-*|&]{0,9}",
        Just("\n#SBATCH ".to_owned()),
        Just("hetjob".to_owned()),
        Just(" -t 1 ".to_owned()),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| format!("#!/bin/sh\n{}", pieces.concat()))
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_and_what_is_read_is_a_valid_job(text in any_script()) {
        match translate_text(&text) {
            Err(error) => prop_assert!(!error.problem.is_empty() && !error.remedy.is_empty()),
            Ok(translated) => {
                let written = serde_json::to_string(&translated.job).unwrap();
                let again: JobDocument = serde_json::from_str(&written).unwrap();
                prop_assert_eq!(&again, &translated.job, "the server reads what was meant");
            }
        }
    }
}

#[test]
fn what_gives_no_time_may_run_as_long_as_its_partition_has_it() {
    let read = |lines: &str| {
        let translated = translate_text(&format!("#!/bin/sh\n{lines}\necho\n")).unwrap();
        (translated.job.wall_time.to_string(), translated.notes)
    };
    let (time, notes) = read("#SBATCH -p short");
    assert_eq!(time, "10m");
    let told = "no --time: it may run for 10m, the default of partition short of alpha";
    assert_eq!(notes, [(1, told.to_owned())]);
    assert_eq!(read("").0, "1h", "the partition of those who name none");
    assert_eq!(
        read("#SBATCH -p short\n#SBATCH hetjob").0,
        "1h",
        "they run together"
    );
    assert_eq!(
        read("#SBATCH -p short --time=5"),
        ("5m".into(), Vec::new()),
        "as it says"
    );
}
