//! Offers, with sites in memory.

use std::sync::Arc;

use actix::{Actor, Addr};
use cospan_domain::ids::JobId;
use cospan_domain::queue::Standing;

use super::{AskStanding, CoAllocator};
use crate::journal::Change;
use crate::supervision::{ActorId, LifeGuard};
use crate::switchboard::{Dirty, Look, Post};
use crate::transfer::testing::{World, content, paused, queued};

const JOB: JobId = JobId(1);

impl World {
    fn co_allocator(&self) -> Addr<CoAllocator> {
        let supervisor = self.shared.supervisor.get().expect("it is started first");
        let guard = LifeGuard::new(ActorId::CoAllocator, supervisor.clone());
        let dirty = Dirty::default();
        let addr = CoAllocator::new(self.shared.clone(), dirty.clone(), guard).start();
        self.shared.switchboard.co_allocator.enter((), Post::new(addr.clone(), dirty));
        addr
    }
}

async fn standing(addr: &Addr<CoAllocator>) -> Option<Standing> {
    addr.send(AskStanding(JOB)).await.expect("it lives")
}

#[test]
fn an_offer_for_a_job_that_is_gone_forgets_its_queue_entry() {
    paused(|| async {
        let world = World::new(&["Delft"]);
        let co_allocator = world.co_allocator();
        world.append(Change::NewJobs(vec![Arc::new(queued(JOB.0, content(1)))])).await;
        world.settle().await;
        let waits = standing(&co_allocator).await;
        assert!(waits.is_some(), "no site has its input yet");
        // Nobody tells the queues that it is gone.
        world.shared.view.rcu(|view| {
            let mut view = view.as_ref().clone();
            view.jobs.remove(&JOB);
            view
        });
        world.add_file("input", content(1), &["Delft"]).await;
        co_allocator.send(Look).await.expect("it lives");
        world.settle().await;
        assert_eq!(standing(&co_allocator).await, None, "an offer nobody takes, for ever");
    });
}
