//! Claims where as much waited lately, and of jobs whose input was late again and again.

use super::*;

#[test]
fn where_as_much_waited_lately_nothing_is_claimed_or_preempted() {
    let waits = |at: SiteName| {
        let mut field = Field { waited: Some(at), ..field() };
        let attempt = plan(&job_at(240, 0, 8), &mut field);
        (started(&attempt), preempted(&attempt), moved(&attempt))
    };
    assert_eq!(waits(c()), (vec![1, 2, 3], vec![2], vec![]), "elsewhere");
    assert_eq!(waits(a()), (vec![2, 3], vec![], vec![(3, a())]), "16 at A stay unclaimed");
    let mut field = Field { waited: Some(b()), ..field() };
    field.idle = BTreeMap::from([(a(), 16), (b(), 16), (c(), 0)]);
    let attempt = plan(&job_at(240, 0, 17), &mut field);
    assert_eq!((super::started(&attempt), super::preempted(&attempt)), (vec![1, 2], vec![]));
}

#[test]
fn input_that_was_late_again_and_again_is_waited_for() {
    let mut world = job_at(0, 1_000, 8);
    for (rounds, doublings) in [(0, 0), (4, 0), (5, 1), (6, 3), (60, 63)] {
        world.job.setbacks.rounds = 70;
        world.job.setbacks.missed_starts = rounds;
        world.parameters.claim.l_step = PerMillion(0);
        assert_eq!(next_try(&world), Some(240_000 + doublings * 320_000), "after {rounds} rounds");
        world.job.setbacks.rounds = 4;
        assert_eq!(next_try(&world), Some(240_000), "the others held nothing");
    }
    world.look(Inputs::Here);
    assert_eq!(next_try(&world), Some(0), "however early that is");
}
