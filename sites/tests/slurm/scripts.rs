//! Scripts that need what a login gives them, although nothing of ours is exported.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use cospan_domain::runner::{EndWarning, PayloadSignal, SignalReceiver};
use cospan_domain::units::DurationMs;
use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_exit, program, read_stdout, script_program, start_attempt,
    submit_request,
};
use cospan_sites::port::ExitCause;

use super::fixture::SlurmSiteFixture;

/// What scripts come to a site with.
const LAUNCHER: &str = include_str!("../../../languages/src/sbatch/launch.sh");

/// What they find where modules are installed: a function, defined by a start file.
const PROFILE: &str = "module() { LOADED=\"$LOADED $2\" PATH=\"$HOME/$2/bin:$PATH\"; }\n";

const SCRIPT: &str = "#!/bin/bash -l\n\
    module load gcc\n\
    module load mpi\n\
    echo \"loaded$LOADED, user $USER of $(id -un), job ${SLURM_JOB_ID:+known}\"\n\
    solve\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_with_a_login_shell_finds_its_modules() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let home = fixture.root().join("files/home");
    let solve = home.join("mpi/bin/solve");
    fs::create_dir_all(solve.parent().unwrap()).unwrap();
    fs::write(&solve, "#!/bin/sh\necho solved\n").unwrap();
    fs::set_permissions(&solve, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.join(".bash_profile"), PROFILE).unwrap();
    let mut program = program("/bin/sh", &["-c", LAUNCHER, "job.sh", SCRIPT, "--"]);
    program
        .environment
        .insert("HOME".into(), home.display().to_string().into());
    start_attempt(&*site, &submit_request(attempt_tag(1), program)).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    let said = read_stdout(&*site, attempt_tag(1)).await;
    let (first, rest) = said.split_once('\n').unwrap();
    let account = first
        .rsplit_once(" of ")
        .unwrap()
        .1
        .split_once(',')
        .unwrap()
        .0;
    assert_eq!(
        first,
        format!("loaded gcc mpi, user {account} of {account}, job known")
    );
    assert_eq!(rest, "solved\n");
}

/// A newer Slurm gives none of these to a job that exports nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payload_has_the_home_the_name_and_the_path_of_its_account() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let text = r#"
        printenv PATH > /dev/null && srun sh -c 'echo "$(cd && pwd -P) of $USER, $LOGNAME"'
        cd "$(getent passwd "$(id -u)" | cut -d: -f6)"
        echo "$(pwd -P) of $(id -un), $(id -un)""#;
    let request = submit_request(attempt_tag(1), script_program(text));
    start_attempt(&*site, &request).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    let said = read_stdout(&*site, attempt_tag(1)).await;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{said}");
}

/// What is not needed at the gate is given back, and the batch job ends as its payload does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slurm_and_payload_tell_each_other_what_is_true() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let text = r#"
        umask
        echo "$SLURM_JOB_ID"
        for try in $(seq 100); do
            left=$(squeue -h -j "$SLURM_JOB_ID" -o %L)
            case $left in ?:??) break ;; esac
            sleep 0.1
        done
        echo "$left"
        exit 3"#;
    let mut request = submit_request(attempt_tag(1), script_program(text));
    request.wall_time = DurationMs::from_secs(300);
    request.hold_max = DurationMs::from_secs(1_800);
    start_attempt(&*site, &request).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(3));
    let said = read_stdout(&*site, attempt_tag(1)).await;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], fixture.slurm(&["sh", "-c", "umask"]).trim());
    let minutes: u32 = lines[2].split(':').next().unwrap().parse().unwrap();
    assert!(
        (4..9).contains(&minutes),
        "of half an hour at the gate: {said}"
    );
    let known = fixture.slurm(&["scontrol", "-o", "show", "job", lines[1]]);
    assert!(known.contains(" ExitCode=3:0 "), "{known}");
}

/// As `--signal` of sbatch: to the steps alone, or with `B:` to the script alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_reaches_the_steps_alone_or_the_script_alone() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let text = r#"
        trap 'echo script; exit 0' USR1
        srun sh -c 'trap "echo step; exit 0" USR1; echo begun; while :; do sleep 0.1; done' &
        wait"#;
    for (number, to, heard) in [
        (1, SignalReceiver::Steps, "begun\nstep\n"),
        (2, SignalReceiver::Script, "begun\nscript\n"),
    ] {
        let mut request = submit_request(attempt_tag(number), script_program(text));
        request.wall_time = DurationMs::from_secs(60);
        request.warning = Some(EndWarning {
            signal: PayloadSignal::Usr1,
            before: DurationMs::from_secs(50),
            to,
        });
        start_attempt(&*site, &request).await;
        let end = await_exit(&*site, attempt_tag(number)).await;
        assert_eq!(end, ExitCause::Code(0), "{to:?}");
        assert_eq!(read_stdout(&*site, attempt_tag(number)).await, heard);
    }
}
