//! Batch scripts of Slurm as their users meet them, on sites that have no Slurm.

use std::fs;

use cospan_chaos_tests::test_environment::Layout;

use super::job_fixture::{Scene, environment, has, scene, scene_on};

/// Submits a script, waits for it, and gives what it printed.
fn printed(scene: &Scene, id: u64, text: &str) -> String {
    scene.must(&["submit", &scene.file("job.sh", text), "--wait"]);
    scene.must(&["logs", &id.to_string()])
}

#[test]
fn a_batch_script_finds_what_it_expects_of_slurm() {
    let mut scene = scene(1);
    let text = "#!/bin/bash\n#SBATCH --job-name='my wave'   # for people\n#SBATCH -n 2 -c2 -t 1\n\
                #SBATCH --signal=USR1@10\n\
                cd $SLURM_SUBMIT_DIR && pwd && basename $0\n\
                echo $SLURM_JOB_NAME,$SLURM_NTASKS,$SLURM_CPUS_PER_TASK,$SLURM_JOB_ID,$SLURM_NNODES\n\
                echo \"$#: $1|$2\"; echo \"$HOME $USER\"\n";
    let file = scene.file("job.sh", text);
    scene.must(&["submit", &file, "--wait", "--", "a b", "$(id)"]);
    let said = scene.must(&["logs", "1"]);
    has(
        &said,
        &["/work\njob.sh\nmy wave,2,2,1,1\n", "2: a b|$(id)\n"],
    );
    assert!(
        said.lines().last().unwrap().starts_with('/'),
        "it has a home: {said}"
    );
    let job = scene.get("/v1/jobs/1");
    assert_eq!(job["components"][0]["processors"], 4, "{job}");
    assert_eq!(job["document"]["warning"]["before"], "10s", "{job}");
    scene.server.kill().unwrap();
}

#[test]
fn an_array_of_a_script_runs_each_index_once_with_the_script_as_it_was() {
    let mut scene = scene(2);
    let text = "#!/bin/sh\n#SBATCH --array=3-9:3%2 --time=1\n\
                echo {{$SLURM_ARRAY_TASK_ID}} $SLURM_ARRAY_JOB_ID of $SLURM_ARRAY_TASK_COUNT\n";
    let said = scene.must(&["submit", &scene.file("job.sh", text)]);
    assert_eq!(said, "jobs 1-3 submitted: 3 runs, group:1\n");
    scene.must(&["wait", "group:1"]);
    for (id, index) in [("1", 3), ("2", 6), ("3", 9)] {
        assert_eq!(
            scene.must(&["logs", id]),
            format!("{{{{{index}}}}} 1 of 3\n")
        );
    }
    scene.server.kill().unwrap();
}

#[test]
fn a_script_has_the_environment_of_a_login_and_none_of_its_noise() {
    let mut scene = scene(1);
    let home = scene.environment.path().join("account");
    fs::create_dir(&home).unwrap();
    let start = "echo noise\nload() { echo loaded $1; }\nexport -f load\nexport SITE=ours\ncd /\n";
    fs::write(home.join(".bash_profile"), start).unwrap();
    let export = format!("#SBATCH -t 1 --export=ALL,HOME={}\n", home.display());
    let body = "load gcc; echo $SITE; basename $PWD\n";
    let said = printed(&scene, 1, &format!("#!/bin/bash\n{export}{body}"));
    assert_eq!(said, "loaded gcc\nours\nwork\n");
    let said = printed(&scene, 2, &format!("#!/bin/bash -l\n{export}{body}"));
    assert_eq!(said, "noise\nloaded gcc\nours\n/\n", "it logs in by itself");
    let nothing = export.replace("ALL,", "NIL,");
    let said = printed(
        &scene,
        3,
        &format!("#!/bin/sh\n{nothing}echo \"<$SITE>\"\n"),
    );
    assert_eq!(said, "<>\n");
    scene.server.kill().unwrap();
}

#[test]
fn the_parts_of_a_heterogeneous_script_start_together_at_two_sites() {
    let mut scene = scene(2);
    let text = "#!/bin/sh\n#SBATCH -n 3 -t 1\n#SBATCH hetjob\n#SBATCH -n 4\n\
                echo part $COSPAN_RANK of $SLURM_HET_SIZE has $SLURM_NTASKS\n";
    let said = printed(&scene, 1, text);
    has(&said, &["part 0 of 2 has 3", "part 1 of 2 has 4"]);
    let job = scene.get("/v1/jobs/1");
    assert_ne!(
        job["components"][0]["site"], job["components"][1]["site"],
        "{job}"
    );
    scene.server.kill().unwrap();
}

#[test]
fn a_script_prints_to_the_files_that_it_names_at_the_site() {
    let mut scene = scene(1);
    let folder = scene.environment.path().join("run");
    fs::create_dir(&folder).unwrap();
    let text = format!(
        "#!/bin/sh\n#SBATCH -t 1 -J wave -D {} -o %x-%j.out\n#SBATCH -e %x.err\n\
         pwd; echo good; echo bad >&2\n",
        folder.display()
    );
    let said = printed(&scene, 1, &text);
    has(&said, &["output goes to", "wave-1.out"]);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(read("wave-1.out"), format!("{}\ngood\n", folder.display()));
    assert_eq!(read("wave.err"), "bad\n");
    let nowhere = text.replace(&folder.display().to_string(), "/nowhere/at/all");
    scene.refused(
        &["submit", &scene.file("job.sh", &nowhere), "--wait"],
        1,
        &["exit code 1"],
    );
    let said = scene.must(&["logs", "2", "--stream", "stderr"]);
    has(&said, &["job.sh: /nowhere/at/all cannot be entered"]);
    scene.server.kill().unwrap();
}

#[test]
fn a_script_that_puts_itself_back_into_the_queue_is_run_again_as_often_as_it_may() {
    let mut scene = scene(1);
    for shell in ["/bin/sh", "/bin/bash -l"] {
        let text = format!(
            "#!{shell}\n#SBATCH -t 1\n[ -z \"$COSPAN_EARLIER_DIR\" ] || {{ echo again; exit 0; }}\n\
             trap 'scontrol requeue $SLURM_JOB_ID; echo not; exit 0' USR1\n\
             kill -s USR1 $$\nsleep 50\n"
        );
        let file = scene.file("job.sh", &text);
        scene.must(&["submit", &file, "--max-retries", "1", "--wait"]);
        let said = scene.must(&["logs", "last"]);
        assert_eq!(said, "again\n", "{shell}");
        let why = ["put itself back into the queue"];
        scene.refused(&["submit", &file, "--wait"], 1, &why);
    }
    scene.server.kill().unwrap();
}

#[test]
fn what_a_script_asks_for_in_vain_is_refused_with_its_line_or_noted() {
    let mut scene = scene(1);
    let text = |line: &str| format!("#!/bin/sh\n#SBATCH -t 1\n#SBATCH {line}\ntrue\n");
    let file = scene.file("job.sh", &text("--dependency=afterok:7"));
    let words = [
        "job.sh:3: --dependency cannot be passed on",
        "> take it out",
    ];
    scene.refused(&["submit", &file], 2, &words);
    let noted = scene.cospan(&[
        "submit",
        &scene.file("job.sh", &text("-o out.txt")),
        "--wait",
    ]);
    let said = String::from_utf8_lossy(&noted.stderr).into_owned();
    assert!(noted.status.success());
    has(
        &said,
        &["job.sh:3: --output=out.txt is not written", "cospan logs"],
    );
    let toml = scene.job_file("wall_time = \"1m\"\n");
    scene.refused(
        &["submit", &toml, "--", "x"],
        2,
        &["are for a single script"],
    );
    scene.server.kill().unwrap();
}

/// So many sites, of which the last has these labels.
fn labelled(sites: usize, labels: &str) -> Scene {
    let environment = environment(&Layout {
        sites,
        processors: 4,
        ..Layout::default()
    });
    let config = fs::read_to_string(environment.config()).unwrap();
    let last = format!("name = \"s{sites}\"\n");
    let labels = format!("{last}labels = {labels}\n");
    fs::write(environment.config(), config.replace(&last, &labels)).unwrap();
    scene_on(environment)
}

#[test]
fn a_script_goes_where_its_partition_is() {
    let mut scene = labelled(2, "{ partition = [\"short\", \"long\"] }");
    let text = |partition: &str| format!("#!/bin/sh\n#SBATCH -t 1 -p {partition}\ntrue\n");
    scene.must(&[
        "submit",
        &scene.file("job.sh", &text("other,short")),
        "--wait",
    ]);
    assert_eq!(scene.get("/v1/jobs/1")["components"][0]["site"], "s2");
    scene.refused(
        &["submit", &scene.file("job.sh", &text("gpu"))],
        3,
        &["partition = gpu"],
    );
    scene.server.kill().unwrap();
}

#[test]
fn what_no_site_has_for_a_script_is_told_by_name() {
    let mut scene = labelled(1, "{ partition = \"*\" }\nmemory = \"2GB\"\ngpus = 0");
    let text = |asked: &str| format!("#!/bin/sh\n#SBATCH -t 1 -p any {asked}\ntrue\n");
    scene.must(&[
        "submit",
        &scene.file("job.sh", &text("-N 1 -c 4")),
        "--wait",
    ]);
    for (asked, missing) in [
        ("-N 2", "nodes is at least 2"),
        ("--mem=9G", "node_memory_mb is at least 9664"),
        ("--gres=gpu:a100:1", "gpu = a100"),
        ("-c 5", "node_processors is at least 5"),
        ("-C skylake", "feature = skylake"),
        ("-A physics", "account = physics"),
    ] {
        let file = scene.file("job.sh", &text(asked));
        scene.refused(&["submit", &file], 3, &["fits no site", missing]);
    }
    scene.server.kill().unwrap();
}
