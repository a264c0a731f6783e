//! What an attempt asks of nodes: several of them, or what no node ever has.

use std::collections::BTreeSet;

use cospan_domain::ids::{Attempt, ComponentIndex, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;
use cospan_sites::contract::{
    SiteFixture, attempt_tag, await_exit, await_observation, go_decision, read_stdout,
    script_program, start_attempt, submit_request,
};
use cospan_sites::port::{
    AttemptObservation, ExitCause, GateDecision, GoDecision, RoundPeer, SiteEndReason, SiteError,
};

use super::fixture::SlurmSiteFixture;

/// Slurm takes these and never starts them, or a newer one refuses what is too wide at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_never_run_is_recognised_by_its_reason() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let plain = |number| submit_request(attempt_tag(number), script_program("echo ran"));
    let mut long = plain(1);
    long.wall_time = DurationMs::from_secs(3 * 86_400);
    let mut wide = plain(2);
    wide.lrm_options = vec!["--nodes=3".into()];
    wide.resources = Resources::processors(3);
    for never in [long, wide] {
        match site.queue().submit(&never).await {
            Ok(_) => {}
            Err(SiteError::Unfit(_)) if !never.lrm_options.is_empty() => continue,
            Err(error) => panic!("{error}"),
        }
        let seen = await_observation(&*site, never.tag, |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Ended { .. })
        })
        .await;
        let AttemptObservation::Ended {
            began: false, why, ..
        } = seen
        else {
            panic!("{seen:?}")
        };
        assert_eq!(why, SiteEndReason::NeverRuns, "{:?}", never.lrm_options);
        site.queue().cancel(never.tag, None).await.unwrap();
    }
}

/// Nothing of ours is exported, and `srun` finds its programs all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_on_two_nodes_knows_both_and_starts_on_both() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let text = "srun sh -c 'echo on $SLURMD_NODENAME $SLURM_PROCID'; echo told $COSPAN_HOSTS";
    let mut wide = submit_request(attempt_tag(1), script_program(text));
    wide.resources = Resources::processors(4);
    let shape = ["--partition=pair", "--nodes=2", "--ntasks-per-node=2"];
    wide.lrm_options = shape.map(Into::into).into();
    site.queue().submit(&wide).await.unwrap();
    let AttemptObservation::Ready(at) =
        await_observation(&*site, attempt_tag(1), |seen: &AttemptObservation| {
            matches!(seen, AttemptObservation::Ready(_))
        })
        .await
    else {
        panic!()
    };
    let GateDecision::Go(go) = go_decision() else {
        panic!()
    };
    let peer = RoundPeer {
        attempt: Attempt(1),
        site: SiteName::new("there").unwrap(),
        host: at.host.to_string(),
        processors: 4,
    };
    let open = GateDecision::Go(GoDecision {
        rank: ComponentIndex(0),
        peers: vec![peer],
        ..go
    });
    site.gate()
        .decide_gate(attempt_tag(1), &open)
        .await
        .unwrap();
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    let said = read_stdout(&*site, attempt_tag(1)).await;
    let ran = |line: &str| Some(line.strip_prefix("on ")?.split_once(' ')?.0.to_owned());
    let ran: Vec<String> = said.lines().filter_map(ran).collect();
    assert_eq!(ran.len(), 4, "{said}");
    let nodes: BTreeSet<&str> = ran.iter().map(String::as_str).collect();
    let told = said
        .lines()
        .find_map(|line| line.strip_prefix("told "))
        .unwrap();
    assert_eq!(told.split('+').collect::<BTreeSet<_>>(), nodes, "{said}");
    assert_eq!(nodes.len(), 2, "{said}");
}

/// A script that says nothing of tasks leaves them to `srun`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_nodes_start_as_many_tasks_as_srun_is_told() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let text = "srun --ntasks-per-node=4 echo ran";
    let mut whole = submit_request(attempt_tag(1), script_program(text));
    whole.resources = Resources::processors(2);
    let shape = ["--partition=pair", "--nodes=2", "--exclusive"];
    whole.lrm_options = shape.map(Into::into).into();
    start_attempt(&*site, &whole).await;
    assert_eq!(await_exit(&*site, attempt_tag(1)).await, ExitCause::Code(0));
    assert_eq!(read_stdout(&*site, attempt_tag(1)).await, "ran\n".repeat(8));
}

/// The cluster's own check of submissions refuses jobs of so many processors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_controller_refuses_is_the_jobs_own_affair() {
    let Some(fixture) = SlurmSiteFixture::offered() else {
        return;
    };
    let site = fixture.site();
    let mut unwanted = submit_request(attempt_tag(1), script_program("echo ran"));
    unwanted.resources = Resources::processors(13);
    let mut odd = submit_request(attempt_tag(2), script_program("echo ran"));
    odd.lrm_options = ["--gpus=4", "--gpus-per-task=1"].map(Into::into).into();
    for (refused, words) in [(unwanted, "Unspecified error"), (odd, "")] {
        let answer = site.queue().submit(&refused).await;
        assert!(
            matches!(&answer, Err(SiteError::Unfit(why)) if why.contains(words)),
            "{answer:?}"
        );
    }
}
