//! Option lines of PBS and LSF, counted as `sbatch` counts them: after its own, so that they win,
//! and all over the script. What they mean to those systems themselves can differ.

use super::ScriptError;
use super::getopt::GivenOption;
use super::lines::{self, OptionWord};
use super::option_table::TABLE;

/// Lines that are no comments, after which no more are read.
const COMMANDS_MAX: usize = 100;

/// Letters of PBS that take no value, and those that mean nothing to `sbatch`.
const PBS_FLAGS: &str = "hIVz";
const PBS_UNUSED: &str = "cCIjkrSuVz";

/// Letters of PBS and of LSF that are options of `sbatch` under another name.
const PBS_NAMES: [(char, &str); 10] = [
    ('a', "begin"),
    ('A', "account"),
    ('e', "error"),
    ('h', "hold"),
    ('J', "array"),
    ('t', "array"),
    ('M', "mail-user"),
    ('N', "job-name"),
    ('o', "output"),
    ('q', "partition"),
];
const LSF_NAMES: [(char, &str); 7] = [
    ('c', "chdir"),
    ('e', "error"),
    ('J', "job-name"),
    ('o', "output"),
    ('q', "partition"),
    ('W', "time"),
    ('x', "exclusive"),
];

/// Reads them; those of LSF come last.
///
/// # Errors
/// A line has what `sbatch` refuses, too.
pub(super) fn parse_foreign_options(text: &str) -> Result<Vec<GivenOption>, ScriptError> {
    let mut reader = ForeignReader { given: Vec::new() };
    for (line, letter, value) in read_letters(text, "#PBS", PBS_FLAGS)? {
        reader.read_pbs(line, letter, &value)?;
    }
    for (line, letter, value) in read_letters(text, "#BSUB", "x")? {
        reader.read_lsf(line, letter, &value)?;
    }
    Ok(reader.given)
}

/// Reads the letters of these lines, with their values.
fn read_letters(
    text: &str,
    mark: &str,
    flags: &str,
) -> Result<Vec<(usize, char, String)>, ScriptError> {
    let mut words = Vec::new();
    let mut commands = 0;
    for (number, line) in (1..).zip(text.lines()) {
        match line.strip_prefix(mark) {
            Some(rest) => words.extend(lines::line_words(number, rest)?),
            None if !line.starts_with('#') => commands += 1,
            None => {}
        }
        if commands > COMMANDS_MAX {
            break;
        }
    }
    let mut found = Vec::new();
    let mut rest = words.into_iter();
    while let Some(OptionWord { line, text }) = rest.next() {
        let text = if text == "-cwd" { "-c" } else { &text };
        let mut chars = text.strip_prefix('-').unwrap_or_default().chars();
        let letter = chars.next().filter(|letter| letter.is_ascii_alphabetic());
        let letter = letter.ok_or_else(|| wrong_word(line, mark, text))?;
        let value = match chars.as_str() {
            _ if flags.contains(letter) => String::new(),
            "" => rest.next().map(|word| word.text).unwrap_or_default(),
            value => value.to_owned(),
        };
        if value.is_empty() && !flags.contains(letter) {
            return Err(wrong_word(line, mark, text));
        }
        found.push((line, letter, value));
    }
    Ok(found)
}

fn wrong_word(line: usize, mark: &str, word: &str) -> ScriptError {
    let problem = format!("{word:?} in a line of {mark} is nothing that sbatch reads");
    ScriptError::at_line(line, problem, "take it out, or write an #SBATCH line")
}

struct ForeignReader {
    given: Vec<GivenOption>,
}

impl ForeignReader {
    fn give(&mut self, line: usize, name: &str, value: &str) {
        let known = TABLE.iter().find(|known| known.name == name);
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        let given = known.map(|known| GivenOption { line, known, value });
        self.given.extend(given);
    }

    fn read_pbs(&mut self, line: usize, letter: char, value: &str) -> Result<(), ScriptError> {
        match letter {
            'l' => self.read_resources(line, value),
            'm' => self.give(line, "mail-type", &mail_types(value)),
            // A nicer priority than others have is not for everybody.
            'p' if value.starts_with('-') => {}
            'p' => self.give(line, "nice", value),
            'v' => self.read_variables(line, value),
            'W' => {
                let on = value.strip_prefix("depend=");
                on.into_iter()
                    .for_each(|on| self.give(line, "dependency", on));
            }
            'e' | 'o' if value.eq_ignore_ascii_case("none") => {
                self.give_named(line, &PBS_NAMES, letter, "/dev/null");
            }
            _ if self.give_named(line, &PBS_NAMES, letter, value) => {}
            _ if PBS_UNUSED.contains(letter) => {}
            _ => return Err(wrong_word(line, "#PBS", &format!("-{letter}"))),
        }
        Ok(())
    }

    fn read_lsf(&mut self, line: usize, letter: char, value: &str) -> Result<(), ScriptError> {
        match letter {
            'm' => self.give(line, "nodelist", &value.replace(' ', ",")),
            // Of a least and a most the most.
            'n' => self.give(line, "ntasks", value.rsplit(',').next().unwrap_or(value)),
            // Kilobytes of each processor.
            'M' => match value.parse::<u64>() {
                Ok(kilobytes) => self.give(line, "mem-per-cpu", &format!("{kilobytes}K")),
                Err(_) => return Err(wrong_word(line, "#BSUB", &format!("-M {value}"))),
            },
            'e' if value.eq_ignore_ascii_case("none") => self.give(line, "error", "/dev/null"),
            _ if self.give_named(line, &LSF_NAMES, letter, value) => {}
            _ => return Err(wrong_word(line, "#BSUB", &format!("-{letter}"))),
        }
        Ok(())
    }

    fn give_named(
        &mut self,
        line: usize,
        names: &[(char, &str)],
        letter: char,
        value: &str,
    ) -> bool {
        let named = names.iter().find(|(known, _)| *known == letter);
        if let Some((_, name)) = named {
            self.give(line, name, value);
        }
        named.is_some()
    }

    /// Several lists of variables are one.
    fn read_variables(&mut self, line: usize, value: &str) {
        let before = self
            .given
            .iter()
            .rposition(|given| given.known.name == "export");
        match before.map(|at| self.given.remove(at)) {
            Some(known) => self.give(line, "export", &format!("{},{value}", known.value_text())),
            None => self.give(line, "export", value),
        }
    }

    /// Reads `-l nodes=2:ppn=4,walltime=1:00:00` or `-l select=2:ncpus=4`. As `sbatch` does: a name is
    /// looked for at each place, and whatever is between is passed over.
    fn read_resources(&mut self, line: usize, list: &str) {
        let mut rest = list;
        let mut each = [None; 3];
        while let Some(next) = rest.chars().next() {
            let known = RESOURCES.iter().find(|known| rest.starts_with(known.0));
            let Some((name, end, option)) = known else {
                rest = &rest[next.len_utf8()..];
                continue;
            };
            let (value, behind) = rest[name.len()..]
                .split_once(*end)
                .unwrap_or((&rest[name.len()..], ""));
            match *name {
                "nodes=" => self.read_nodes(line, value),
                "accelerator=" if value.starts_with("true") => self.give(line, option, "gpu:1"),
                "naccelerators=" => self.give(line, option, &format!("gpu:{value}")),
                _ if !option.is_empty() => self.give(line, option, value),
                _ => {}
            }
            for (index, part) in ["select=", "ncpus=", "mpiprocs="].iter().enumerate() {
                if name == part {
                    each[index] = value.parse::<u32>().ok();
                }
            }
            rest = behind;
        }
        if let [Some(_), Some(processors), Some(tasks)] = each
            && tasks > 0
            && processors > tasks
        {
            self.give(line, "cpus-per-task", &(processors / tasks).to_string());
        }
    }

    /// Reads `2:ppn=4+1:ppn=2` or `n1+n2:ppn=4`: nodes are added up, and so are processors of each.
    fn read_nodes(&mut self, line: usize, value: &str) {
        let mut nodes = 0_u64;
        let mut tasks = 0_u64;
        let mut names = Vec::new();
        for part in value.split([':', '+']) {
            let number = |text: &str| {
                let end = text.find(|c: char| !c.is_ascii_digit());
                text[..end.unwrap_or(text.len())]
                    .parse::<u32>()
                    .unwrap_or(0)
            };
            match part.strip_prefix("ppn=") {
                Some(each) => tasks += u64::from(number(each)),
                None if part.starts_with(|c: char| c.is_ascii_digit()) => {
                    nodes += u64::from(number(part));
                }
                None if !part.is_empty() => names.push(part),
                None => {}
            }
        }
        if nodes > 0 {
            self.give(line, "nodes", &nodes.to_string());
        }
        if tasks > 0 {
            let tasks = tasks.saturating_mul(nodes.max(1));
            self.give(line, "ntasks", &tasks.to_string());
        }
        if !names.is_empty() {
            self.give(line, "nodelist", &names.join(","));
        }
    }
}

/// Names of `-l`, the end of their values, and what they are to `sbatch`; nothing, if empty.
const RESOURCES: [(&str, char, &str); 21] = [
    ("accelerator=", ',', "gres"),
    ("arch=", ',', ""),
    ("cput=", ',', "time"),
    ("file=", ',', "tmp"),
    ("host=", ',', ""),
    ("mem=", ',', "mem"),
    ("mpiprocs=", ':', "ntasks-per-node"),
    ("naccelerators=", ',', "gres"),
    ("ncpus=", ':', "mincpus"),
    ("nice=", ',', "nice"),
    ("nodes=", ',', ""),
    ("opsys=", ',', ""),
    ("other=", ',', ""),
    ("pcput=", ',', "time"),
    ("pmem=", ',', ""),
    ("proc=", ',', "constraint"),
    ("pvmem=", ',', ""),
    ("select=", ':', "nodes"),
    ("software=", ',', ""),
    ("vmem=", ',', ""),
    ("walltime=", ',', "time"),
];

fn mail_types(letters: &str) -> String {
    let known = [('b', "BEGIN"), ('e', "END"), ('a', "FAIL")];
    let letters = letters.to_ascii_lowercase();
    let types: Vec<&str> = known
        .iter()
        .filter(|(letter, _)| letters.contains(*letter))
        .map(|(_, name)| *name)
        .collect();
    if types.is_empty() || letters.contains('n') {
        "NONE".to_owned()
    } else {
        types.join(",")
    }
}
