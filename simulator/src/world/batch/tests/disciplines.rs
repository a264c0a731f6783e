//! Each discipline does what the reference does.

use proptest::prelude::proptest;
use proptest::test_runner::Config;

use super::super::QueueDiscipline;
use super::trace::{assert_same_as_reference, orderly_trace, unruly_trace};

proptest! {
    #![proptest_config(Config { cases: 200, ..Config::default() })]

    #[test]
    fn fcfs_starts_what_the_reference_starts(trace in unruly_trace()) {
        assert_same_as_reference(QueueDiscipline::Fcfs, &trace);
    }

    #[test]
    fn easy_starts_what_the_reference_starts(trace in unruly_trace()) {
        assert_same_as_reference(QueueDiscipline::Easy, &trace);
    }
}

proptest! {
    #![proptest_config(Config { cases: 60, ..Config::default() })]

    #[test]
    fn conservative_starts_what_the_reference_starts(trace in unruly_trace()) {
        assert_same_as_reference(QueueDiscipline::Conservative, &trace);
    }

    #[test]
    fn conservative_compresses_like_the_reference(trace in orderly_trace()) {
        assert_same_as_reference(QueueDiscipline::Conservative, &trace);
    }
}
