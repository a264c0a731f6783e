//! The job of the demonstration: two components that no cluster can hold together.

use cospan_api::v1::JobDocument;
use cospan_api::v1::parse::{JobFormat, ParseError, parse_all};

/// Parts that each component goes through, of one second each.
pub(super) const PARTS: usize = 30;

/// The job file, with comments: it is also the user's first example.
pub(super) fn job_text() -> String {
    format!(
        "{HEAD}{}{}",
        component_text("ocean", 6),
        component_text("air", 5)
    )
}

fn component_text(name: &str, processors: u32) -> String {
    format!(
        r#"
[[component]]
name = "{name}"
processors = {processors}
executable = "/bin/sh"
arguments = ["-euc", '''
part=1
while [ $part -le {PARTS} ]; do
  echo "$(date +%s.%N) part $part of {PARTS}, job $SLURM_JOB_ID of cluster $SLURM_CLUSTER_NAME"
  sleep 1
  part=$((part + 1))
done
''']
"#
    )
}

const HEAD: &str = r#"# One job over two clusters: neither has room for both components.
name = "wave"
wall_time = "5m"
"#;

/// The job as it is submitted.
pub(super) fn job_documents() -> Result<Vec<JobDocument>, ParseError> {
    parse_all(&job_text(), JobFormat::Toml)
}

/// The output of a component.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ParsedOutput {
    /// Start of the component, in seconds since 1970.
    pub(super) began: f64,
    /// True if every part is there once, in order.
    pub(super) whole: bool,
}

/// Parses the output of a component; `None` if it has no time.
pub(super) fn parse_output(printed: &str) -> Option<ParsedOutput> {
    let began = printed.split(' ').next()?.parse().ok()?;
    let wanted = (1..=PARTS).map(|part| format!("part {part} of {PARTS},"));
    let found = printed.lines().map(|line| {
        line.split(' ')
            .skip(1)
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    });
    Some(ParsedOutput {
        began,
        whole: found.eq(wanted),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_is_one_that_the_server_takes() {
        let jobs = job_documents().unwrap();
        assert_eq!(jobs.len(), 1);
    }

    #[test]
    fn a_part_that_is_missing_or_there_twice_is_noticed() {
        let line = |part: usize| format!("12.5 part {part} of {PARTS}, job 7 of cluster beta\n");
        let whole: String = (1..=PARTS).map(line).collect();
        assert_eq!(
            parse_output(&whole),
            Some(ParsedOutput {
                began: 12.5,
                whole: true
            })
        );
        let missing: String = (1..PARTS).map(line).collect();
        assert!(!parse_output(&missing).unwrap().whole);
        assert!(!parse_output(&(line(1) + &whole)).unwrap().whole);
        assert_eq!(parse_output(""), None);
    }
}
