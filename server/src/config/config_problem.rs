//! Problems of a configuration file: all at once, each with its place and a remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An error or a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Range in the text, in bytes; `None` if something is missing.
    pub span: Option<Range<usize>>,
    /// The error or warning in words.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// Problems of one file, with the lines that they concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblems {
    file: PathBuf,
    text: String,
    list: Vec<ConfigProblem>,
}

impl ConfigProblems {
    /// An empty list for this file with this text.
    pub fn of(file: &Path, text: &str) -> Self {
        Self {
            file: file.into(),
            text: text.into(),
            list: Vec::new(),
        }
    }

    pub fn add(
        &mut self,
        span: Option<Range<usize>>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.list.push(ConfigProblem {
            span,
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Sorts the problems by their place in the file; those without a place come last.
    pub fn sorted(mut self) -> Self {
        self.list
            .sort_by_key(|problem| problem.span.as_ref().map_or(usize::MAX, |span| span.start));
        self
    }

    /// The line of a position, from 1, and its text.
    fn line_at(&self, at: usize) -> (usize, &str) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let number = before.matches('\n').count() + 1;
        (
            number,
            self.text
                .lines()
                .nth(number - 1)
                .unwrap_or_default()
                .trim_end(),
        )
    }
}

impl fmt::Display for ConfigProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            let gap = if i == 0 { "" } else { "\n" };
            let file = self.file.display();
            match &problem.span {
                Some(span) => {
                    let (number, text) = self.line_at(span.start);
                    writeln!(f, "{gap}{file}:{number}: {}", problem.message)?;
                    writeln!(f, "{number:>6} | {text}")?;
                }
                None => writeln!(f, "{gap}{file}: {}", problem.message)?,
            }
            writeln!(f, "       > {}", problem.remedy)?;
        }
        Ok(())
    }
}

/// The known name nearest to a wrong one, if any is near.
pub fn nearest_name<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), name))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
