//! Telling of the end of jobs, with receivers that answer or do not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::ids::{JobId, SiteName, TargetName};
use cospan_domain::job::job_state::{Job, JobPhase};
use cospan_domain::site::site_state::{
    SiteNotification, SiteNotificationId, SiteNotificationKind, SiteRecord,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::{NoticeSender, OutgoingNotice};
use crate::committed::JournalChange;
use crate::site::ClusterActor;
use crate::supervision::{ActorId, LifeGuard};
use crate::transfer::testing::{MemoryWorld, content, queued_job, run_paused, site};

/// Receivers whose address is their name.
#[derive(Debug, Default)]
pub(crate) struct FakeNoticeSender {
    silent: Mutex<BTreeSet<String>>,
    /// Takes what is sent there, and never answers.
    hanging: Mutex<Option<&'static str>>,
    got: Mutex<Vec<(String, u64)>>,
    of_sites: AtomicUsize,
}

impl FakeNoticeSender {
    fn silence_receivers(&self, names: &[&str]) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) =
            names.iter().map(|name| (*name).to_owned()).collect();
    }

    fn hang_receiver(&self, name: &'static str) {
        *self.hanging.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
    }

    fn received_notices(&self) -> Vec<(String, u64)> {
        self.got
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl NoticeSender for FakeNoticeSender {
    fn send(
        &self,
        address: &str,
        notice: OutgoingNotice,
    ) -> BoxFuture<'static, Result<(), String>> {
        if *self.hanging.lock().unwrap_or_else(PoisonError::into_inner) == Some(address) {
            return std::future::pending().boxed();
        }
        let silent = self
            .silent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(address);
        match notice {
            OutgoingNotice::JobEnded(_) if silent => {}
            OutgoingNotice::JobEnded(job) => {
                let letter = (address.to_owned(), job.id.0);
                self.got
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(letter);
            }
            OutgoingNotice::Start { .. } => {}
            OutgoingNotice::Site { .. } => drop(self.of_sites.fetch_add(1, Ordering::Relaxed)),
        }
        async move {
            if silent {
                Err("no answer".into())
            } else {
                Ok(())
            }
        }
        .boxed()
    }
}

impl MemoryWorld {
    fn start_notifier(&self) {
        let supervisor = self.shared.supervisor.get().expect("it is started first");
        let guard = LifeGuard::new(ActorId::Notifier, supervisor.clone());
        self.workshop.build_actor(&ActorId::Notifier, guard);
    }

    fn start_cluster(&self, name: &SiteName, record: Arc<SiteRecord>) {
        let supervisor = self.shared.supervisor.get().expect("it is started first");
        let guard = LifeGuard::new(ActorId::Cluster(name.clone()), supervisor.clone());
        let at = self.shared.sites[name].clone();
        self.workshop.start_cluster(at, record, guard);
    }

    /// A job that has just ended, and whom it names.
    async fn add_ended_job(&self, id: u64, names: &[&str]) {
        let running = queued_job(id, content(1));
        let mut job = Job::clone(&running);
        let names = names
            .iter()
            .map(|name| TargetName::new(name).expect("a name"));
        Arc::make_mut(&mut job.spec).run.notify = names.collect();
        let old = Arc::new(job);
        self.append(JournalChange::NewJobs(vec![old.clone()])).await;
        let mut new = Job::clone(&old);
        new.phase = JobPhase::Finished {
            at: self.shared.clock.now(),
        };
        new.revision += 1;
        self.append(JournalChange::Job {
            old,
            new: Arc::new(new),
            events: Vec::new(),
        })
        .await;
    }

    fn jobs_owing_notices(&self) -> Vec<JobId> {
        self.shared.view.load().untold.iter().copied().collect()
    }
}

#[test]
fn each_target_is_told_once_and_one_that_is_silent_keeps_no_other_waiting() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.start_notifier();
        world.letters.silence_receivers(&["gone"]);
        for id in 1..=20 {
            world.add_ended_job(id, &["gone"]).await;
        }
        world.add_ended_job(21, &["gone", "team"]).await;
        world
            .wait_until("the team is told", |world| {
                !world.letters.received_notices().is_empty()
            })
            .await;
        assert_eq!(world.letters.received_notices(), [("team".to_owned(), 21)]);
        world.letters.silence_receivers(&[]);
        world
            .wait_until("all are told", |world| {
                world.jobs_owing_notices().is_empty()
            })
            .await;
        let got = world.letters.received_notices();
        let distinct: BTreeSet<&(String, u64)> = got.iter().collect();
        assert_eq!((got.len(), distinct.len()), (22, 22), "{got:?}");
        assert!(world.shared.view.load().is_derived_state_correct());
    });
}

#[test]
fn a_target_that_hangs_takes_no_place_of_another() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.start_notifier();
        world.letters.hang_receiver("gone");
        for id in 1..=20 {
            world.add_ended_job(id, &["gone"]).await;
        }
        world.add_ended_job(21, &["gone", "team"]).await;
        world
            .wait_until("the team is told", |world| {
                !world.letters.received_notices().is_empty()
            })
            .await;
        assert_eq!(world.letters.received_notices(), [("team".to_owned(), 21)]);
    });
}

#[test]
fn a_receiver_that_hangs_keeps_no_word_about_another_site_back() {
    run_paused(|| async {
        let world = MemoryWorld::with_settings(&["Delft", "Leiden"], |settings| {
            let of = |name: &str, address: &str| (Some(site(name)), vec![address.into()]);
            settings.webhooks = [of("Delft", "gone"), of("Leiden", "team")].into();
        });
        world.letters.hang_receiver("gone");
        world.start_notifier();
        for (name, count) in [("Delft", 20), ("Leiden", 1)] {
            let mut record = SiteRecord::new(site(name));
            record
                .owed
                .extend((1..=count).map(|id| site_notification(&world, id)));
            world
                .append(JournalChange::Site {
                    old: None,
                    new: Arc::new(record),
                })
                .await;
        }
        let messages = |world: &MemoryWorld| world.letters.of_sites.load(Ordering::Relaxed);
        world
            .wait_until("Leiden's administrators are told", |world| {
                messages(world) == 1
            })
            .await;
    });
}

fn site_notification(world: &MemoryWorld, id: u64) -> SiteNotification {
    SiteNotification {
        id: SiteNotificationId(id),
        kind: SiteNotificationKind::Unreachable,
        at: world.shared.clock.now(),
        text: "it does not answer".into(),
        details: Vec::new(),
    }
}

#[test]
fn a_target_that_never_answers_is_given_up_in_the_end() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.start_notifier();
        world.letters.silence_receivers(&["gone"]);
        world.add_ended_job(1, &["gone"]).await;
        world
            .wait_until("it is given up", |world| {
                world.jobs_owing_notices().is_empty()
            })
            .await;
        let view = world.shared.view.load();
        assert_eq!(
            (
                view.jobs[&JobId(1)].told.len(),
                world.letters.received_notices().len()
            ),
            (1, 0)
        );
        let passed = world
            .shared
            .clock
            .now()
            .since(view.jobs[&JobId(1)].ended_at().expect("it"));
        assert!(passed >= world.shared.settings.tell_for, "{passed}");
    });
}

#[test]
fn what_is_owed_is_told_after_a_restart_except_to_targets_that_left() {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft"]);
        world.add_ended_job(1, &["team", "left"]).await;
        let world = world.restart().await;
        world.start_notifier();
        world
            .wait_until("all are told", |world| {
                world.jobs_owing_notices().is_empty()
            })
            .await;
        assert_eq!(world.letters.received_notices(), [("team".to_owned(), 1)]);
    });
}

#[test]
fn a_full_site_actor_is_told_again_that_a_message_is_out() {
    run_paused(|| async {
        let world = MemoryWorld::with_settings(&["Delft"], |settings| {
            settings.webhooks = [(None, vec!["administrators".into()])].into();
        });
        world.start_notifier();
        let delft = site("Delft");
        let mut record = SiteRecord::new(delft.clone());
        record.owed.push_back(site_notification(&world, 1));
        let record = Arc::new(record);
        world.settle().await;
        // One that nobody reaches lives on, and is not built anew.
        let _apart = world.shared.actors.addr::<ClusterActor>(&delft);
        world
            .shared
            .actors
            .remove_actor(&ActorId::Cluster(delft.clone()));
        world
            .append(JournalChange::Site {
                old: None,
                new: record.clone(),
            })
            .await;
        let messages = || world.letters.of_sites.load(Ordering::Relaxed);
        world
            .wait_until("administrators are told", |_| messages() > 0)
            .await;
        world.settle().await;
        world.start_cluster(&delft, record);
        world
            .wait_until("its record says so", |world: &MemoryWorld| {
                world.shared.view.load().sites[&delft].owed.is_empty()
            })
            .await;
        assert_eq!(messages(), 1, "and nobody is told twice");
    });
}
