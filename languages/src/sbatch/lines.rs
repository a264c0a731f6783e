//! Option lines of a script, parsed as `sbatch` parses them.

use super::ScriptError;

/// The beginning of an option line.
const MARK: &str = "#SBATCH";

/// Words that begin the next component of a heterogeneous job.
const NEXT: [&str; 3] = ["hetjob", "packjob", ":"];

/// Beginnings of the option lines of batch systems that `sbatch` does not read.
const FOREIGN: [(&str, &str); 3] = [
    ("#$ -", "Grid Engine"),
    ("#OAR ", "OAR"),
    ("#PJM ", "Fujitsu's Job Operation Software"),
];

/// Beginnings of those that it reads.
const READ: [&str; 3] = [MARK, "#PBS ", "#BSUB "];

/// A word of an option line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OptionWord {
    /// The line, from 1.
    pub(super) line: usize,
    /// The text without quotes.
    pub(super) text: String,
}

/// Splits all option lines into words, by component; also returns the first line that is not read
/// because it comes after a command.
pub(super) fn option_words(
    text: &str,
) -> Result<(Vec<Vec<OptionWord>>, Option<usize>), ScriptError> {
    let is_comment =
        |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    let mut components = vec![Vec::new()];
    let mut lines = (1..).zip(text.lines());
    for (number, line) in lines.by_ref() {
        let Some(rest) = line.strip_prefix(MARK) else {
            if is_comment(line) {
                continue;
            }
            break;
        };
        for (text, quoted) in split_words(number, rest)? {
            match components.last_mut() {
                Some(words) if quoted || !NEXT.contains(&text.as_str()) => {
                    words.push(OptionWord { line: number, text });
                }
                _ => components.push(Vec::new()),
            }
        }
    }
    let late = lines
        .find(|(_, line)| line.starts_with(MARK))
        .map(|(number, _)| number);
    Ok((components, late))
}

/// Refuses a script with lines of other systems only: Slurm ignores them, and would give it one
/// processor. A script that has lines for Slurm as well is meant for several systems.
///
/// # Errors
/// It has lines of another batch system, and none that Slurm reads.
pub(super) fn refuse_foreign_script(text: &str) -> Result<(), ScriptError> {
    let is_read = |line: &str| READ.iter().any(|mark| line.starts_with(mark));
    if text.lines().any(is_read) {
        return Ok(());
    }
    let foreign = (1..).zip(text.lines()).find_map(|(number, line)| {
        let (mark, system) = FOREIGN.iter().find(|(mark, _)| line.starts_with(mark))?;
        Some((number, mark.trim_end_matches([' ', '-']).trim_end(), system))
    });
    let Some((number, mark, system)) = foreign else {
        return Ok(());
    };
    let problem = format!("`{mark}` begins a line of {system}, but only lines of Slurm are read");
    let remedy = "write #SBATCH lines instead, or submit without the file: `cospan submit -n \
                  NUMBER --wall-time TIME -- COMMAND`";
    Err(ScriptError::at_line(number, problem, remedy))
}

/// Splits an option line of another system into words.
pub(super) fn line_words(number: usize, line: &str) -> Result<Vec<OptionWord>, ScriptError> {
    let words = split_words(number, line)?.into_iter();
    Ok(words
        .map(|(text, _)| OptionWord { line: number, text })
        .collect())
}

/// Splits a line at white space, with a flag for words that were quoted in part; `#` begins a
/// comment.
fn split_words(number: usize, line: &str) -> Result<Vec<(String, bool)>, ScriptError> {
    let mut words = Vec::new();
    let mut word: Option<(String, bool)> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (_, '\\') => {
                let (text, quoted) = word.get_or_insert_default();
                text.extend(chars.next());
                *quoted = true;
            }
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default().1 = true;
            }
            (None, '#') => break,
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().0.push(c),
        }
    }
    if let Some(open) = quote {
        let problem = format!("a quote {open} is not closed");
        return Err(ScriptError::at_line(
            number,
            problem,
            "close it on the same line",
        ));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<String> {
        split_words(1, line)
            .unwrap()
            .into_iter()
            .map(|(text, _)| text)
            .collect()
    }

    #[test]
    fn a_line_is_split_with_quotes_escapes_and_a_comment() {
        assert_eq!(of(" -n 4  --time=1:00 # four"), ["-n", "4", "--time=1:00"]);
        assert_eq!(
            of(" -J 'my job' --comment=\"a # b\""),
            ["-J", "my job", "--comment=a # b"]
        );
        assert_eq!(of(r" -J my\ job '' a\#b"), ["-J", "my job", "", "a#b"]);
        assert_eq!(of(" -n4#four"), ["-n4"]);
        assert!(split_words(7, " -J 'x").is_err_and(|error| error.line == Some(7)));
    }

    #[test]
    fn options_stand_before_the_first_command_only() {
        let text =
            "#!/bin/sh\n# words\n##SBATCH -n9\n\n#SBATCH -n 4\n  # more\necho\n#SBATCH -n 5\n";
        let (components, late) = option_words(text).unwrap();
        let texts: Vec<&str> = components[0]
            .iter()
            .map(|word| word.text.as_str())
            .collect();
        assert_eq!(
            (texts, components[0][0].line, late),
            (vec!["-n", "4"], 5, Some(8))
        );
    }

    #[test]
    fn lines_of_another_system_are_refused_unless_slurm_has_its_own() {
        let refused = |text| refuse_foreign_script(text).unwrap_err();
        let oar = refused("#!/bin/sh\n# for OAR\n#OAR -l nodes=2\necho\n");
        assert_eq!(oar.line, Some(3));
        assert!(
            oar.problem.contains("`#OAR` begins a line of OAR"),
            "{}",
            oar.problem
        );
        let engine = refused("#!/bin/sh\n#$ -pe mpi 8\n");
        assert!(
            engine.problem.contains("`#$` begins a line of Grid Engine"),
            "{}",
            engine.problem
        );
        assert_eq!(
            refuse_foreign_script("#!/bin/sh\n#OAR -l nodes=2\n#SBATCH -n 8\n"),
            Ok(())
        );
        assert_eq!(
            refuse_foreign_script("#!/bin/sh\n#PBS -l nodes=2:ppn=4\n#OAR -l nodes=2\n"),
            Ok(()),
            "sbatch reads them"
        );
        assert_eq!(
            refuse_foreign_script("#!/bin/sh\n#$HOME is not read\n#PBSPRO\n"),
            Ok(())
        );
    }

    #[test]
    fn components_of_a_heterogeneous_job_are_told_apart() {
        let (components, _) =
            option_words("#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2 : -n3\n").unwrap();
        assert_eq!(components.len(), 3);
        let (named, _) = option_words("#!/bin/sh\n#SBATCH -J ':'\n").unwrap();
        assert_eq!(named.len(), 1, "a quoted colon is a name");
    }
}
