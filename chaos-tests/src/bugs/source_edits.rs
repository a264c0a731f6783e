//! The edits that plant bugs, as `planted-bugs.txt` lists them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// The list, in the tree.
pub(super) const LIST: &str = "chaos-tests/planted-bugs.txt";

/// A mistake that somebody might make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlantedBug {
    pub name: String,
    /// True if few seeds show it.
    pub is_rare: bool,
}

/// Lines of a file that others replace.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceEdit {
    /// The bug, or "all" for what every copy needs.
    bug: String,
    file: String,
    old: Vec<String>,
    new: Vec<String>,
}

/// All bugs that can be planted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BugList {
    pub bugs: Vec<PlantedBug>,
    edits: Vec<SourceEdit>,
}

impl BugList {
    /// Reads the list of this tree.
    ///
    /// # Errors
    /// It cannot be read, or a line is none of a list.
    pub fn read(tree: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(tree.join(LIST)).context(LIST)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut list = BugList {
            bugs: Vec::new(),
            edits: Vec::new(),
        };
        for line in text.lines() {
            let edit = list.edits.last_mut();
            match (line.chars().next(), edit) {
                (None | Some('#'), _) => {}
                (Some('['), _) => list.add_bug(line)?,
                (Some('@'), _) => list.add_edit(line[1..].trim()),
                (Some('-'), Some(edit)) => edit.old.push(line[1..].trim().to_owned()),
                (Some('+'), Some(edit)) => edit.new.push(line[1..].trim().to_owned()),
                (Some(' '), Some(edit)) => {
                    edit.old.push(line.trim().to_owned());
                    edit.new.push(line.trim().to_owned());
                }
                _ => bail!("{LIST} has a line that is none of an edit: {line}"),
            }
        }
        Ok(list)
    }

    fn add_bug(&mut self, line: &str) -> Result<()> {
        let heading = line[1..].split_once(']').context(line.to_owned())?.0;
        let name = heading.strip_suffix(", rare").unwrap_or(heading);
        ensure!(
            self.bugs.iter().all(|bug| bug.name != name),
            "{LIST} has two bugs named {name}"
        );
        self.bugs.push(PlantedBug {
            name: name.to_owned(),
            is_rare: heading != name,
        });
        Ok(())
    }

    fn add_edit(&mut self, file: &str) {
        let bug = self.bugs.last().map_or("all", |bug| &bug.name);
        self.edits.push(SourceEdit {
            bug: bug.to_owned(),
            file: file.to_owned(),
            old: Vec::new(),
            new: Vec::new(),
        });
    }

    /// Plants all bugs: returns the files that are edited, with what they are then.
    ///
    /// # Errors
    /// An edit does not fit exactly one place of its file.
    pub fn edit_files(&self, tree: &Path) -> Result<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        for edit in &self.edits {
            let path = tree.join(&edit.file);
            let text = match files.remove(&edit.file) {
                Some(text) => text,
                None => std::fs::read_to_string(&path).context(edit.file.clone())?,
            };
            files.insert(edit.file.clone(), edit.apply(&text)?);
        }
        Ok(files)
    }
}

impl SourceEdit {
    fn apply(&self, text: &str) -> Result<String> {
        let lines: Vec<&str> = text.lines().collect();
        let places: Vec<usize> = (0..lines.len())
            .filter(|&at| self.fits(&lines[at..]))
            .collect();
        let &[at] = &places[..] else {
            bail!(
                "{LIST}: an edit of {} must fit one place of {}, and fits {}. It begins at: {}",
                self.bug,
                self.file,
                places.len(),
                self.old.first().map_or("nothing", String::as_str),
            );
        };
        let new = self.new.iter().map(|line| {
            // Every package has the switch under this path.
            line.replace("planted(\"", "cospan_domain::planted(\"")
        });
        let before = lines[..at].iter().map(|line| (*line).to_owned());
        let after = lines[at + self.old.len()..].iter();
        let all = before
            .chain(new)
            .chain(after.map(|line| (*line).to_owned()));
        Ok(all.collect::<Vec<_>>().join("\n") + "\n")
    }

    fn fits(&self, lines: &[&str]) -> bool {
        let mut lines = lines.iter();
        !self.old.is_empty()
            && self
                .old
                .iter()
                .all(|old| lines.next().is_some_and(|line| line.trim() == old))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tree;
    use super::*;

    #[test]
    fn every_edit_that_plants_a_bug_fits_one_place_of_its_file() {
        let list = BugList::read(tree()).unwrap();
        list.edit_files(tree()).unwrap();
    }

    #[test]
    fn each_planted_bug_has_its_own_switch_and_its_row_in_the_book() {
        let list = BugList::read(tree()).unwrap();
        let names: BTreeSet<&str> = list.bugs.iter().map(|bug| bug.name.as_str()).collect();
        let new = list.edits.iter().flat_map(|edit| &edit.new);
        let switches = new.flat_map(|line| line.split("planted(\"").skip(1));
        let switches: BTreeSet<&str> = switches.filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(switches, names);
        let book = std::fs::read_to_string(tree().join("docs/src/planted-bugs.md")).unwrap();
        let rows = book.lines().filter_map(|line| line.strip_prefix("| "));
        let rows = rows.filter_map(|row| row.split(" |").next());
        let rows: BTreeSet<&str> = rows.filter(|name| *name != "bug").collect();
        assert_eq!(rows, names);
    }

    #[test]
    fn an_edit_that_fits_nowhere_or_twice_is_named() {
        let text = "[Late] It comes late.\n@ a.rs\n  one();\n- two();\n+ planted(\"Late\");\n";
        let list = BugList::parse(text).unwrap();
        let edit = &list.edits[0];
        let edited = edit.apply("fn f() {\n    one();\n    two();\n}\n").unwrap();
        assert_eq!(
            edited,
            "fn f() {\none();\ncospan_domain::planted(\"Late\");\n}\n"
        );
        for text in ["one();\n", "one();\ntwo();\none();\ntwo();\n"] {
            let problem = edit.apply(text).unwrap_err().to_string();
            assert!(problem.contains("an edit of Late"), "{problem}");
        }
        let twice = format!("{text}{text}");
        let problem = BugList::parse(&twice).unwrap_err().to_string();
        assert!(problem.contains("two bugs named Late"), "{problem}");
    }
}
