//! The job of the demonstration: three components that read one file, and their right results,
//! computed here from the same file.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::demo_directory::SITES;
use cospan_api::v1::JobDocument;
use cospan_api::v1::parse::{JobFormat, parse_all};

/// Logical name of the input.
pub(super) const INPUT: &str = "measurements";
/// Path of the input below the site's file directory.
pub(super) const INPUT_PATH: &str = "measurements.txt";
/// The output of each component.
pub(super) const OUTPUT: &str = "result.txt";
/// Parts in which the input is processed, so that progress can be seen.
pub(super) const PARTS: usize = 6;

/// Lines of the input: some 9 MB, three seconds over a link.
const LINES: usize = 360_000;
const STATIONS: u64 = 24;
/// The station whose lines are selected.
const WANTED: &str = "station-07";

/// The components' names, in the order of the job.
pub(super) const COMPONENTS: [&str; 3] = ["count", "tally", "select"];

/// The input: lines of a station, a number and a value, always the same.
pub(super) fn input_text() -> String {
    let mut text = String::with_capacity(LINES * 28);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..LINES {
        // Marsaglia's xorshift: any distribution will do.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let station = random % STATIONS;
        let value = (random >> 32) % 10_000;
        // Writing to memory cannot fail.
        let _ = writeln!(text, "station-{station:02} {number:07} {value:04}");
    }
    text
}

/// Lines of one part.
const fn part_lines() -> usize {
    LINES / PARTS
}

/// The job file, with comments: it is also the user's first example.
pub(super) fn job_text() -> String {
    let mut text = String::from(JOB_HEAD);
    let work: [(u32, &str, &str); 3] = [
        (4, "counts lines, words and bytes", COUNT),
        (3, "counts the lines of each station", TALLY),
        (2, "selects the lines of one station", SELECT),
    ];
    for (name, (processors, what, command)) in COMPONENTS.iter().zip(work) {
        let step = part_lines();
        let _ = write!(
            text,
            r#"
# {what}, part by part
[[component]]
name = "{name}"
processors = {processors}
executable = "/bin/sh"
arguments = ["-euc", '''
LC_ALL=C; export LC_ALL
part=0
while [ $part -lt {PARTS} ]; do
  from=$((part * {step} + 1)); to=$(((part + 1) * {step})); part=$((part + 1))
  sed -n "${{from}},${{to}}p" {INPUT_PATH} | {command} >> {OUTPUT}
  echo "part $part of {PARTS}"
  sleep 1   # so that there is something to watch
done
''']
input = [{{ file = "{INPUT}", path = "{INPUT_PATH}" }}]
output = [{{ path = "{OUTPUT}" }}]
"#
        );
    }
    text
}

const JOB_HEAD: &str = r#"# One job of three components that start together, wherever there is room.
name = "quickstart"
wall_time = "5m"
# If the site of a running component stops answering, do not wait long for it.
on_unreachable = { rerun_after = "1s" }
"#;

const COUNT: &str = "wc | { read lines words bytes; echo $lines $words $bytes; }";
const TALLY: &str = "cut -d ' ' -f 1 | sort | uniq -c | sed 's/^ *//'";
const SELECT: &str = "sed -n '/^station-07 /p'";

/// The job as it is submitted.
pub(super) fn job_documents() -> Result<Vec<JobDocument>, cospan_api::v1::ParseError> {
    parse_all(&job_text(), JobFormat::Toml)
}

/// The right output of a component.
pub(super) fn expected_output(component: &str, input: &str) -> String {
    let lines: Vec<&str> = input.split_inclusive('\n').collect();
    let mut result = String::new();
    for part in lines.chunks(part_lines()) {
        match component {
            "count" => {
                let words: usize = part.iter().map(|line| line.split(' ').count()).sum();
                let bytes: usize = part.iter().map(|line| line.len()).sum();
                let _ = writeln!(result, "{} {words} {bytes}", part.len());
            }
            "tally" => {
                let mut stations: BTreeMap<&str, usize> = BTreeMap::new();
                for line in part {
                    *stations
                        .entry(line.split(' ').next().unwrap_or_default())
                        .or_default() += 1;
                }
                for (station, count) in stations {
                    let _ = writeln!(result, "{count} {station}");
                }
            }
            _ => result.extend(part.iter().copied().filter(|line| line.starts_with(WANTED))),
        }
    }
    result
}

/// The site that has the input.
pub(super) fn input_site() -> &'static str {
    SITES[0].name
}
