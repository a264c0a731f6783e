//! Lines that payloads wrote themselves: the truth by which the bench judges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use cospan_api::v1::job::JobReport;

/// A line of a payload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PayloadLogLine {
    pub(super) what: PayloadStep,
    pub(super) job: u64,
    pub(super) component: u32,
    /// The round and the attempt.
    pub(super) turn: (u32, u32),
    /// Seconds since 1970.
    pub(super) at: f64,
}

/// A step of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PayloadStep {
    /// It begins.
    Began,
    /// Another payload of its component still runs.
    Beside,
    /// It ends by itself.
    Ended,
}

/// All that payloads wrote, in order.
#[derive(Debug, Default)]
pub(super) struct PayloadLog(pub(super) Vec<PayloadLogLine>);

/// The script of a payload: it reports that it begins, sleeps, and reports that it ends. As long as
/// any of its processes lives it holds a lock, by which another payload of its component notices
/// it.
pub(super) fn payload_script(place: &Path, seconds: u32) -> String {
    let log = place.join("payloads");
    let alone = place.join("alone");
    let log = log.display();
    let alone = alone.display();
    let words = "\"$COSPAN_TAG\" \"$COSPAN_ROUND\" \"$(date +%s.%N)\"";
    let [begin, beside, end] = ["begin", "beside", "end"]
        .map(|what| format!("printf '{what} %s %s %s\\n' {words} >> {log}"));
    // A payload that is killed in its sleep may live long enough to go on.
    format!(
        "exec 9>> {alone}/$COSPAN_JOB-$COSPAN_COMPONENT; flock -n 9 || {beside}; {begin}; \
         sleep {seconds} && {end}"
    )
}

/// The result of a job.
#[derive(Debug)]
pub(super) struct BenchJobOutcome {
    /// It did not finish, or not all of it went through its work.
    pub(super) is_lost: bool,
    /// Components that ran twice.
    pub(super) doubled: usize,
    /// Seconds between the first and the last beginning.
    pub(super) spread: f64,
    /// The same in words.
    pub(super) told: String,
}

impl PayloadLog {
    /// Reads the log.
    pub(super) fn read_log(log: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(log).context("no log of payloads")?;
        Ok(Self(text.lines().filter_map(parse_line).collect()))
    }

    /// Sums up a job that should have ended.
    pub(super) fn job_outcome(&self, job: &JobReport) -> BenchJobOutcome {
        let whole = self.has_run_whole(job.id, job.components.len());
        let doubled = self.count_doubled(job.id, job.components.len());
        let spread = self.begin_spread(job.id);
        let id = job.id;
        let state = &job.phase.state;
        let reason = job.phase.reason.as_deref().unwrap_or("no reason");
        let told = format!(
            "job {id} is {state} ({reason}), whole: {whole}, doubled: {doubled}, spread: {spread} s"
        );
        BenchJobOutcome {
            is_lost: state != "finished" || !whole,
            doubled,
            spread,
            told,
        }
    }

    fn lines_of(&self, job: u64) -> impl Iterator<Item = &PayloadLogLine> {
        self.0.iter().filter(move |deed| deed.job == job)
    }

    /// Times at which the last attempts of a job's components began.
    pub(super) fn begin_times(&self, job: u64) -> Vec<f64> {
        let began = self
            .lines_of(job)
            .filter(|deed| deed.what == PayloadStep::Began);
        let last: BTreeMap<u32, f64> = began.map(|deed| (deed.component, deed.at)).collect();
        last.into_values().collect()
    }

    /// Seconds between the first and the last of them.
    pub(super) fn begin_spread(&self, job: u64) -> f64 {
        let all = self.begin_times(job);
        let first = all.iter().copied().fold(f64::INFINITY, f64::min);
        let last = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (last - first).max(0.0)
    }

    /// Counts the components that ran twice: two payloads at the same time, more than one of a
    /// round that went through its work, or more than one of the same round and attempt; and rounds
    /// that followed one in which all components went through theirs. A payload that was killed
    /// half-way ran once, and so did one that went through its work in a round in which another did
    /// not.
    pub(super) fn count_doubled(&self, job: u64, components: usize) -> usize {
        let mut times = BTreeMap::<_, u32>::new();
        let mut ended = BTreeMap::<_, BTreeSet<u32>>::new();
        for deed in self.lines_of(job) {
            let turn = match deed.what {
                PayloadStep::Began => (deed.turn.0, Some(deed.turn.1)),
                PayloadStep::Beside | PayloadStep::Ended => (deed.turn.0, None),
            };
            let count = times.entry((deed.component, turn, deed.what)).or_default();
            *count += if deed.what == PayloadStep::Beside {
                2
            } else {
                1
            };
            if deed.what == PayloadStep::Ended {
                ended.entry(deed.turn.0).or_default().insert(deed.component);
            }
        }
        let twice = times.into_iter().filter(|(_, times)| *times > 1);
        let twice: BTreeSet<u32> = twice.map(|((component, ..), _)| component).collect();
        let whole = ended.values().filter(|all| all.len() == components).count();
        twice.len() + whole.saturating_sub(1)
    }

    /// Returns true if the last attempt of each of the components went through its work.
    pub(super) fn has_run_whole(&self, job: u64, components: usize) -> bool {
        let mut last = BTreeMap::new();
        for deed in self.lines_of(job) {
            let known = last.entry(deed.component).or_insert((deed.turn, false));
            if deed.turn >= known.0 {
                *known = (deed.turn, deed.what == PayloadStep::Ended);
            }
        }
        last.len() == components && last.values().all(|(_, ended)| *ended)
    }

    /// Counts the payloads of a job that began after a time.
    pub(super) fn count_begun_after(&self, job: u64, at: f64) -> usize {
        self.lines_of(job)
            .filter(|deed| deed.what == PayloadStep::Began && deed.at > at)
            .count()
    }
}

fn parse_line(line: &str) -> Option<PayloadLogLine> {
    let mut words = line.split(' ');
    let what = match words.next()? {
        "begin" => PayloadStep::Began,
        "beside" => PayloadStep::Beside,
        "end" => PayloadStep::Ended,
        _ => return None,
    };
    let tag = words.next()?;
    let round = words.next()?;
    let at = words.next()?;
    let mut numbers = tag.rsplitn(4, '-');
    let attempt = numbers.next()?;
    let component = numbers.next()?;
    let job = numbers.next()?;
    Some(PayloadLogLine {
        what,
        job: job.parse().ok()?,
        component: component.parse().ok()?,
        turn: (round.parse().ok()?, attempt.parse().ok()?),
        at: at.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn parse_log_lines(lines: &[&str]) -> PayloadLog {
        PayloadLog(lines.iter().filter_map(|line| parse_line(line)).collect())
    }

    #[test]
    fn work_that_was_done_twice_is_counted_and_a_second_try_is_not() {
        let tried_again = [
            "begin cn-7-0-1 1 1.5",
            "begin cn-7-0-2 2 9",
            "end cn-7-0-2 2 10",
        ];
        assert_eq!(parse_log_lines(&tried_again).count_doubled(7, 1), 0);
        let done_twice = [
            "begin cn-7-0-1 1 1",
            "end cn-7-0-1 1 2",
            "begin cn-7-0-2 2 3",
            "end cn-7-0-2 2 4",
        ];
        assert_eq!(parse_log_lines(&done_twice).count_doubled(7, 1), 1);
        assert_eq!(
            parse_log_lines(&done_twice).count_doubled(8, 1),
            0,
            "another job"
        );
    }

    #[test]
    fn an_attempt_that_begins_anew_within_its_round_ran_twice() {
        assert_eq!(
            parse_log_lines(&["begin cn-7-0-1 1 1", "begin cn-7-0-1 1 1"]).count_doubled(7, 1),
            1
        );
        assert_eq!(
            parse_log_lines(&["begin cn-7-0-1 1 1", "begin cn-7-0-1 2 9"]).count_doubled(7, 1),
            0
        );
        assert_eq!(
            parse_log_lines(&["begin cn-7-0-1 1 1", "begin cn-7-1-1 1 1"]).count_doubled(7, 2),
            0
        );
        let restarted = [
            "begin cn-7-0-1 1 1",
            "end cn-7-0-1 1 2",
            "begin cn-7-0-2 1 3",
            "end cn-7-0-2 1 4",
        ];
        assert_eq!(
            parse_log_lines(&restarted).count_doubled(7, 2),
            1,
            "of one component in one round"
        );
    }

    #[test]
    fn a_round_that_follows_a_whole_one_is_too_many() {
        let mut all = vec![
            "begin cn-7-0-1 1 1",
            "begin cn-7-1-1 1 1",
            "end cn-7-1-1 1 2",
            "begin cn-7-0-2 2 3",
        ];
        all.extend(["begin cn-7-1-2 2 3", "end cn-7-0-2 2 4", "end cn-7-1-2 2 4"]);
        assert_eq!(
            parse_log_lines(&all).count_doubled(7, 2),
            0,
            "one was killed in the first"
        );
        all.push("end cn-7-0-1 1 2");
        assert_eq!(parse_log_lines(&all).count_doubled(7, 2), 1);
    }

    #[test]
    fn payloads_of_one_component_that_run_at_the_same_time_ran_twice() {
        let second = [
            "begin cn-7-0-1 1 1",
            "beside cn-7-0-2 2 9",
            "begin cn-7-0-2 2 9",
        ];
        assert_eq!(parse_log_lines(&second).count_doubled(7, 1), 1);
    }

    #[test]
    fn a_payload_notices_another_of_its_component() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("alone")).unwrap();
        let start = |attempt: u32, seconds| {
            let mut command = std::process::Command::new("/bin/sh");
            command
                .arg("-c")
                .arg(payload_script(place.path(), seconds))
                .env("COSPAN_JOB", "7");
            command.env("COSPAN_TAG", format!("cn-7-0-{attempt}"));
            command
                .env("COSPAN_ROUND", attempt.to_string())
                .env("COSPAN_COMPONENT", "0");
            command.spawn().unwrap()
        };
        let log = place.path().join("payloads");
        assert!(start(1, 0).wait().unwrap().success());
        let mut lasting = start(2, 2);
        let since = Instant::now();
        while PayloadLog::read_log(&log).unwrap().0.len() < 3 {
            assert!(
                since.elapsed() < Duration::from_secs(30),
                "the second does not begin"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(start(3, 0).wait().unwrap().success());
        assert!(lasting.wait().unwrap().success());
        let all = PayloadLog::read_log(&log).unwrap().0;
        let did = |attempt| all.iter().filter(move |deed| deed.turn.1 == attempt);
        let what: Vec<Vec<PayloadStep>> = (1..4)
            .map(|attempt| did(attempt).map(|deed| deed.what).collect())
            .collect();
        let alone = vec![PayloadStep::Began, PayloadStep::Ended];
        assert_eq!(what[..2], [alone.clone(), alone]);
        assert_eq!(
            what[2],
            [PayloadStep::Beside, PayloadStep::Began, PayloadStep::Ended]
        );
    }

    #[test]
    fn a_job_is_whole_when_all_its_components_ended_by_themselves() {
        let both = [
            "begin c-7-0-1 1 1",
            "begin c-7-1-1 1 1.25",
            "end c-7-0-1 1 2",
            "end c-7-1-1 1 2",
        ];
        assert!(parse_log_lines(&both).has_run_whole(7, 2));
        assert!(
            !parse_log_lines(&both[..3]).has_run_whole(7, 2),
            "one was killed"
        );
        assert!(
            !parse_log_lines(&both).has_run_whole(7, 3),
            "one never began"
        );
        assert_eq!(parse_log_lines(&both).begin_spread(7), 0.25);
        assert_eq!(parse_log_lines(&both).count_begun_after(7, 1.1), 1);
    }
}
