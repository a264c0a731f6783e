//! Names and comments that a stranger understands at first sight.

use std::collections::BTreeMap;

use super::{FOLDERS, Source, fail_if_any, function_name, sources};

/// Names of files that a package may have several of.
const COMMON_FILES: [&str; 4] = ["mod.rs", "tests.rs", "lib.rs", "main.rs"];
/// Packages whose files may share names: the command line has a file for the arguments of a thing and
/// one for what is done with it.
const SHARED_FILE_NAMES: [&str; 1] = ["src"];
/// Names of functions that say nothing about what the function does.
const EMPTY_NAMES: [&str; 5] = ["told", "tell", "heard", "deeds", "wrong"];
/// First words of comments that read like half a sentence.
const HALF_SENTENCES: [&str; 9] = [
    "what", "which", "whether", "how", "its", "one", "whose", "who", "so",
];

/// The name of a type that a line defines at the top of a module.
fn type_name(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "union", "type"].contains(&kind);
    let name = rest
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (is_type && !name.is_empty()).then_some(name)
}

/// The first word of a doc comment that a line begins.
fn first_word<'a>(before: &str, line: &'a str) -> Option<&'a str> {
    let text = |line: &'a str| {
        let line = line.trim_start();
        line.strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
    };
    let begins = !before.trim_start().starts_with("///") && !before.trim_start().starts_with("//!");
    if begins {
        text(line)?.split_whitespace().next()
    } else {
        None
    }
}

fn package(source: &Source) -> &str {
    let first = source.path.split('/').next().unwrap_or_default();
    if FOLDERS.contains(&first) { first } else { "" }
}

#[test]
fn every_type_has_a_name_of_its_own() {
    let sources = sources();
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in &sources {
        for (_, line) in source.production() {
            if let Some(name) = type_name(line) {
                places.entry(name).or_default().push(&source.path);
            }
        }
    }
    assert!(places.len() > 1_000, "types are not found any more");
    let problems: Vec<String> = places
        .iter()
        .filter(|(_, paths)| paths.len() > 1)
        .map(|(name, paths)| format!("{name} is defined in {}", paths.join(" and ")))
        .collect();
    fail_if_any(&problems);
}

#[test]
fn no_two_files_of_a_package_share_a_name() {
    let sources = sources();
    let mut places: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for source in &sources {
        let file = source.path.rsplit('/').next().unwrap_or_default();
        let is_product =
            source.path.contains("src/") && !SHARED_FILE_NAMES.contains(&package(source));
        if is_product && !COMMON_FILES.contains(&file) {
            places
                .entry((package(source), file))
                .or_default()
                .push(&source.path);
        }
    }
    let problems: Vec<String> = places
        .values()
        .filter(|paths| paths.len() > 1)
        .map(|paths| paths.join(" and ") + " share a name")
        .collect();
    fail_if_any(&problems);
}

#[test]
fn functions_say_what_they_do() {
    let mut problems = Vec::new();
    for source in sources() {
        for (number, line) in source.production() {
            let name = function_name(line.trim_start()).unwrap_or_default();
            if EMPTY_NAMES.contains(&name) {
                problems.push(format!("{}:{number}: what does `{name}` do?", source.path));
            }
        }
    }
    fail_if_any(&problems);
}

#[test]
fn comments_begin_as_sentences_do() {
    let mut problems = Vec::new();
    for source in sources() {
        let mut before = "";
        for (number, line) in source.production() {
            let word = first_word(before, line).unwrap_or_default();
            let plain = word.trim_end_matches([',', '.', ':']).to_lowercase();
            if HALF_SENTENCES.contains(&plain.as_str()) {
                problems.push(format!(
                    "{}:{number}: a comment begins with `{word}`: say what it is or does",
                    source.path
                ));
            }
            before = line;
        }
    }
    fail_if_any(&problems);
}

#[test]
fn statements_are_plain() {
    let mut problems = Vec::new();
    for source in sources() {
        let mut before = "";
        for (number, line) in source.production() {
            let code = line.trim_start();
            let pair = code
                .strip_prefix("let (")
                .and_then(|rest| rest.split_once(") = ("));
            let is_pair = |names: &str| names.contains(',') && !names.contains('(');
            if pair.is_some_and(|(names, values)| is_pair(names) && values.contains(',')) {
                problems.push(format!("{}:{number}: one `let` a line", source.path));
            }
            let is_match = before.trim_end().ends_with('{') && before.contains("match ");
            let is_bool = code.starts_with("true =>") || code.starts_with("false =>");
            if is_match && is_bool {
                problems.push(format!("{}:{number}: `if` for a bool", source.path));
            }
            before = line;
        }
    }
    fail_if_any(&problems);
}

#[test]
fn names_and_comments_are_found_in_lines() {
    assert_eq!(type_name("pub(crate) struct Claim<T> {"), Some("Claim"));
    assert_eq!(type_name("type Reply = ();"), Some("Reply"));
    assert_eq!(type_name("    type Error = ();"), None);
    assert_eq!(first_word("", "    /// Whether so."), Some("Whether"));
    assert_eq!(first_word("/// A job", "/// which waits."), None);
}
