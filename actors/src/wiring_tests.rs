//! How the control plane starts.

use std::time::Duration;

use cospan_domain::ids::JobId;

use crate::supervision::ActorId;
use crate::transfer::testing::{MemoryWorld, content, run_paused};

#[test]
fn what_is_under_way_at_a_start_is_taken_up_a_few_jobs_at_a_time() {
    run_paused(|| async {
        const JOBS: u64 = 150;
        let world = MemoryWorld::new(&["Delft"]);
        for id in 1..=JOBS {
            world.place_job(id, content(1), "Delft").await;
        }
        let world = world.restart_with_all_actors().await;
        let taken_up = || {
            let actors = &world.shared.actors;
            (1..=JOBS)
                .filter(|id| actors.contains(&ActorId::Job(JobId(*id))))
                .collect::<Vec<_>>()
        };
        for count in [64, 128, JOBS] {
            world.settle().await;
            assert_eq!(taken_up(), (1..=count).collect::<Vec<_>>());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}
