//! Jobs as people name them: `1,3,5-8,last,all,group:12`.

use std::str::FromStr;

use cospan_domain::ids::JobId;

/// Longest range that is expanded; a longer one is a typing error.
const MAX_RANGE: u64 = 100_000;

/// An item of a list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobIdItem {
    /// A job.
    One(JobId),
    /// All jobs between two numbers, both included.
    Range(JobId, JobId),
    /// The job that was submitted last, or all runs of the sweep that was.
    Last,
    /// Every job.
    All,
    /// The runs of the sweep that begins with this job.
    Group(JobId),
}

/// A list of jobs as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobIdList(pub Vec<JobIdItem>);

impl JobIdList {
    /// Returns true if it names every job.
    pub(crate) fn contains_all(&self) -> bool {
        self.0.contains(&JobIdItem::All)
    }
}

impl FromStr for JobIdList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(|part| parse_item(part.trim()))
            .collect::<Result<_, _>>()
            .map(JobIdList)
    }
}

fn parse_item(text: &str) -> Result<JobIdItem, String> {
    match text {
        "" => Err("a number is missing; write jobs like 1,3,5-8,last,all".into()),
        "last" => Ok(JobIdItem::Last),
        "all" => Ok(JobIdItem::All),
        text if text.starts_with("group:") => {
            parse_number(text.trim_start_matches("group:")).map(JobIdItem::Group)
        }
        text => match text.split_once('-') {
            None => parse_number(text).map(JobIdItem::One),
            Some((from, to)) => {
                let from = parse_number(from)?;
                let to = parse_number(to)?;
                if from > to {
                    Err(format!("{text} goes backwards; write {to}-{from}"))
                } else if to.0 - from.0 >= MAX_RANGE {
                    Err(format!(
                        "{text} is more than {MAX_RANGE} jobs; give a shorter range"
                    ))
                } else {
                    Ok(JobIdItem::Range(from, to))
                }
            }
        },
    }
}

fn parse_number(text: &str) -> Result<JobId, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match digits.then(|| text.parse()).and_then(Result::ok) {
        Some(0) => Err("jobs are numbered from 1".into()),
        Some(number) => Ok(JobId(number)),
        None => Err(format!(
            "{text:?} is no job; write jobs like 1,3,5-8,last,all"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_in_every_documented_spelling() {
        let list: JobIdList = "1,3, 5-8,last,all,group:12".parse().unwrap();
        let expected = [
            JobIdItem::One(JobId(1)),
            JobIdItem::One(JobId(3)),
            JobIdItem::Range(JobId(5), JobId(8)),
            JobIdItem::Last,
            JobIdItem::All,
            JobIdItem::Group(JobId(12)),
        ];
        assert_eq!(list.0, expected);
    }

    #[test]
    fn a_list_that_could_be_misread_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "missing"),
            ("1,,2", "missing"),
            ("8-5", "write 5-8"),
            ("1-", "no job"),
            ("-1", "no job"),
            ("0", "from 1"),
            ("x", "\"x\" is no job"),
            ("+1", "no job"),
            ("group:", "no job"),
            ("1-900000", "shorter range"),
            ("99999999999999999999", "no job"),
        ] {
            let error = text.parse::<JobIdList>().unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
