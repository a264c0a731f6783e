//! Scripts as real `sbatch` 22.05, 24.11 and 26.05 read them.

use super::tests::{
    refusal_of, script_with_lines, slurm_options, translate_component, translate_text,
};
use super::{component_demands, option_table};

fn minutes(lines: &str) -> String {
    let text = format!("#!/bin/sh\n{lines}\necho\n");
    translate_text(&text).unwrap().job.wall_time.to_string()
}

/// Processors of a component.
fn processors(lines: &str) -> u32 {
    translate_component(lines).processors
}

/// Demands on the labels of a site.
fn demands(lines: &str) -> String {
    let demands = translate_component(lines).constraints;
    let demands: Vec<String> = demands.iter().map(ToString::to_string).collect();
    demands.join(" ")
}

#[test]
fn lines_of_pbs_and_lsf_win_over_those_of_slurm_in_whatever_order() {
    let pbs = "#PBS -l walltime=00:10:00";
    let own = "#SBATCH -t 5";
    let lsf = "#BSUB -W 20";
    assert_eq!(minutes(&format!("{own}\n{pbs}")), "10m");
    assert_eq!(minutes(&format!("{pbs}\n{own}")), "10m");
    assert_eq!(minutes(&format!("{lsf}\n{own}\n{pbs}")), "20m");
    assert_eq!(minutes(&format!("{own} --ignore-pbs\n{pbs}\n{lsf}")), "5m");
    assert_eq!(minutes(&format!("{own}\necho\n{pbs}")), "10m", "anywhere");
}

#[test]
fn times_of_pbs_and_lsf_are_minutes_as_those_of_slurm_are() {
    assert_eq!(minutes("#PBS -l walltime=90"), "1h30m");
    assert_eq!(minutes("#BSUB -W 1:30"), "2m");
    assert_eq!(minutes("#PBS -l nodes=1,walltime=1:00:00"), "1h");
}

#[test]
fn a_limit_is_kept_in_whole_minutes_upwards() {
    for (time, kept) in [
        ("90", "1h30m"),
        ("0:30", "1m"),
        ("0-12", "12h"),
        ("0-08:00", "8h"),
        ("1-2", "1d2h"),
        ("0-0:30", "30m"),
        ("00:90:00", "1h30m"),
        ("00:10:30", "11m"),
    ] {
        assert_eq!(minutes(&format!("#SBATCH -t {time}")), kept, "{time}");
    }
    for none in ["0", "0:0:0", "infinite", "UNLIMITED"] {
        let (_, said) = refusal_of(&format!("#!/bin/sh\n#SBATCH -t {none}\n"));
        assert!(said.contains("no limit"), "{none}: {said}");
    }
}

#[test]
fn memory_of_lsf_is_kilobytes_of_each_processor_rounded_up_by_slurm() {
    let options = |lines: &str| slurm_options(&translate_component(lines));
    assert_eq!(
        options("#BSUB -M 2000 -n 1"),
        ["--mem-per-cpu=2000K", "--ntasks=1"]
    );
    let kept = translate_component("#BSUB -M 2000 -n 4").memory.unwrap();
    assert_eq!(kept.0.0, 4 * 2_000 * 1_024);
}

#[test]
fn nodes_of_pbs_are_added_up_and_multiplied_as_sbatch_does() {
    let lines = "#PBS -l nodes=2:ppn=4+1:ppn=2";
    assert_eq!(processors(lines), 18);
    assert_eq!(demands(lines), "nodes>=3 node_processors>=6");
    let chunks = "#PBS -l select=2:ncpus=4:mpiprocs=2:mem=4gb -q short";
    let component = translate_component(chunks);
    assert_eq!(component.processors, 8);
    assert_eq!(component.memory.unwrap().0.0, 8 << 30);
    assert_eq!(
        slurm_options(&component),
        [
            "--cpus-per-task=2",
            "--mem=4gb",
            "--mincpus=4",
            "--nodes=2",
            "--ntasks-per-node=2",
            "--partition=short",
        ]
    );
    let unread = translate_component("#PBS -l procs=5,pmem=1gb,vmem=2gb");
    assert_eq!((unread.processors, unread.memory), (1, None));
    assert_eq!(slurm_options(&unread), ["--nodes=1"]);
}

#[test]
fn letters_of_pbs_are_what_sbatch_takes_them_for() {
    let text = "#!/bin/sh\n#PBS -N wave -j oe -V -m abe -M me@x\n#PBS -J 0-3 -v A=1\n#PBS -v B=2 -t 5-6\n#SBATCH -t1\n";
    let job = translate_text(text).unwrap().job;
    assert_eq!(job.name.as_deref(), Some("wave"));
    assert_eq!(job.sweep.unwrap().array.as_deref(), Some("5-6"));
    let component = &job.component[0];
    assert_eq!(component.environment.get("A").map(|v| &**v), Some("1"));
    assert_eq!(component.environment.get("B").map(|v| &**v), Some("2"));
    assert_eq!(
        slurm_options(component),
        [
            "--mail-type=BEGIN,END,FAIL",
            "--mail-user=me@x",
            "--nodes=1"
        ]
    );
    for (lines, problem) in [
        (
            "#PBS -W depend=afterok:7",
            "--dependency cannot be passed on",
        ),
        ("#PBS -h", "--hold cannot be passed on"),
        ("#PBS job.sh", "is nothing that sbatch reads"),
        ("#PBS -Z x", "is nothing that sbatch reads"),
        (
            "#PBS -l ncpus=4,walltime=1:00:00",
            "--mincpus: \"4,walltime=1\"",
        ),
    ] {
        let (line, said) = refusal_of(&script_with_lines(lines));
        assert!(line == Some(2) && said.contains(problem), "{lines}: {said}");
    }
}

#[test]
fn memory_has_units_of_1024_and_no_fractions() {
    for (mem, kibibytes) in [
        ("5GB", 5 << 20),
        ("2g", 2 << 20),
        ("1536MB", 1_536 << 10),
        ("4194304K", 4_194_304),
        ("932G", 932 << 20),
    ] {
        let memory = translate_component(&format!("#SBATCH --mem={mem}")).memory;
        assert_eq!(memory.unwrap().0.0, kibibytes << 10, "{mem}");
    }
    let (_, said) = refusal_of(&script_with_lines("#SBATCH --mem=1.5G"));
    assert!(said.contains("--mem"), "{said}");
}

#[test]
fn words_without_quotes_are_no_part_of_a_name() {
    let commented = translate_component("#SBATCH --mem=4G # four");
    assert_eq!(commented.memory.unwrap().0.0, 4 << 30);
    let (_, said) = refusal_of(&script_with_lines("#SBATCH --job-name   a b"));
    assert!(said.contains("\"b\" is no option"), "{said}");
    let named = translate_text(&script_with_lines("#SBATCH --job-name \"a b\"")).unwrap();
    assert_eq!(named.job.name.as_deref(), Some("a b"));
}

#[test]
fn a_partition_from_a_line_of_pbs_gives_its_default_time() {
    assert_eq!(minutes("#PBS -q short"), "10m");
}

#[test]
fn forms_that_real_scripts_have_are_read() {
    assert_eq!(processors("#SBATCH -N 2 --tasks-per-node=3"), 6);
    assert_eq!(processors("#SBATCH -N 4 -n 2"), 2);
    assert_eq!(demands("#SBATCH -N 4 -n 2"), "nodes>=2");
    assert_eq!(demands("#SBATCH --mincpus=4"), "node_processors>=4");
    assert_eq!(
        processors("#SBATCH -n 2 --tres-per-task=cpu=3,gres/gpu=1"),
        6
    );
    let task = translate_component("#SBATCH -n 2 --tres-per-task=cpu:3,gres/gpu:a100:2");
    assert_eq!(task.gpus, Some(4));
    let none = translate_component("#SBATCH --gres=gpu:0 -D ./");
    assert!(none.gpus.is_none() && none.directory.is_none());
    let below = translate_component("#SBATCH -D ./run//1/");
    assert_eq!(below.directory.unwrap().as_str(), "run/1");
    let text = script_with_lines("#SBATCH --array=[0-3] -o /x/%3a-%A.out");
    let array = translate_text(&text).unwrap().job.sweep.unwrap().array;
    assert_eq!(array.as_deref(), Some("0-3"));
    let many = translate_text(&script_with_lines("#SBATCH --array=0-1000")).unwrap();
    let limit = cospan_domain::units::Bytes(u64::MAX);
    assert_eq!(many.job.into_specs(1_001, limit).unwrap().len(), 1_001);
}

#[test]
fn options_of_plug_ins_are_passed_on_with_a_note() {
    let lines = "#SBATCH --container-image=docker://x --container-mounts /a:/b --no-container-entrypoint -n 2";
    let component = translate_component(lines);
    assert_eq!(component.processors, 2);
    assert_eq!(
        slurm_options(&component),
        [
            "--ntasks=2",
            "--container-image=docker://x",
            "--container-mounts=/a:/b",
            "--no-container-entrypoint",
        ]
    );
    let notes = translate_text(&script_with_lines(lines)).unwrap().notes;
    assert!(
        notes[0].1.contains("no option of sbatch itself"),
        "{notes:?}"
    );
}

#[test]
fn newer_options_are_known() {
    let lines = "#SBATCH --segment=2 --oom-kill-step --stepmgr --tres-bind=gres/gpu:closest --resv-ports=2 \
                 --spread-segments --consolidate-segments -N2";
    assert_eq!(slurm_options(&translate_component(lines)).len(), 8);
    for refused in ["--external", "--container-id=x", "--container-type=x"] {
        let (_, said) = refusal_of(&script_with_lines(&format!("#SBATCH {refused}")));
        assert!(said.contains("cannot be passed on"), "{said}");
    }
}

#[test]
fn sites_under_slurm_refuse_every_option_that_is_not_passed_on() {
    for known in option_table::TABLE.iter().filter(|known| {
        known.meaning != option_table::OptionTreatment::Passed
            && !component_demands::BOTH.contains(&known.name)
            && known.name != "kill-on-invalid-dep"
    }) {
        for word in [format!("--{}", known.name), format!("--{}=x", known.name)] {
            let passed = cospan_sites::slurm_site::check_option(&word.into());
            assert!(passed.is_err(), "{passed:?}");
        }
    }
}
