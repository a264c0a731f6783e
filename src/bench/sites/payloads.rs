//! What payloads wrote down themselves: the truth that the bench judges by.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// One line of a payload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deed {
    /// It began; else it ended by itself.
    pub(super) began: bool,
    /// Its job.
    pub(super) job: u64,
    /// Its component.
    pub(super) component: u32,
    /// Which attempt.
    pub(super) attempt: u32,
    /// Seconds since 1970.
    pub(super) at: f64,
}

/// All that payloads wrote, in the order in which they did.
#[derive(Debug, Default)]
pub(super) struct Payloads(pub(super) Vec<Deed>);

/// What a payload runs: it says that it begins, sleeps, and says that it ends.
pub(super) fn script(log: &Path, seconds: u32) -> String {
    let say = |what: &str| {
        format!("printf '{what} %s %s\\n' \"$COSPAN_TAG\" \"$(date +%s.%N)\" >> {}", log.display())
    };
    format!("{}; sleep {seconds}; {}", say("begin"), say("end"))
}

impl Payloads {
    /// Reads what is there.
    pub(super) fn read(log: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(log).context("no log of payloads")?;
        Ok(Self(text.lines().filter_map(deed).collect()))
    }

    fn of(&self, job: u64) -> impl Iterator<Item = &Deed> {
        self.0.iter().filter(move |deed| deed.job == job)
    }

    /// When the last attempts of a job's components began.
    pub(super) fn beginnings(&self, job: u64) -> Vec<f64> {
        let began = self.of(job).filter(|deed| deed.began);
        let last: BTreeMap<u32, f64> = began.map(|deed| (deed.component, deed.at)).collect();
        last.into_values().collect()
    }

    /// Between the first and the last of them, in seconds.
    pub(super) fn spread(&self, job: u64) -> f64 {
        let all = self.beginnings(job);
        let first = all.iter().copied().fold(f64::INFINITY, f64::min);
        let last = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (last - first).max(0.0)
    }

    /// Components that went through their work more than once, and attempts that began more than
    /// once.
    pub(super) fn doubled(&self, job: u64) -> usize {
        let mut began = BTreeMap::<_, u32>::new();
        let mut ended = BTreeMap::<_, u32>::new();
        for deed in self.of(job) {
            match deed.began {
                true => *began.entry((deed.component, deed.attempt)).or_default() += 1,
                false => *ended.entry(deed.component).or_default() += 1,
            }
        }
        let again = began.values().filter(|times| **times > 1).count();
        again + ended.values().filter(|times| **times > 1).count()
    }

    /// Whether the last attempt of each of so many components went through its work.
    pub(super) fn is_whole(&self, job: u64, components: usize) -> bool {
        let mut last = BTreeMap::new();
        for deed in self.of(job) {
            let known = last.entry(deed.component).or_insert((deed.attempt, false));
            if deed.attempt >= known.0 {
                *known = (deed.attempt, !deed.began);
            }
        }
        last.len() == components && last.values().all(|(_, ended)| *ended)
    }

    /// Payloads of a job that began after a time.
    pub(super) fn begun_after(&self, job: u64, at: f64) -> usize {
        self.of(job).filter(|deed| deed.began && deed.at > at).count()
    }
}

fn deed(line: &str) -> Option<Deed> {
    let mut words = line.split(' ');
    let (what, tag, at) = (words.next()?, words.next()?, words.next()?);
    let mut numbers = tag.rsplitn(4, '-');
    let (attempt, component, job) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some(Deed {
        began: what == "begin",
        job: job.parse().ok()?,
        component: component.parse().ok()?,
        attempt: attempt.parse().ok()?,
        at: at.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(lines: &[&str]) -> Payloads {
        Payloads(lines.iter().filter_map(|line| deed(line)).collect())
    }

    #[test]
    fn work_that_was_done_twice_is_counted_and_a_second_try_is_not() {
        let tried_again = ["begin cn-7-0-1 1.5", "begin cn-7-0-2 9", "end cn-7-0-2 10"];
        assert_eq!(payloads(&tried_again).doubled(7), 0);
        let done_twice =
            ["begin cn-7-0-1 1", "end cn-7-0-1 2", "begin cn-7-0-2 3", "end cn-7-0-2 4"];
        assert_eq!(payloads(&done_twice).doubled(7), 1);
        assert_eq!(payloads(&["begin cn-7-0-1 1", "begin cn-7-0-1 1"]).doubled(7), 1);
        assert_eq!(payloads(&done_twice).doubled(8), 0, "another job");
    }

    #[test]
    fn a_job_is_whole_when_all_its_components_ended_by_themselves() {
        let both = ["begin c-7-0-1 1", "begin c-7-1-1 1.25", "end c-7-0-1 2", "end c-7-1-1 2"];
        assert!(payloads(&both).is_whole(7, 2));
        assert!(!payloads(&both[..3]).is_whole(7, 2), "one was killed");
        assert!(!payloads(&both).is_whole(7, 3), "one never began");
        assert_eq!(payloads(&both).spread(7), 0.25);
        assert_eq!(payloads(&both).begun_after(7, 1.1), 1);
    }
}
