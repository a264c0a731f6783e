//! How often Slurm is asked, and what is known without asking it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cospan_domain::ids::{AttemptTag, SiteName};
use cospan_domain::resources::Resources;
use cospan_domain::units::DurationMs;

use super::{SlurmSite, SlurmSiteConfig};
use crate::contract::{attempt_tag, script_program, submit_request};
use crate::exec::{
    CommandExecutor, CommandExit, CommandOutput, ExecCommand, ExecError, ProgramOrScript,
};
use crate::port::{
    AttemptObservation, QueuedAttempt, SiteEndReason, SiteMonitor, SiteQueue, SiteStatus,
};

/// When files were written, by the clock of their site, which shows some time more.
pub(super) const WRITTEN_S: i64 = 1_800_000_000 - 50;

/// A cluster whose jobs, load and files are what a test says they are.
#[derive(Debug, Default)]
pub(super) struct ScriptedCluster(Mutex<ScriptedClusterState>);

#[derive(Debug, Default)]
pub(super) struct ScriptedClusterState {
    pub(super) queue: String,
    idle: u32,
    drained: u32,
    pub(super) files: String,
    accounts: String,
    /// Slurm does not answer.
    pub(super) frozen: bool,
    /// Cancels do not arrive.
    pub(super) away: bool,
    /// Something else has a turn before it answers.
    slow: bool,
    /// Its clock was set by so many seconds.
    pub(super) set_s: i64,
    /// How what was cancelled was to end.
    pub(super) cancelled: Vec<String>,
    /// What of Slurm each status asked for.
    asked: Vec<String>,
}

impl ScriptedCluster {
    pub(super) fn change_script(&self, change: impl FnOnce(&mut ScriptedClusterState)) {
        change(&mut self.0.lock().unwrap());
    }

    /// What was asked since the last time.
    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

#[async_trait]
impl CommandExecutor for ScriptedCluster {
    async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
        let ProgramOrScript::Script { words, .. } = &command.work else {
            unreachable!()
        };
        let words: Vec<&str> = words[3..]
            .iter()
            .map(|word| word.to_str().unwrap())
            .collect();
        let slow = self.0.lock().unwrap().slow;
        if slow {
            tokio::task::yield_now().await;
        }
        let mut said = self.0.lock().unwrap();
        let mut answer = String::new();
        match words[0] {
            "describe" => {
                let idle = 64 - said.drained;
                let other = said.drained;
                answer += "config KillWait = 30 sec\n";
                answer += &format!("load normal*|up|0/{idle}/{other}/64|1-0\n");
                answer += "load gpu|up|0/16/0/16|2-0\n";
                answer += "nodes normal*|8|8|64000|(null)|(null)\n";
                answer += "nodes gpu|2|8|64000|gpu:a100:4|(null)\n";
            }
            "submit" => answer += "number 9\n",
            "cancel" if said.away => return Err(ExecError::NotStarted("no way there".to_owned())),
            "cancel" => said.cancelled.push(words[2].to_owned()),
            "accounts" => {
                said.asked.push(words.join(" "));
                answer += &said.accounts;
            }
            "status" => {
                said.asked.push(words[2..].join(" "));
                let clock = 1_800_000_000 + said.set_s;
                answer += &format!("clock {clock}.000\nuptime 50.000 50.100 boot\n");
                let is_asked = words.len() > 2;
                if said.frozen && is_asked {
                    answer += "fail unsent \n";
                } else if words.contains(&"queue") {
                    answer += &said.queue;
                }
                if words.contains(&"load") && !said.frozen {
                    let idle = said.idle;
                    let other = said.drained;
                    let allocated = 64 - idle - other;
                    answer += &format!("load normal*|up|{allocated}/{idle}/{other}/64|1-0\n");
                    answer += "load gpu|up|4/12/0/16|2-0\n";
                }
                answer += &said.files;
            }
            _ => {}
        }
        let stdout = (answer + "done\n").into_bytes();
        Ok(CommandOutput {
            ended: CommandExit::Code(0),
            stdout,
            stderr: Vec::new(),
        })
    }
}

pub(super) fn squeue_line(number: u32, tag: AttemptTag, state: &str, processors: u32) -> String {
    format!("queue {number}|{state}|None|{processors}|900|900|N/A|/root|{tag}|{tag}\n")
}

pub(super) fn attempt_files(tag: AttemptTag, number: u32, more: &[(&str, &str)]) -> String {
    let ready = format!("host n\npid 12\nstart 34\nboot b\njob {number}\nend {tag}");
    let mut text = format!("d 0.000 spool/{tag}\nd 0.000 attempts/{tag}\n");
    for (name, said) in [("ready", &*ready)].iter().chain(more) {
        text += &format!("f {WRITTEN_S}.000 attempts/{tag}/{name}\n");
        said.lines().for_each(|line| text += &format!("| {line}\n"));
    }
    text
}

pub(super) fn scripted_site() -> (Arc<ScriptedCluster>, SlurmSite) {
    let cluster = Arc::new(ScriptedCluster::default());
    cluster.change_script(|said| said.idle = 64);
    let name = SiteName::new("there").unwrap();
    let total = Resources::processors(64);
    let config = SlurmSiteConfig::new(name, "/root".into(), total, Vec::new());
    (
        cluster.clone(),
        SlurmSite::with_remote_root(config, cluster).unwrap(),
    )
}

pub(super) async fn poll_site(site: &SlurmSite) -> SiteStatus {
    tokio::time::advance(Duration::from_secs(2)).await;
    site.status(&[attempt_tag(1)]).await.unwrap()
}

pub(super) fn only_observation(status: &SiteStatus) -> &AttemptObservation {
    &status.attempts[&attempt_tag(1)]
}

#[tokio::test(start_paused = true)]
async fn accounts_are_asked_once_of_what_slurm_forgot_and_left_no_last_word() {
    let lost = |accounts: &'static str| async move {
        let (cluster, site) = scripted_site();
        cluster.change_script(|said| {
            said.files = attempt_files(attempt_tag(1), 5, &[("begun", "at 950")]);
            said.accounts = accounts.replace("TAG", &attempt_tag(1).to_string());
        });
        let mut seen = only_observation(&poll_site(&site).await).clone();
        for _ in 0..8 {
            seen = self::only_observation(&poll_site(&site).await).clone();
        }
        let asked = cluster.take_requests();
        let asked = asked
            .iter()
            .filter(|asked| asked.starts_with("accounts"))
            .count();
        (seen, asked)
    };
    let (preempted, asked) = lost("kept 5|PREEMPTED|2|900|901|960|/root|TAG\n").await;
    let AttemptObservation::Ended {
        why: SiteEndReason::Preempted,
        ..
    } = preempted
    else {
        panic!("{preempted:?}");
    };
    assert_eq!(asked, 1);
    for silent in ["unkept here\n", ""] {
        let (seen, asked) = lost(silent).await;
        assert!(
            matches!(seen, AttemptObservation::Vanished { .. }),
            "{seen:?}"
        );
        assert_eq!(asked, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_partition_has_what_its_own_nodes_have() {
    let (cluster, site) = scripted_site();
    let described = site.describe().await.unwrap();
    assert_eq!(described.total.other("gpus"), 0);
    let lanes = described.lanes.unwrap();
    let gpu = &lanes.partitions["gpu"];
    assert_eq!((gpu.total.processors, gpu.total.other("gpus")), (16, 8));
    assert_eq!(gpu.longest, Some(DurationMs::from_secs(2 * 86_400)));
    let idle = poll_site(&site).await.idle_in;
    assert_eq!((idle["gpu"].processors, idle["gpu"].other("gpus")), (12, 8));
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "PENDING", 5));
    site.forget_queue();
    assert_eq!(
        poll_site(&site).await.idle_in["gpu"].processors,
        7,
        "what waits may wait there"
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_gets_what_the_partition_has_that_it_names() {
    let (_, site) = scripted_site();
    let mut wanted = submit_request(attempt_tag(1), script_program(""));
    wanted.resources.others.insert("gpus".into(), 2);
    assert!(
        site.submit(&wanted).await.is_err(),
        "the site's own has none"
    );
    wanted.lrm_options = vec!["--partition=gpu".into()];
    site.submit(&wanted).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slurm_is_not_asked_while_an_attempt_runs_and_files_say_no_more() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2);
        said.files = attempt_files(attempt_tag(1), 5, &[]);
    });
    for _ in 0..5 {
        assert!(matches!(
            only_observation(&poll_site(&site).await),
            AttemptObservation::Ready(_)
        ));
    }
    assert_eq!(cluster.take_requests(), ["queue load", "", "", "", ""]);
    poll_site(&site).await;
    assert_eq!(
        cluster.take_requests(),
        ["queue load"],
        "after ten seconds it is"
    );
}

#[tokio::test(start_paused = true)]
async fn slurm_is_asked_about_what_it_has_not_said_to_go_on() {
    for state in ["COMPLETING", "COMPLETED", "NODE_FAIL"] {
        let (cluster, site) = scripted_site();
        cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), state, 2));
        poll_site(&site).await;
        poll_site(&site).await;
        assert_eq!(cluster.take_requests(), ["queue load", "queue"], "{state}");
    }
    let (cluster, site) = scripted_site();
    poll_site(&site).await;
    assert_eq!(
        *only_observation(&poll_site(&site).await),
        AttemptObservation::Absent
    );
    assert_eq!(
        cluster.take_requests(),
        ["queue load", "queue"],
        "absence is never remembered"
    );
}

#[tokio::test(start_paused = true)]
async fn slurm_is_asked_at_once_when_files_say_more_than_it_did() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "PENDING", 2));
    assert!(matches!(
        only_observation(&poll_site(&site).await),
        AttemptObservation::Queued(_)
    ));
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2);
        said.files = attempt_files(attempt_tag(1), 5, &[]);
    });
    assert!(matches!(
        only_observation(&poll_site(&site).await),
        AttemptObservation::Ready(_)
    ));
    assert_eq!(cluster.take_requests(), ["queue load", "", "queue"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_submitted_waits_until_slurm_is_asked() {
    let (cluster, site) = scripted_site();
    site.status(&[]).await.unwrap();
    let mut order = submit_request(attempt_tag(1), script_program("true"));
    order.resources = Resources::processors(3);
    site.submit(&order).await.unwrap();
    let status = poll_site(&site).await;
    assert_eq!(
        *only_observation(&status),
        AttemptObservation::Queued(QueuedAttempt::default())
    );
    assert_eq!(status.idle.processors, 61);
    assert_eq!(cluster.take_requests(), ["queue load", ""]);
}

#[tokio::test(start_paused = true)]
async fn slurm_is_asked_again_after_something_was_taken_from_its_queue() {
    for withdraws in [false, true] {
        let (cluster, site) = scripted_site();
        cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "PENDING", 2));
        poll_site(&site).await;
        if withdraws {
            site.withdraw(attempt_tag(1), &"5".parse().unwrap())
                .await
                .unwrap();
        } else {
            site.cancel(attempt_tag(1), None).await.unwrap();
        }
        poll_site(&site).await;
        assert_eq!(cluster.take_requests(), ["queue load", "queue"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_cluster_has_is_not_less_while_its_nodes_are_drained() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.drained = 48);
    assert_eq!(site.describe().await.unwrap().total.processors, 64);
    cluster.change_script(|said| said.idle = 16);
    assert_eq!(poll_site(&site).await.idle.processors, 16);
}

#[tokio::test(start_paused = true)]
async fn what_is_removed_is_not_remembered_to_run() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2));
    assert_eq!(
        *only_observation(&poll_site(&site).await),
        AttemptObservation::Starting
    );
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "COMPLETED", 2));
    site.remove_attempt(attempt_tag(1)).await.unwrap();
    assert_eq!(
        *only_observation(&poll_site(&site).await),
        AttemptObservation::Absent
    );
}

#[tokio::test(start_paused = true)]
async fn what_began_and_waits_again_has_time_to_be_ended_by_its_node() {
    let (cluster, site) = scripted_site();
    let decided = ("decision", "go");
    let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2);
        said.files = attempt_files(attempt_tag(1), 5, &[decided, ("begun", &begun)]);
    });
    assert!(matches!(
        only_observation(&poll_site(&site).await),
        AttemptObservation::Begun(_)
    ));
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "PENDING", 2));
    tokio::time::advance(Duration::from_secs(10)).await;
    for _ in 0..5 {
        let seen_now = poll_site(&site).await;
        assert!(
            matches!(only_observation(&seen_now), AttemptObservation::Unknown(_)),
            "{seen_now:?}"
        );
    }
    let seen_last = poll_site(&site).await;
    let AttemptObservation::Ended { began: true, .. } = only_observation(&seen_last) else {
        panic!("{seen_last:?}")
    };
}

#[tokio::test(start_paused = true)]
async fn idle_processors_follow_what_our_attempts_take_and_give_back() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| {
        (said.queue, said.idle) = (squeue_line(5, attempt_tag(1), "PENDING", 8), 40)
    });
    assert_eq!(
        poll_site(&site).await.idle.processors,
        32,
        "it is waited for"
    );
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 8);
        said.idle = 0;
        said.files = attempt_files(attempt_tag(1), 5, &[]);
    });
    assert_eq!(poll_site(&site).await.idle.processors, 32, "it is taken");
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "COMPLETED", 8);
        let decided = ("decision", "go");
        let exit = format!("cause code 0\nran 1\nend {}", attempt_tag(1));
        let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
        said.files = attempt_files(
            attempt_tag(1),
            5,
            &[decided, ("begun", &begun), ("exit", &exit)],
        );
    });
    let status = poll_site(&site).await;
    assert!(
        matches!(only_observation(&status), AttemptObservation::Exited(_)),
        "{status:?}"
    );
    assert_eq!(status.idle.processors, 40, "it is given back");
    assert!(cluster.take_requests().iter().all(|asked| asked != "load"));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(
        poll_site(&site).await.idle.processors,
        0,
        "its nodes were asked for"
    );
    assert_eq!(site.config.memory, DurationMs::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn files_are_read_while_slurm_does_not_answer() {
    let (cluster, site) = scripted_site();
    cluster.change_script(|said| said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2));
    assert_eq!(
        *only_observation(&poll_site(&site).await),
        AttemptObservation::Starting
    );
    cluster.change_script(|said| said.frozen = true);
    tokio::time::advance(Duration::from_secs(10)).await;
    let status = poll_site(&site).await;
    assert!(
        matches!(only_observation(&status), AttemptObservation::Unknown(_)),
        "never absent: {status:?}"
    );
    let age = status.silence.unwrap().age.unwrap();
    assert!(
        age >= DurationMs::from_secs(12),
        "of its latest answer: {age}"
    );
    let decided = ("decision", "go");
    let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
    cluster.change_script(|said| {
        said.files = attempt_files(attempt_tag(1), 5, &[decided, ("begun", &begun)])
    });
    assert!(matches!(
        only_observation(&poll_site(&site).await),
        AttemptObservation::Begun(_)
    ));
    let exit = format!("cause code 0\nran 1\nend {}", attempt_tag(1));
    let all = [decided, ("begun", &*begun), ("exit", &*exit)];
    cluster.change_script(|said| said.files = attempt_files(attempt_tag(1), 5, &all));
    poll_site(&site).await;
    assert_eq!(
        cluster.take_requests(),
        ["queue load", "queue load", "", ""],
        "Slurm is left alone"
    );
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(matches!(
        only_observation(&poll_site(&site).await),
        AttemptObservation::Exited(_)
    ));
    cluster.change_script(|said| said.frozen = false);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(poll_site(&site).await.silence, None);
}

/// An exit that was just seen, or one that a signal from outside made.
#[tokio::test(start_paused = true)]
async fn what_slurm_may_have_ended_is_not_judged_while_it_does_not_answer() {
    for (cause, wait_s) in [("code 0", 7), ("signal 15", 100), ("terminated", 100)] {
        let (cluster, site) = scripted_site();
        let decided = ("decision", "go");
        let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
        let exit = format!("cause {cause}\nran 1\nend {}", attempt_tag(1));
        let all = [decided, ("begun", &*begun), ("exit", &*exit)];
        cluster.change_script(|said| {
            (said.frozen, said.files) = (true, attempt_files(attempt_tag(1), 5, &all))
        });
        poll_site(&site).await;
        tokio::time::advance(Duration::from_secs(wait_s)).await;
        let status = poll_site(&site).await;
        assert!(
            matches!(only_observation(&status), AttemptObservation::Unknown(_)),
            "{cause}: {status:?}"
        );
    }
}

/// A look, while which something is done to the queue.
async fn poll_while_queue_changes(site: &SlurmSite, after: u64) -> AttemptObservation {
    tokio::time::advance(Duration::from_secs(after)).await;
    let tags = [attempt_tag(1)];
    let (status, ()) = tokio::join!(site.status(&tags), async { site.forget_queue() });
    only_observation(&status.unwrap()).clone()
}

#[tokio::test(start_paused = true)]
async fn what_is_done_to_the_queue_during_a_look_makes_no_job_unknown() {
    let (cluster, site) = scripted_site();
    let decided = ("decision", "go");
    let begun = format!("pid 13\nstart 35\nend {}", attempt_tag(1));
    cluster.change_script(|said| {
        said.queue = squeue_line(5, attempt_tag(1), "RUNNING", 2);
        said.files = attempt_files(attempt_tag(1), 5, &[decided, ("begun", &begun)]);
        said.slow = true;
    });
    let first = poll_site(&site).await;
    assert!(
        matches!(only_observation(&first), AttemptObservation::Begun(_)),
        "{first:?}"
    );
    let begun = poll_while_queue_changes(&site, 4).await;
    assert!(matches!(begun, AttemptObservation::Begun(_)), "{begun:?}");
    // Slurm is asked about others, and says what runs.
    site.status(&[attempt_tag(2)]).await.unwrap();
    for _ in 0..2 {
        let begun = poll_while_queue_changes(&site, 6).await;
        assert!(matches!(begun, AttemptObservation::Begun(_)), "{begun:?}");
        site.status(&[attempt_tag(2)]).await.unwrap();
    }
}
