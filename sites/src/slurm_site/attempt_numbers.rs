//! The numbers that Slurm gave to attempts, and what else says whose job one is.
//!
//! A job is ours if it was submitted below the site's root. Whose it is its number says, which stays
//! when somebody changes its name or comment. A controller that was killed gives out numbers again
//! that it forgot: then the latest attempt has it, unless name or comment say that it is another's. A
//! newer Slurm also has a name of each run (its SLUID), which no other run ever gets.

use std::collections::BTreeMap;

use cospan_domain::ids::AttemptTag;
use cospan_domain::units::Timestamp;

/// The numbers of each attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct AttemptNumbers(BTreeMap<AttemptTag, BTreeMap<String, GivenNumber>>);

/// A number of an attempt.
#[derive(Debug, Clone, Default)]
struct GivenNumber {
    given_at: Timestamp,
    /// The name of the run that its wrapper found.
    run: Option<String>,
}

/// A job as `squeue` lists it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedJob<'a> {
    pub(super) number: &'a str,
    /// The name of its run, if Slurm tells it.
    pub(super) run: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) comment: &'a str,
}

impl AttemptNumbers {
    pub(super) fn note_number(&mut self, tag: AttemptTag, number: &str, given_at: Timestamp) {
        let numbers = self.0.entry(tag).or_default();
        numbers.entry(number.to_owned()).or_default().given_at = given_at;
    }

    /// Notes the run that an attempt's wrapper found itself in.
    pub(super) fn note_run(&mut self, tag: AttemptTag, number: &str, run: &str) {
        let numbers = self.0.entry(tag).or_default();
        numbers.entry(number.to_owned()).or_default().run = Some(run.to_owned());
    }

    pub(super) fn forget_tag(&mut self, tag: AttemptTag) {
        self.0.remove(&tag);
    }

    /// Returns the attempt whose job this is.
    pub(super) fn owner_of(&self, job: ListedJob<'_>) -> Option<AttemptTag> {
        let named = named_tag(job.name, job.comment);
        let may_have_it = |tag: &AttemptTag| {
            let known = self.0.get(tag);
            known.is_none_or(|numbers| numbers.contains_key(job.number))
        };
        named
            .filter(may_have_it)
            .or_else(|| self.latest_with(job))
            .or(named)
    }

    /// Returns the attempt that was given the number last, and is not in another run of it.
    fn latest_with(&self, job: ListedJob<'_>) -> Option<AttemptTag> {
        let given = self
            .0
            .iter()
            .filter_map(|(tag, numbers)| Some((numbers.get(job.number)?, *tag)));
        given
            .filter(|(given, _)| match (given.run.as_deref(), job.run) {
                (Some(known), Some(listed)) => known == listed,
                _ => true,
            })
            .max_by_key(|(given, tag)| (given.given_at, *tag))
            .map(|(_, tag)| tag)
    }
}

/// Returns the attempt that the last part of a name or a comment says, if they do not say two.
fn named_tag(name: &str, comment: &str) -> Option<AttemptTag> {
    let last = name.rsplit('.').next().unwrap_or_default();
    match (last.parse().ok(), comment.parse().ok()) {
        (Some(by_name), Some(by_comment)) if by_name != by_comment => None,
        (by_name, by_comment) => by_name.or(by_comment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "cabcdefgh-1-0-1";
    const TWO: &str = "cabcdefgh-2-0-1";

    fn tag(text: &str) -> AttemptTag {
        text.parse().unwrap()
    }

    fn listed<'a>(number: &'a str, name: &'a str, comment: &'a str) -> ListedJob<'a> {
        ListedJob {
            number,
            run: None,
            name,
            comment,
        }
    }

    #[test]
    fn a_job_is_its_numbers_whatever_it_is_called() {
        let mut numbers = AttemptNumbers::default();
        numbers.note_number(tag(ONE), "7", Timestamp(1));
        for (name, comment) in [(ONE, ONE), ("x", ONE), (ONE, "(null)"), ("x", "y")] {
            assert_eq!(numbers.owner_of(listed("7", name, comment)), Some(tag(ONE)));
        }
        assert_eq!(numbers.owner_of(listed("8", "x", "y")), None);
        assert_eq!(numbers.owner_of(listed("7", TWO, TWO)), Some(tag(TWO)));
        numbers.note_number(tag(TWO), "9", Timestamp(2));
        assert_eq!(
            numbers.owner_of(listed("7", TWO, TWO)),
            Some(tag(ONE)),
            "it took the name of another, whose number is known"
        );
    }

    #[test]
    fn a_number_that_was_given_out_twice_is_the_later_ones() {
        let mut numbers = AttemptNumbers::default();
        numbers.note_number(tag(TWO), "7", Timestamp(1));
        numbers.note_number(tag(ONE), "7", Timestamp(2));
        assert_eq!(numbers.owner_of(listed("7", "x", "y")), Some(tag(ONE)));
        assert_eq!(numbers.owner_of(listed("7", TWO, TWO)), Some(tag(TWO)));
        numbers.forget_tag(tag(ONE));
        assert_eq!(numbers.owner_of(listed("7", "x", "y")), Some(tag(TWO)));
    }

    #[test]
    fn another_run_of_a_number_is_not_that_attempts() {
        let mut numbers = AttemptNumbers::default();
        numbers.note_number(tag(ONE), "7", Timestamp(1));
        numbers.note_run(tag(ONE), "7", "s1");
        let owner = |run| {
            numbers.owner_of(ListedJob {
                run,
                ..listed("7", "x", "y")
            })
        };
        assert_eq!(owner(Some("s1")), Some(tag(ONE)));
        assert_eq!(owner(None), Some(tag(ONE)), "its Slurm does not tell");
        assert_eq!(owner(Some("s2")), None);
    }

    #[test]
    fn a_job_whose_number_nobody_knows_is_whose_name_or_comment_says_so() {
        let numbers = AttemptNumbers::default();
        for (name, comment) in [(ONE, ONE), ("wave.cabcdefgh-1-0-1", "plugin"), ("x", ONE)] {
            assert_eq!(numbers.owner_of(listed("7", name, comment)), Some(tag(ONE)));
        }
        for (name, comment) in [(ONE, TWO), ("x", "y"), ("wavecabcdefgh-1-0-1", "(null)")] {
            assert_eq!(numbers.owner_of(listed("7", name, comment)), None);
        }
    }

    /// One that was submitted twice can be found, and taken out of the queue.
    #[test]
    fn a_second_job_under_a_name_is_its_too() {
        let mut numbers = AttemptNumbers::default();
        numbers.note_number(tag(ONE), "7", Timestamp(1));
        assert_eq!(numbers.owner_of(listed("8", ONE, ONE)), Some(tag(ONE)));
    }
}
