//! Problems of a grid file: all at once, each with its line and a remedy.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridProblem {
    /// The line, from 1.
    pub line: usize,
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// All problems of one file, in the order of its lines. The `Display` has a line for each problem,
/// with file and line in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GridProblems {
    file: PathBuf,
    list: Vec<GridProblem>,
}

impl GridProblems {
    /// The problems by line.
    pub fn list(&self) -> &[GridProblem] {
        &self.list
    }
}

impl fmt::Display for GridProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            place,
            GridProblem {
                line,
                message,
                remedy,
            },
        ) in self.list.iter().enumerate()
        {
            let gap = if place == 0 { "" } else { "\n" };
            write!(
                f,
                "{gap}{}:{line}: {message}; {remedy}",
                self.file.display()
            )?;
        }
        Ok(())
    }
}

/// Collects problems while a text is read.
pub(super) struct ProblemCollector<'t> {
    text: &'t str,
    list: Vec<GridProblem>,
}

impl<'t> ProblemCollector<'t> {
    /// An empty collector for this text.
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            list: Vec::new(),
        }
    }

    /// Adds a problem at a place, in bytes.
    pub(super) fn add(
        &mut self,
        at: &Range<usize>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let line = self.line_at(at);
        self.list.push(GridProblem {
            line,
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    /// The line of a place, from 1.
    pub(super) fn line_at(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().iter().take(at.start);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns all problems, as those of `file`.
    pub(super) fn finish(mut self, file: &Path) -> GridProblems {
        self.list.sort_by_key(|problem| problem.line);
        GridProblems {
            file: file.into(),
            list: self.list,
        }
    }
}

/// The remedy for a wrong name: the nearest known one, or all of them.
pub(super) fn suggest_name(wrong: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(wrong, name), name))
        .filter(|(likeness, _)| *likeness >= 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, name)) => format!("did you mean {name:?}?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
