//! What follows when an actor dies again and again: the whole control plane, with actors
//! that a message kills.

use actix::{Actor, Addr, Context, Handler, Message};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::site::availability::SiteState;

use crate::catalogue::InformationActor;
use crate::claimer::Claimer;
use crate::coallocator::CoAllocator;
use crate::commands::{ApiAnswer, ApiCommand, ApiRequest, JobCommandOutcome};
use crate::committed::JournalChange;
use crate::context::SharedState;
use crate::intake::Intake;
use crate::job::JobActor;
use crate::journal::JournalActor;
use crate::reserver::Reserver;
use crate::site::ClusterActor;
use crate::supervision::ActorId;
use crate::transfer::testing::{MemoryWorld, content, key, queued_job, run_paused, site};

/// Ends an actor as a defect would.
#[derive(Message)]
#[rtype(result = "()")]
struct KillMessage;

macro_rules! falls {
    ($($actor:ty),*) => {$(
        impl Handler<KillMessage> for $actor {
            type Result = ();

            fn handle(&mut self, _: KillMessage, _: &mut Context<Self>) {
                panic!("a planted defect");
            }
        }
    )*};
}

falls!(
    JournalActor,
    Intake,
    InformationActor,
    CoAllocator,
    Reserver,
    Claimer,
    ClusterActor,
    JobActor
);

/// Kills an actor once it lives.
async fn kill_actor<A>(world: &MemoryWorld, find: impl Fn(&SharedState) -> Option<Addr<A>>)
where
    A: Actor<Context = Context<A>> + Handler<KillMessage>,
{
    world
        .wait_until("it lives", |w| find(&w.shared).is_some())
        .await;
    let actor = find(&world.shared).expect("it lives");
    actor.do_send(KillMessage);
    world.wait_until("it is dead", |_| !actor.connected()).await;
}

fn job_actor(id: JobId) -> impl Fn(&SharedState) -> Option<Addr<JobActor>> {
    move |shared| shared.actors.addr::<JobActor>(&id)
}

fn held_reason(world: &MemoryWorld, id: JobId) -> Option<String> {
    world.shared.view.load().jobs[&id]
        .held
        .as_deref()
        .map(str::to_owned)
}

#[test]
fn a_job_whose_actor_keeps_dying_is_held_with_the_reason_until_released() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft"]);
        let ill = JobId(1);
        let well = JobId(2);
        let jobs = [ill, well].map(|id| queued_job(id.0, content(1)).into());
        world.append(JournalChange::NewJobs(jobs.into())).await;
        [ill, well]
            .into_iter()
            .for_each(|id| world.shared.start_actor(ActorId::Job(id)));
        for _ in 0..2 {
            kill_actor(&world, job_actor(ill)).await;
        }
        world
            .wait_until("it is built anew", |w| job_actor(ill)(&w.shared).is_some())
            .await;
        assert_eq!(held_reason(&world, ill), None, "twice is survived");
        kill_actor(&world, job_actor(ill)).await;
        world
            .wait_until("it is held", |w| held_reason(w, ill).is_some())
            .await;
        let reason = held_reason(&world, ill).expect("it is held");
        assert!(reason.contains("again and again") && reason.contains("cospan release"));
        assert_eq!(held_reason(&world, well), None);

        let plane = world.control_plane();
        let release = ApiCommand {
            by: key(),
            what: ApiRequest::Release(vec![ill]),
        };
        let answer = plane.execute_command(release).await;
        assert_eq!(
            answer,
            Ok(ApiAnswer::Jobs(vec![(ill, JobCommandOutcome::Done)]))
        );
        assert_eq!(held_reason(&world, ill), None);
        assert!(
            plane.queue_standing(ill).await.is_some(),
            "it stands in its queue again"
        );
        assert!(world.fatal.lock().expect("whole").is_empty());
    });
}

#[test]
fn a_site_whose_actor_keeps_dying_is_not_used_until_it_is_built_anew() {
    run_paused(|| async {
        let world = MemoryWorld::with_all_actors(&["Delft", "Leiden"]);
        let plane = world.control_plane();
        let state = |at: &SiteName| plane.site_overview(at).expect("a site").state;
        let ill = site("Delft");
        let well = site("Leiden");
        let usable = |at: &SiteName| state(at) == SiteState::Usable;
        world
            .wait_until("both are usable", |_| usable(&ill) && usable(&well))
            .await;
        for _ in 0..3 {
            assert!(usable(&ill), "less is survived");
            kill_actor(&world, |shared| shared.actors.addr::<ClusterActor>(&ill)).await;
        }
        world
            .wait_until("it is not used any more", |_| !usable(&ill))
            .await;
        assert!(usable(&well));
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        assert!(!usable(&ill), "it is left alone for a while");
        world
            .wait_until("it is tried again", |_| usable(&ill))
            .await;
        assert!(world.fatal.lock().expect("whole").is_empty());
    });
}

/// Kills an actor so many times; why the process would have ended.
async fn kill_often<A>(times: usize, find: impl Fn(&SharedState) -> Option<Addr<A>>) -> Vec<String>
where
    A: Actor<Context = Context<A>> + Handler<KillMessage>,
{
    let world = MemoryWorld::with_all_actors(&["Delft"]);
    for _ in 0..times {
        kill_actor(&world, &find).await;
    }
    world.settle().await;
    world.fatal.lock().expect("whole").clone()
}

/// Four deaths in a minute are survived; the fifth ends the process.
fn assert_fifth_death_ends<A>(name: &'static str, find: fn(&SharedState) -> Option<Addr<A>>)
where
    A: Actor<Context = Context<A>> + Handler<KillMessage>,
{
    run_paused(move || async move {
        assert_eq!(kill_often(4, find).await, Vec::<String>::new());
        assert_eq!(
            kill_often(5, find).await,
            [format!("{name}: died too often")]
        );
    });
}

#[test]
fn the_fifth_death_in_a_minute_of_a_vital_actor_ends_the_process() {
    assert_fifth_death_ends("intake", |shared| shared.actors.addr::<Intake>(&()));
    assert_fifth_death_ends("co-allocator", |shared| {
        shared.actors.addr::<CoAllocator>(&())
    });
    assert_fifth_death_ends("reserver", |shared| shared.actors.addr::<Reserver>(&()));
    assert_fifth_death_ends("claimer", |shared| shared.actors.addr::<Claimer>(&()));
    assert_fifth_death_ends("information", |shared| {
        shared.actors.addr::<InformationActor>(&())
    });
}

#[test]
fn the_first_death_of_the_journal_ends_the_process() {
    run_paused(|| async {
        let ended = kill_often(1, |shared| Some(shared.journal().clone())).await;
        assert_eq!(ended, ["journal: died too often"]);
    });
}
