//! All mistakes of a job file at once. A reader stops at its first error. Here the wrong value is
//! removed, or the missing one added, and the file is read again until no error is left.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::placement::policies::POLICIES;
use serde_path_to_error::Segment;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::located_values::{self, LocatedDocument};
use cospan_api::v1::document::JobDocument;
use cospan_api::v1::parse::{self, JobFormat, JobListDocument, ParseError, nearest_word};

/// Most mistakes that are reported.
const MOST: usize = 50;

/// Values that replace a wrong or missing value.
const STAND_INS: [(&str, &str); 6] = [
    ("wall_time", "\"1s\""),
    ("run_time", "\"1s\""),
    ("before", "\"1s\""),
    ("rerun_after", "\"1s\""),
    ("processors", "1"),
    ("component", "[]"),
];

/// Reads one job, or a list of jobs, as [`parse::parse_all`] does.
///
/// # Errors
///
/// All mistakes with their lines, in the order of the file, also two components of one name, and
/// policies that do not exist. Only the first error if the text is invalid in its notation, or is
/// YAML with anchors or tags.
pub fn read_collecting_mistakes(
    text: &str,
    format: JobFormat,
) -> Result<Vec<JobDocument>, Vec<ParseError>> {
    let read = parse::parse_all(text, format);
    let is_list = parse::is_list(text, format);
    let located = match format {
        JobFormat::Toml => DeTable::parse(text).ok().map(LocatedDocument::from),
        JobFormat::Json | JobFormat::Yaml => {
            located_values::read_located(text, format == JobFormat::Yaml)
        }
    };
    let (documents, mut found) = match (read, &located) {
        (Ok(documents), _) => (documents, Vec::new()),
        (Err(first), None) => return Err(vec![first]),
        (Err(first), Some(located)) => {
            match MistakeCollector::of(text, is_list, located).collect_all() {
                (documents, found) if found.is_empty() => (documents, vec![first]),
                mended => mended,
            }
        }
    };
    let odd = documents.iter().enumerate().flat_map(|(index, document)| {
        let place = if is_list {
            format!("job[{index}].")
        } else {
            String::new()
        };
        find_implausible(document)
            .into_iter()
            .map(move |(key, error)| ParseError {
                key: format!("{place}{key}"),
                ..error
            })
    });
    found.extend(odd.map(|error| match &located {
        Some(located) => add_line(text, located.table.get_ref(), error),
        None => error,
    }));
    if format != JobFormat::Toml {
        // The list of jobs has no name in these notations.
        found.iter_mut().for_each(|error| {
            if let Some(key) = error.key.strip_prefix("job[").filter(|_| is_list) {
                error.key = format!("[{key}");
            }
        });
    }
    // A missing key is reported where its table begins.
    found.sort_by_key(|error| (error.line, error.column));
    found.dedup();
    if found.is_empty() {
        Ok(documents)
    } else {
        Err(found)
    }
}

/// Finds values that can be read but make no sense.
fn find_implausible(document: &JobDocument) -> Vec<(String, ParseError)> {
    let mut found = Vec::new();
    let known: Vec<String> = POLICIES
        .iter()
        .map(|policy| policy.name().to_owned())
        .collect();
    if let Some(policy) = document
        .policy
        .as_ref()
        .filter(|name| !known.contains(&name.to_string()))
    {
        let problem = format!(
            "there is no policy {:?}; there are: {}",
            policy,
            known.join(", ")
        );
        let nearest = nearest_word(policy.as_str(), &known);
        found.push((
            "policy".to_owned(),
            ParseError {
                nearest,
                problem,
                ..ParseError::default()
            },
        ));
    }
    let mut first = BTreeMap::new();
    for (index, component) in document.component.iter().enumerate() {
        let before = *first.entry(&component.name).or_insert(index);
        if before != index {
            let problem = format!("component[{before}] is called {} as well", component.name);
            let error = ParseError {
                problem,
                ..ParseError::default()
            };
            found.push((format!("component[{index}].name"), error));
        }
    }
    found
}

/// A file that is read again and again until it has no errors.
struct MistakeCollector<'a> {
    text: &'a str,
    is_list: bool,
    table: Spanned<DeTable<'a>>,
    /// The unquoted values that were not yet read as texts.
    plain: BTreeMap<usize, String>,
    /// The errors of those that were, by their keys.
    said: BTreeMap<String, ParseError>,
    /// The values that were removed. They are not reported as missing.
    taken_out: BTreeSet<String>,
    found: Vec<ParseError>,
}

impl<'a> MistakeCollector<'a> {
    fn of(text: &'a str, is_list: bool, located: &LocatedDocument<'a>) -> Self {
        let LocatedDocument { table, plain } = located;
        let said = BTreeMap::new();
        let taken_out = BTreeSet::new();
        let found = Vec::new();
        Self {
            text,
            is_list,
            table: table.clone(),
            plain: plain.clone(),
            said,
            taken_out,
            found,
        }
    }

    /// Returns the jobs that could be read in the end, and all mistakes.
    fn collect_all(mut self) -> (Vec<JobDocument>, Vec<ParseError>) {
        for round in 0..3 * MOST {
            let from = toml::de::Deserializer::from(self.table.clone());
            let read = if self.is_list {
                serde_path_to_error::deserialize(from).map(|jobs: JobListDocument| jobs.job)
            } else {
                serde_path_to_error::deserialize(from).map(|job: JobDocument| vec![job])
            };
            let error = match read {
                Ok(documents) => return (documents, self.found),
                Err(error) => error,
            };
            let path: Vec<Segment> = error.path().iter().cloned().collect();
            let told = parse::convert_toml_error(self.text, &error);
            if !self.remove_mistake(&path, told, round) || self.found.len() >= MOST {
                break;
            }
        }
        (Vec::new(), self.found)
    }

    /// Removes one mistake. Returns false if that is impossible.
    fn remove_mistake(&mut self, path: &[Segment], told: ParseError, round: usize) -> bool {
        if let Some(field) = missing_field(&told.problem) {
            let key = match told.key.as_str() {
                "" => field.clone(),
                place => format!("{place}.{field}"),
            };
            if !self.taken_out.contains(&key) {
                self.found.push(told);
            }
            let Some(table) = table_at(self.table.get_mut(), path) else {
                return false;
            };
            return insert_stand_in(table, &field, round);
        }
        if self.read_as_text(path) {
            self.said.insert(told.key.clone(), told);
            return true;
        }
        let told = self.said.remove(&told.key).unwrap_or(told);
        // Removes the innermost key that leads to the mistake, with everything below it.
        let last = path
            .iter()
            .rposition(|segment: &Segment| matches!(segment, Segment::Map { .. }));
        let taken = last.and_then(|at| match &path[at] {
            Segment::Map { key } => {
                table_at(self.table.get_mut(), &path[..at])?.remove(key.as_str())
            }
            _ => None,
        });
        let key = match told
            .key
            .strip_suffix(']')
            .and_then(|key| key.rsplit_once('['))
        {
            Some((list, _)) => list,
            None => told.key.as_str(),
        };
        self.taken_out.insert(key.to_owned());
        self.found.push(told);
        taken.is_some()
    }

    /// Reads an unquoted value of YAML as a text from now on.
    fn read_as_text(&mut self, path: &[Segment]) -> bool {
        let Some(value) = value_at(self.table.get_mut(), path) else {
            return false;
        };
        let Some(text) = self.plain.remove(&value.span().start) else {
            return false;
        };
        *value.get_mut() = DeValue::String(Cow::Owned(text));
        true
    }
}

/// Returns the value at a path.
fn value_at<'t, 'a>(
    table: &'t mut DeTable<'a>,
    path: &[Segment],
) -> Option<&'t mut Spanned<DeValue<'a>>> {
    let last = path
        .iter()
        .rposition(|segment: &Segment| matches!(segment, Segment::Map { .. }))?;
    let (before, rest) = path.split_at(last);
    let [Segment::Map { key }, indices @ ..] = rest else {
        return None;
    };
    let value = table_at(table, before)?.get_mut(key.as_str())?;
    indices
        .iter()
        .try_fold(value, |value, step| match (value.get_mut(), step) {
            (DeValue::Array(items), Segment::Seq { index }) => items.get_mut(*index),
            _ => None,
        })
}

/// Returns the field of "missing field `x`".
fn missing_field(problem: &str) -> Option<String> {
    Some(
        problem
            .strip_prefix("missing field `")?
            .split('`')
            .next()?
            .to_owned(),
    )
}

fn insert_stand_in(table: &mut DeTable<'_>, field: &str, round: usize) -> bool {
    let known = STAND_INS.iter().find(|(name, _)| *name == field);
    let value = match known {
        Some((_, text)) => DeValue::parse(text).ok(),
        // Each name or path is different, so that none appears twice.
        None => {
            let text = DeValue::String(Cow::Owned(format!("stand-in-{round}")));
            Some(Spanned::new(0..0, text))
        }
    };
    let key = Spanned::new(0..0, Cow::Owned(field.to_owned()));
    value.is_some_and(|value| table.insert(key, value).is_none())
}

/// Returns the table at a path.
fn table_at<'t, 'a>(table: &'t mut DeTable<'a>, path: &[Segment]) -> Option<&'t mut DeTable<'a>> {
    let mut steps = path.iter();
    let Some(step) = steps.next() else {
        return Some(table);
    };
    let Segment::Map { key } = step else {
        return None;
    };
    let mut value = table.get_mut(key.as_str())?.get_mut();
    loop {
        match (value, steps.as_slice()) {
            (DeValue::Table(table), rest) => return table_at(table, rest),
            (DeValue::Array(items), [Segment::Seq { index }, ..]) => {
                value = items.get_mut(*index)?.get_mut();
                steps.next();
            }
            _ => return None,
        }
    }
}

/// Adds the line of the key to the error.
fn add_line(text: &str, table: &DeTable<'_>, error: ParseError) -> ParseError {
    match position_of(table, &error.key) {
        Some(start) => {
            let (line, column) = parse::line_and_column(text, start);
            ParseError {
                line: Some(line),
                column: Some(column),
                ..error
            }
        }
        None => error,
    }
}

/// Returns the position of the value of a key like `component[1].name`.
fn position_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    let (step, rest) = key.split_once('.').unwrap_or((key, ""));
    let (name, index) = match step.split_once('[') {
        Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (step, None),
    };
    let mut value = table.get(name)?;
    if let (Some(index), DeValue::Array(items)) = (index, value.get_ref()) {
        value = items.get(index)?;
    }
    match (value.get_ref(), rest) {
        (_, "") => Some(value.span().start),
        (DeValue::Table(table), rest) => position_of(table, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes_in_format(text: &str, format: JobFormat) -> Vec<String> {
        read_collecting_mistakes(text, format)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn mistakes_in(text: &str) -> Vec<String> {
        mistakes_in_format(text, JobFormat::Toml)
    }

    /// What is wrong below, but for where in its line it stands.
    const WRONG: [&str; 6] = [
        "wall_tim: unknown key `wall_tim`; did you mean `wall_time`?",
        "policy: there is no policy \"worst-fitt\"; there are: worst-fit, close",
        "component[0].processors: invalid value: integer `0`, expected a whole number",
        "component[1].name: component[0] is called a as well",
        "component[1].executabel: unknown key `executabel`; did you mean",
        "component[1].arguments[0]: invalid type: integer `1`, expected",
    ];

    #[test]
    fn mistakes_are_told_alike_with_their_lines_in_every_notation() {
        let toml = "wall_tim = \"1h\"\npolicy = \"worst-fitt\"\n[[component]]\n\
                    name = \"a\"\nprocessors = 0\nexecutable = \"/bin/true\"\n[[component]]\n\
                    name = \"a\"\nprocessors = 1\nexecutabel = \"x\"\narguments = [1]\n";
        let yaml = "wall_tim: 1h\npolicy: worst-fitt\ncomponent:\n- name: a\n  processors: 0\n  \
                    executable: /bin/true\n- name: a\n  processors: 1\n  executabel: x\n  \
                    arguments: [{}]\n";
        let yaml = yaml.replace("[{}]", "[[1]]");
        let json = "{\"wall_tim\": \"1h\",\n\"policy\": \"worst-fitt\",\n\"component\": [\n{\
                    \"name\": \"a\",\n\"processors\": 0,\n\"executable\": \"/bin/true\"}, {\n\
                    \"name\": \"a\",\n\"processors\": 1, \"executabel\": \"x\",\n\
                    \"arguments\": [1]}]}";
        for (format, text, lines) in [
            (JobFormat::Toml, toml, [1, 2, 5, 8, 10, 11]),
            (JobFormat::Yaml, yaml.as_str(), [1, 2, 5, 7, 9, 10]),
            (JobFormat::Json, json, [1, 2, 5, 7, 8, 9]),
        ] {
            let said = mistakes_in_format(text, format);
            let said: Vec<_> = said
                .iter()
                .filter(|told| !told.contains("missing"))
                .collect();
            assert_eq!(said.len(), WRONG.len(), "{format:?}: {said:#?}");
            for ((wrong, line), said) in WRONG.iter().zip(lines).zip(said) {
                let wrong = wrong.split(" integer `1`").next().unwrap();
                assert!(
                    said.starts_with(&format!("line {line}: {wrong}")),
                    "{format:?}: {said}"
                );
            }
        }
    }

    #[test]
    fn what_yaml_has_without_quotes_is_a_text_where_one_is_wanted() {
        let text = "name: 007\npolicy: 12\nwall_time: 90\ncomponent: []\nrerunable: true\n";
        let said = mistakes_in_format(text, JobFormat::Yaml);
        assert!(!said.iter().any(|told| told.contains("name:")), "{said:#?}");
        assert!(
            said.iter().any(|told| told.contains("rerunable")),
            "{said:#?}"
        );
        let list = "- wall_time: 1h\n  polic: x\n- wall_time: 1h\n  polic: x\n";
        let said = mistakes_in_format(list, JobFormat::Yaml);
        assert!(
            said.iter().any(|told| told.contains("line 2: [0].polic")),
            "{said:#?}"
        );
        assert!(
            said.iter().any(|told| told.contains("line 4: [1].polic")),
            "{said:#?}"
        );
    }

    #[test]
    fn all_mistakes_of_a_file_are_told_with_their_lines() {
        let text = "name = \"x\"\nwall_tim = \"1h\"\npolicy = \"worst-fitt\"\n[[component]]\n\
                    name = \"a\"\nprocessors = 0\nexecutable = \"/bin/true\"\n[[component]]\n\
                    name = \"a\"\nprocessors = 1\nexecutabel = \"x\"\n";
        let said = mistakes_in(text);
        let lines = [
            "missing field `wall_time`",
            "line 2: wall_tim: unknown key `wall_tim`; did you mean `wall_time`?",
            "line 3: policy: there is no policy \"worst-fitt\"; there are: worst-fit, close",
            "line 6: component[0].processors: invalid value: integer `0`, expected a whole number",
            "line 9: component[1].name: component[0] is called a as well",
            "component[1]: missing field `executable`",
            "line 11: component[1].executabel: unknown key `executabel`; did you mean",
        ];
        assert_eq!(said.len(), lines.len(), "{said:#?}");
        for line in lines {
            assert!(
                said.iter().any(|told| told.contains(line)),
                "{line} is not in {said:#?}"
            );
        }
    }

    #[test]
    fn a_wrong_value_is_not_said_to_be_missing_as_well() {
        let text = "wall_time = 90\n[[component]]\nname = \"a\"\nprocessors = \"two\"\n\
                    executable = \"x\"\narguments = [1, \"b\"]\n";
        let said = mistakes_in(text);
        assert_eq!(said.len(), 3, "{said:#?}");
        assert!(
            !said.iter().any(|told| told.contains("missing")),
            "{said:#?}"
        );
    }

    #[test]
    fn a_list_of_jobs_is_read_to_its_end() {
        let job = |policy: &str| format!("[[job]]\nwall_time = \"1s\"\npolicy = \"{policy}\"\n");
        let said = mistakes_in(&(job("worst-fit") + &job("wrost-fit")));
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(
            said[0].starts_with("line 6: job[1].policy: there is no policy"),
            "{said:#?}"
        );
        assert!(
            read_collecting_mistakes("no toml at all", JobFormat::Toml)
                .unwrap_err()
                .len()
                == 1
        );
    }

    #[test]
    fn whatever_is_wrong_the_end_is_found() {
        for text in [
            "component = 3\n",
            "component = [3]\n",
            "wall_time = {}\n[[job]]\n",
            "job = 1\n",
        ] {
            assert!(!mistakes_in(text).is_empty(), "{text}");
        }
    }
}
