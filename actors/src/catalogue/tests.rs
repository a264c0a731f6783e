//! Rules of the catalogue, with sites in memory.

use std::time::Duration;

use cospan_domain::catalogue::file_command::RequestingKey;
use cospan_domain::catalogue::file_state::CatalogueEntry;
use cospan_domain::ids::{KeyName, LogicalName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_sites::port::InspectedFile;

use super::{AddFile, InformationActor, RegisterOutput, RemoveFile};
use crate::commands::ApiRefusal;
use crate::committed::JournalChange;
use crate::transfer::testing::{
    MemoryWorld, content, key, name, path, queued_job, run_paused, site,
};

impl MemoryWorld {
    fn catalogue_actor(&self) -> actix::Addr<InformationActor> {
        self.shared
            .actors
            .addr::<InformationActor>(&())
            .expect("it lives")
    }

    fn put_user_file(&self, at: &str, text: &str, seed: u8) {
        let found = InspectedFile {
            content: content(seed),
            directory: false,
        };
        self.fake_site(at)
            .lock_state()
            .files
            .insert(FilePlace::User(path(text)), found);
    }

    async fn request_add_file(
        &self,
        text: &str,
        at: &str,
        replace: bool,
    ) -> Result<(), ApiRefusal> {
        let site = site(at);
        let path = path(text);
        let asked = AddFile {
            name: name("input"),
            site,
            path,
            replace,
            by: RequestingKey::for_own_files(key()),
        };
        self.catalogue_actor().send(asked).await.expect("it lives")
    }

    async fn request_remove_file(&self, at: Option<&str>, force: bool) -> Result<(), ApiRefusal> {
        let asked = RemoveFile {
            name: name("input"),
            site: at.map(site),
            force,
            by: RequestingKey::for_own_files(key()),
        };
        self.catalogue_actor().send(asked).await.expect("it lives")
    }

    async fn register_output(&self, seed: u8, at: &str) -> Result<(), ApiRefusal> {
        self.register_output_by(key(), seed, at).await
    }

    async fn register_output_by(&self, by: KeyName, seed: u8, at: &str) -> Result<(), ApiRefusal> {
        let name = name("result");
        let site = site(at);
        let output = RegisterOutput {
            name,
            content: content(seed),
            site,
            by,
        };
        self.catalogue_actor().send(output).await.expect("it lives")
    }

    fn catalogue_entry(&self, name: &LogicalName) -> Option<CatalogueEntry> {
        self.shared
            .view
            .load()
            .files
            .get(name)
            .and_then(|file| file.entry.clone())
    }

    fn replica_sites_of(&self, text: &str) -> Vec<String> {
        let entry = self.catalogue_entry(&name(text)).expect("registered");
        entry
            .replicas
            .iter()
            .map(|(site, _)| site.to_string())
            .collect()
    }
}

fn other_key() -> KeyName {
    KeyName::new("otto").expect("a name")
}

fn run_in_world<F: Future<Output = ()>>(test: impl FnOnce(MemoryWorld) -> F + 'static) {
    run_paused(|| async {
        let world = MemoryWorld::new(&["Delft", "Leiden"]);
        world
            .wait_until("all is up", |w: &MemoryWorld| {
                let contact = |at: &str| {
                    w.shared
                        .live
                        .site_report(&site(at))
                        .map(|report| report.contact)
                };
                let answers = |at: &str| contact(at).is_some_and(|contact| contact.is_answering());
                answers("Delft")
                    && answers("Leiden")
                    && w.shared.actors.addr::<InformationActor>(&()).is_some()
            })
            .await;
        test(world).await;
    });
}

#[test]
fn a_file_is_registered_with_the_content_that_its_site_found() {
    run_in_world(|world| async move {
        world.put_user_file("Delft", "a", 1);
        assert_eq!(world.request_add_file("a", "Delft", false).await, Ok(()));
        let entry = world
            .catalogue_entry(&name("input"))
            .expect("in the view before the answer");
        assert_eq!((entry.content, entry.registered_by), (content(1), key()));
        assert_eq!(
            world.request_add_file("a", "Delft", false).await,
            Ok(()),
            "again, nothing changes"
        );
        world.put_user_file("Leiden", "b", 1);
        assert_eq!(world.request_add_file("b", "Leiden", false).await, Ok(()));
        assert_eq!(world.replica_sites_of("input"), ["Delft", "Leiden"]);
        assert!(world.shared.view.load().is_derived_state_correct());
    });
}

#[test]
fn a_file_is_read_no_longer_than_somebody_waits_for_its_name() {
    run_in_world(|world| async move {
        let place = FilePlace::User(path("a"));
        world
            .fake_site("Delft")
            .lock_state()
            .endless
            .insert(place.clone());
        let patience = Duration::from_secs(60);
        let answer =
            tokio::time::timeout(patience, world.request_add_file("a", "Delft", false)).await;
        assert!(answer.is_err(), "{answer:?}");
        world
            .wait_until("it is not read any more", |world| {
                world.fake_site("Delft").lock_state().inspecting.is_empty()
            })
            .await;
    });
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_what_to_do() {
    run_in_world(|world| async move {
        let Err(ApiRefusal::NotFound(text)) = world.request_add_file("a", "Nowhere", false).await
        else {
            panic!("there is no such site");
        };
        assert!(text.contains("Delft, Leiden"), "{text}");
        let missing = world.request_add_file("a", "Delft", false).await;
        let Err(ApiRefusal::SiteRefused { problem, remedy }) = missing else {
            panic!("there is no such file");
        };
        assert!(problem.contains("\"a\" at Delft"), "{problem}");
        assert!(remedy.contains("file root"), "{remedy}");
        world.fake_site("Delft").lock_state().up = false;
        let Err(ApiRefusal::Site(text)) = world.request_add_file("a", "Delft", false).await else {
            panic!("the site is down");
        };
        assert!(text.contains("once the site answers"), "{text}");
        assert_eq!(world.catalogue_entry(&name("input")), None);
    });
}

#[test]
fn a_name_takes_other_content_only_if_asked_to_and_if_nobody_reads_it() {
    run_in_world(|world| async move {
        world.put_user_file("Delft", "a", 1);
        world.put_user_file("Delft", "b", 2);
        assert_eq!(world.request_add_file("a", "Delft", false).await, Ok(()));
        assert!(matches!(
            world.request_add_file("b", "Delft", false).await,
            Err(ApiRefusal::Conflict(_))
        ));
        let job = queued_job(1, content(1));
        world.append(JournalChange::NewJobs(vec![job.into()])).await;
        let Err(ApiRefusal::Conflict(text)) = world.request_add_file("b", "Delft", true).await
        else {
            panic!("a job reads it");
        };
        assert!(text.contains("1 unfinished job"), "{text}");
        world.finish_job(1).await;
        assert_eq!(world.request_add_file("b", "Delft", true).await, Ok(()));
        assert_eq!(
            world
                .catalogue_entry(&name("input"))
                .map(|entry| entry.content),
            Some(content(2))
        );
        // It reads what the name meant before, which the name no longer keeps.
        world
            .append(JournalChange::NewJobs(vec![
                queued_job(2, content(1)).into(),
            ]))
            .await;
        assert_eq!(world.request_remove_file(None, false).await, Ok(()));
    });
}

#[test]
fn a_file_that_jobs_read_is_removed_only_by_force() {
    run_in_world(|world| async move {
        assert!(matches!(
            world.request_remove_file(None, false).await,
            Err(ApiRefusal::NotFound(_))
        ));
        world.put_user_file("Delft", "a", 1);
        world.put_user_file("Leiden", "a", 1);
        assert_eq!(world.request_add_file("a", "Delft", false).await, Ok(()));
        assert_eq!(world.request_add_file("a", "Leiden", false).await, Ok(()));
        // More jobs than are counted in one go.
        let jobs = (1..=1_300).map(|id| queued_job(id, content(1)).into());
        world.append(JournalChange::NewJobs(jobs.collect())).await;
        let Err(ApiRefusal::Conflict(text)) = world.request_remove_file(None, false).await else {
            panic!("jobs read it");
        };
        assert!(text.contains("1300 unfinished jobs"), "{text}");
        assert_eq!(
            world.request_remove_file(Some("Delft"), false).await,
            Ok(()),
            "another replica is left"
        );
        assert!(matches!(
            world.request_remove_file(Some("Delft"), false).await,
            Err(ApiRefusal::NotFound(_))
        ));
        let last = world.request_remove_file(Some("Leiden"), false).await;
        assert!(matches!(last, Err(ApiRefusal::Conflict(_))), "{last:?}");
        assert_eq!(world.replica_sites_of("input"), ["Leiden"]);
        assert_eq!(world.request_remove_file(None, true).await, Ok(()));
        assert_eq!(world.catalogue_entry(&name("input")), None);
    });
}

#[test]
fn orders_for_one_name_at_the_same_time_are_all_decided() {
    run_in_world(|world| async move {
        for text in ["a", "b", "c", "d"] {
            world.put_user_file("Delft", text, 1);
        }
        let adds = ["a", "b", "c", "d"].map(|text| world.request_add_file(text, "Delft", false));
        let done = futures_util::future::join_all(adds).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        assert_eq!(
            world
                .catalogue_entry(&name("input"))
                .map(|entry| entry.replicas.len()),
            Some(4)
        );
    });
}

#[test]
fn a_name_that_two_keys_ask_for_at_the_same_time_goes_to_one() {
    run_in_world(|world| async move {
        world.put_user_file("Delft", "a", 1);
        let anna = RequestingKey::for_own_files(key());
        let otto = RequestingKey::for_own_files(other_key());
        let add = |by| {
            let site = site("Delft");
            let path = path("a");
            let asked = AddFile {
                name: name("input"),
                site,
                path,
                replace: true,
                by,
            };
            world.catalogue_actor().send(asked)
        };
        let (first, second) = futures_util::join!(add(anna.clone()), add(otto.clone()));
        let [first, second] = [first, second].map(|answer| answer.expect("it lives"));
        assert_eq!(first, Ok(()));
        let Err(ApiRefusal::Conflict(text)) = second else {
            panic!("{second:?}")
        };
        assert!(text.contains("another key's file"), "{text}");
        let remove = |by, site| {
            let asked = RemoveFile {
                name: name("input"),
                site,
                force: true,
                by,
            };
            world.catalogue_actor().send(asked)
        };
        for at in [None, Some(site("Delft"))] {
            let refused = remove(otto.clone(), at).await.expect("it lives");
            assert!(
                matches!(refused, Err(ApiRefusal::Conflict(_))),
                "{refused:?}"
            );
        }
        let entry = world.catalogue_entry(&name("input")).expect("registered");
        assert_eq!((entry.registered_by, entry.replicas.len()), (key(), 1));
        let administrator = RequestingKey {
            reaches_all: true,
            ..otto
        };
        assert_eq!(remove(administrator, None).await.expect("it lives"), Ok(()));
    });
}

#[test]
fn an_output_leaves_another_keys_file_as_it_is() {
    run_in_world(|world| async move {
        for seed in 1..=2 {
            let found = InspectedFile {
                content: content(seed),
                directory: false,
            };
            let place = FilePlace::Store(content(seed).digest);
            world
                .fake_site("Leiden")
                .lock_state()
                .files
                .insert(place, found);
        }
        assert_eq!(world.register_output(1, "Leiden").await, Ok(()));
        for seed in 1..=2 {
            let refused = world.register_output_by(other_key(), seed, "Leiden").await;
            let Err(ApiRefusal::Conflict(text)) = refused else {
                panic!("{refused:?}")
            };
            assert!(text.contains("another key's file"), "{text}");
        }
        let entry = world.catalogue_entry(&name("result")).expect("registered");
        assert_eq!((entry.content, entry.registered_by), (content(1), key()));
    });
}

#[test]
fn an_output_takes_its_name_and_may_be_registered_twice() {
    run_in_world(|world| async move {
        let place = |seed| FilePlace::Store(content(seed).digest);
        let there = |seed, is| {
            let found = InspectedFile {
                content: content(is),
                directory: false,
            };
            world
                .fake_site("Leiden")
                .lock_state()
                .files
                .insert(place(seed), found);
        };
        there(1, 1);
        assert_eq!(world.register_output(1, "Leiden").await, Ok(()));
        world.fake_site("Leiden").lock_state().files.clear();
        assert_eq!(
            world.register_output(1, "Leiden").await,
            Ok(()),
            "it is known already"
        );
        there(2, 2);
        assert_eq!(world.register_output(2, "Leiden").await, Ok(()));
        let entry = world.catalogue_entry(&name("result")).expect("registered");
        assert_eq!(
            (entry.content, entry.replicas),
            (content(2), vec![(site("Leiden"), place(2))])
        );
        there(3, 1);
        assert!(matches!(
            world.register_output(3, "Leiden").await,
            Err(ApiRefusal::Site(_))
        ));
    });
}

#[test]
fn a_registered_output_stays_where_it_is_until_its_name_is_removed() {
    run_in_world(|world| async move {
        let at = (content(1).digest, site("Leiden"));
        world
            .add_collecting_job(1, content(1), "Delft", "Leiden")
            .await;
        world
            .wait_until("it is there", |w| w.is_copy_ready(&at))
            .await;
        let found = InspectedFile {
            content: content(1),
            directory: false,
        };
        world
            .fake_site("Leiden")
            .lock_state()
            .files
            .insert(FilePlace::Store(at.0), found);
        assert_eq!(world.register_output(1, "Leiden").await, Ok(()));
        world.finish_job(1).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert!(world.is_copy_ready(&at), "the catalogue keeps it");
        let name = name("result");
        let by = RequestingKey::for_own_files(key());
        let asked = RemoveFile {
            name,
            site: None,
            force: false,
            by,
        };
        assert_eq!(
            world.catalogue_actor().send(asked).await.expect("it lives"),
            Ok(())
        );
        world
            .wait_until("it is gone", |w| w.copy_record(&at).is_none())
            .await;
        assert!(world.fake_site("Leiden").lock_state().store.is_empty());
    });
}
