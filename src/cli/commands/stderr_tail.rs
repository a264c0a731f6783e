//! The last error output of failed components, marked as their own words.

use crate::cli::print::{bold, dim, single_line};
use cospan_api::v1::stderr_tail::LastWordsReport;
use cospan_client::Client;

/// Returns the last words of a job's failed components. If they cannot be read, the reason that the
/// job itself gives has to suffice.
pub(super) fn read_last_words(client: &Client, job: u64) -> Vec<LastWordsReport> {
    client
        .explain(job)
        .map(|report| report.last_words)
        .unwrap_or_default()
}

/// Formats the words for people, indented.
pub(super) fn format_indented(words: &[LastWordsReport]) -> String {
    words.iter().map(format_component).collect()
}

fn format_component(words: &LastWordsReport) -> String {
    let LastWordsReport {
        component,
        attempt,
        site,
        more,
        ..
    } = words;
    let who = format!("component {}, attempt {attempt} at {site}", bold(component));
    if let Some(problem) = &words.problem {
        return single_line(&format!(
            "  {who}: its standard error could not be read: {problem}"
        ));
    }
    if words.lines.is_empty() {
        return single_line(&format!(
            "  {who}: it printed nothing to standard error; all it printed: {more}"
        ));
    }
    let mut text = single_line(&format!(
        "  {who}, in its own words (the end of its standard error):"
    ));
    let bar = dim("|");
    words
        .lines
        .iter()
        .for_each(|line| text.push_str(&format!("    {bar} {line}\n")));
    if words.shortened {
        text.push_str(&single_line(&format!("  the rest: {more}")));
    } else {
        text.push_str(&single_line(&format!("  to read it again: {more}")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(words: &LastWordsReport) -> String {
        anstream::adapter::strip_str(&format_component(words)).to_string()
    }

    #[test]
    fn a_payloads_words_are_marked_as_its_own() {
        let words = LastWordsReport {
            component: "solver".into(),
            attempt: 2,
            site: "delft".into(),
            lines: vec!["error: disk full".into(), String::new()],
            shortened: true,
            problem: None,
            more: "cospan logs 7 --component solver --stream stderr".into(),
        };
        let text = told(&words);
        assert!(text.starts_with("  component solver, attempt 2 at delft, in its own words"));
        assert!(text.contains("    | error: disk full\n    | \n  the rest: cospan logs 7 "));
        let silent = LastWordsReport {
            lines: Vec::new(),
            shortened: false,
            ..words.clone()
        };
        assert!(told(&silent).contains("printed nothing to standard error"));
        let away = LastWordsReport {
            problem: Some("delft did not answer".into()),
            ..words
        };
        assert!(told(&away).contains("could not be read: delft did not answer"));
    }
}
