//! Small scenes, one point each.

use cospan_domain::units::{DurationMs, Timestamp};

use super::super::{BatchSubmitError, BatchSystem, LrmJobId, QueueDiscipline};

fn two_node_site(discipline: QueueDiscipline) -> BatchSystem {
    BatchSystem::new(discipline, 2, 4)
}

fn submit(site: &mut BatchSystem, id: u64, processors: u32, estimate: u64, now: u64) {
    site.submit(
        LrmJobId(id),
        processors,
        DurationMs(estimate),
        Timestamp(now),
    )
    .unwrap();
}

fn start_jobs(site: &mut BatchSystem, now: u64) -> Vec<u64> {
    site.schedule(Timestamp(now))
        .iter()
        .map(|id| id.0)
        .collect()
}

#[test]
fn a_job_larger_than_the_site_is_refused() {
    let refused =
        two_node_site(QueueDiscipline::Fcfs).submit(LrmJobId(1), 9, DurationMs(1), Timestamp(0));
    assert_eq!(
        refused,
        Err(BatchSubmitError::TooLarge {
            id: LrmJobId(1),
            processors: 9,
            total: 8
        })
    );
}

#[test]
fn a_number_in_use_is_refused_and_free_again_after_the_end() {
    let mut site = two_node_site(QueueDiscipline::Fcfs);
    submit(&mut site, 1, 1, 10, 0);
    let again = |site: &mut BatchSystem| site.submit(LrmJobId(1), 1, DurationMs(10), Timestamp(0));
    assert_eq!(
        again(&mut site),
        Err(BatchSubmitError::AlreadyKnown { id: LrmJobId(1) })
    );
    start_jobs(&mut site, 0);
    assert_eq!(
        again(&mut site),
        Err(BatchSubmitError::AlreadyKnown { id: LrmJobId(1) })
    );
    assert!(site.end_job(LrmJobId(1), Timestamp(5)));
    assert_eq!(again(&mut site), Ok(()));
}

#[test]
fn ending_an_unknown_job_changes_nothing() {
    let mut site = two_node_site(QueueDiscipline::Easy);
    assert!(!site.end_job(LrmJobId(7), Timestamp(0)));
    assert_eq!(
        (
            site.idle_processors(),
            site.used_processors(),
            site.queued_count(),
            site.running_count()
        ),
        (8, 0, 0, 0)
    );
}

#[test]
fn easy_lets_a_job_overtake_only_if_the_head_is_not_put_off() {
    let mut site = two_node_site(QueueDiscipline::Easy);
    submit(&mut site, 1, 6, 100, 0);
    submit(&mut site, 2, 8, 100, 0);
    submit(&mut site, 3, 2, 101, 0);
    submit(&mut site, 4, 2, 100, 0);
    assert_eq!(start_jobs(&mut site, 0), [1, 4]);
    assert_eq!(site.expected_start(LrmJobId(2)), Some(Timestamp(100)));
}

#[test]
fn easy_lets_a_long_job_overtake_on_processors_that_the_head_leaves() {
    let mut site = two_node_site(QueueDiscipline::Easy);
    submit(&mut site, 1, 6, 100, 0);
    submit(&mut site, 2, 7, 100, 0);
    submit(&mut site, 3, 2, 1000, 0);
    submit(&mut site, 4, 1, 1000, 0);
    submit(&mut site, 5, 1, 1000, 0);
    assert_eq!(start_jobs(&mut site, 0), [1, 4]);
}

#[test]
fn conservative_protects_a_job_that_easy_would_put_off() {
    let starts_at_once = |discipline| {
        let mut site = two_node_site(discipline);
        submit(&mut site, 1, 4, 100, 0);
        submit(&mut site, 2, 6, 10, 0);
        submit(&mut site, 3, 8, 10, 0);
        submit(&mut site, 4, 2, 1000, 0);
        start_jobs(&mut site, 0)
    };
    assert_eq!(starts_at_once(QueueDiscipline::Easy), [1, 4]);
    assert_eq!(starts_at_once(QueueDiscipline::Conservative), [1]);
}

#[test]
fn a_number_that_is_handed_out_again_at_once_has_one_reservation() {
    let mut site = two_node_site(QueueDiscipline::Conservative);
    submit(&mut site, 1, 8, 10, 0);
    assert_eq!(start_jobs(&mut site, 0), [1]);
    submit(&mut site, 2, 8, 10, 0);
    assert!(site.end_job(LrmJobId(2), Timestamp(0)));
    submit(&mut site, 2, 8, 10, 0);
    submit(&mut site, 3, 8, 10, 0);
    assert!(start_jobs(&mut site, 0).is_empty());
    let expected = [2, 3].map(|id| site.expected_start(LrmJobId(id)));
    assert_eq!(expected, [10, 20].map(|at| Some(Timestamp(at))));
}

#[test]
fn a_failing_node_kills_the_jobs_on_it_and_spares_the_others() {
    let mut site = two_node_site(QueueDiscipline::Fcfs);
    for id in 1..=4 {
        submit(&mut site, id, 2, 100, 0);
    }
    submit(&mut site, 5, 8, 100, 0);
    assert_eq!(start_jobs(&mut site, 0), [1, 2, 3, 4]);
    assert_eq!(site.node_down(0, Timestamp(10)), [LrmJobId(1), LrmJobId(2)]);
    assert_eq!(site.node_down(0, Timestamp(10)), []);
    assert_eq!((site.idle_processors(), site.used_processors()), (0, 4));
    assert!(site.node_up(0, Timestamp(20)));
    assert!(!site.node_up(0, Timestamp(20)));
    assert!(!site.node_up(99, Timestamp(20)));
    assert_eq!((site.idle_processors(), site.used_processors()), (4, 4));
}

#[test]
fn a_draining_site_starts_nothing_until_it_resumes() {
    for discipline in [
        QueueDiscipline::Fcfs,
        QueueDiscipline::Easy,
        QueueDiscipline::Conservative,
    ] {
        let mut site = two_node_site(discipline);
        site.start_drain();
        submit(&mut site, 1, 1, 100, 0);
        assert!(start_jobs(&mut site, 0).is_empty());
        site.resume();
        assert_eq!(start_jobs(&mut site, 50), [1]);
    }
}

#[test]
fn a_job_past_its_estimate_is_taken_to_end_a_second_ahead() {
    for discipline in [QueueDiscipline::Easy, QueueDiscipline::Conservative] {
        let mut site = two_node_site(discipline);
        submit(&mut site, 1, 7, 100, 0);
        submit(&mut site, 2, 8, 100, 0);
        assert_eq!(start_jobs(&mut site, 0), [1]);
        assert_eq!(site.expected_start(LrmJobId(2)), Some(Timestamp(100)));
        assert!(start_jobs(&mut site, 100).is_empty());
        assert!(start_jobs(&mut site, 500).is_empty());
        assert_eq!(site.expected_start(LrmJobId(2)), Some(Timestamp(1500)));
    }
}

#[test]
fn a_head_wider_than_the_nodes_in_service_holds_up_fcfs_only() {
    let overtakes = |discipline| {
        let mut site = two_node_site(discipline);
        site.node_down(1, Timestamp(0));
        submit(&mut site, 1, 5, 100, 0);
        submit(&mut site, 2, 4, 100, 0);
        let first = start_jobs(&mut site, 0);
        site.end_job(LrmJobId(2), Timestamp(50));
        site.node_up(1, Timestamp(50));
        (first, start_jobs(&mut site, 50))
    };
    assert_eq!(overtakes(QueueDiscipline::Fcfs), (vec![], vec![1]));
    assert_eq!(overtakes(QueueDiscipline::Easy), (vec![2], vec![1]));
    assert_eq!(overtakes(QueueDiscipline::Conservative), (vec![2], vec![1]));
}

#[test]
fn extreme_numbers_are_taken_calmly() {
    for discipline in [
        QueueDiscipline::Fcfs,
        QueueDiscipline::Easy,
        QueueDiscipline::Conservative,
    ] {
        let mut site = BatchSystem::new(discipline, 3, u32::MAX);
        submit(&mut site, 1, u32::MAX, u64::MAX, 9);
        submit(&mut site, 2, 0, 0, u64::MAX);
        submit(&mut site, 3, u32::MAX, u64::MAX, u64::MAX);
        assert_eq!(start_jobs(&mut site, 3), [1]);
        assert_eq!(site.node_down(2, Timestamp(4)), [LrmJobId(1)]);
        assert!(start_jobs(&mut site, u64::MAX).len() <= 1);
        let mut none = BatchSystem::new(discipline, 0, 4);
        assert!(
            none.submit(LrmJobId(1), 1, DurationMs(1), Timestamp(0))
                .is_err()
        );
        assert!(start_jobs(&mut none, 0).is_empty());
    }
}
