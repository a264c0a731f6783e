//! Programs as specifications keep them: most of what jobs that wait take of memory would be
//! their words, each of them by itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::spec::{Executable, Program};
use crate::ids::RelPath;

/// A [`Program`] with all its words in one piece, which equal ones can share. Who needs them has
/// it opened.
#[derive(Clone, PartialEq, Eq)]
pub struct PackedProgram {
    /// The executable.
    pub executable: Executable,
    /// Arguments and lines of setup, each behind their number; whether there is a directory, and
    /// it; names and values of variables up to the end. Each text is behind its length.
    words: Arc<[u8]>,
}

impl PackedProgram {
    /// The program with its words apart.
    pub fn open(&self) -> Program {
        let mut words = Words(&self.words);
        let arguments = words.list();
        let setup = words.list();
        let directory = (words.number() > 0).then(|| RelPath::new(words.text()).ok()).flatten();
        let mut environment = BTreeMap::new();
        while !words.0.is_empty() {
            environment.insert(words.text().into(), words.text().into());
        }
        let executable = self.executable.clone();
        Program { executable, arguments, environment, directory, setup }
    }

    /// Changes the program.
    pub fn change(&mut self, by: impl FnOnce(&mut Program)) {
        let mut program = self.open();
        by(&mut program);
        *self = program.into();
    }

    /// What its words take of memory.
    pub(super) fn bytes(&self) -> usize {
        self.words.len()
    }
}

impl From<Program> for PackedProgram {
    fn from(program: Program) -> Self {
        let Program { executable, arguments, environment, directory, setup } = program;
        let mut words = Vec::with_capacity(512);
        for list in [&arguments, &setup] {
            put_number(&mut words, list.len());
            list.iter().for_each(|word| put_text(&mut words, word));
        }
        put_number(&mut words, usize::from(directory.is_some()));
        if let Some(directory) = &directory {
            put_text(&mut words, directory.as_str());
        }
        for (name, value) in &environment {
            put_text(&mut words, name);
            put_text(&mut words, value);
        }
        Self { executable, words: words.into() }
    }
}

impl fmt::Debug for PackedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.open().fmt(f)
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    put_number(to, text.len());
    to.extend_from_slice(text.as_bytes());
}

/// Seven bits a byte, the lowest first; all bytes but the last have the eighth.
fn put_number(to: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// What is left to read.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let Some((&byte, rest)) = self.0.split_first() else { break };
            self.0 = rest;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn text(&mut self) -> &'a str {
        let length = self.number().min(self.0.len());
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        // Only texts are put in.
        std::str::from_utf8(text).unwrap_or_default()
    }

    fn list(&mut self) -> Vec<Arc<str>> {
        let count = self.number();
        (0..count).map(|_| self.text().into()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts() -> impl Strategy<Value = Vec<Arc<str>>> {
        let text = prop_oneof![9 => ".{0,40}", 1 => "[a-z]{100,20000}", 1 => Just(String::new())];
        prop::collection::vec(text.prop_map(Arc::from), 0..6)
    }

    proptest! {
        #[test]
        fn a_packed_program_opens_to_what_it_was(
            arguments in texts(),
            setup in texts(),
            names in texts(),
            values in texts(),
            directory in prop::option::of("[a-z]{1,9}(/[a-z]{1,200}){0,2}"),
        ) {
            let directory = directory.map(|text| RelPath::new(&text).unwrap());
            let environment = names.into_iter().zip(values).collect();
            let executable = Executable::AtSite("/bin/true".into());
            let program = Program { executable, arguments, environment, directory, setup };
            let packed = PackedProgram::from(program.clone());
            prop_assert_eq!(&packed.open(), &program);
            prop_assert_eq!(PackedProgram::from(packed.open()), packed);
        }
    }

    #[test]
    fn a_changed_program_is_another_and_its_copies_stay() {
        let executable = Executable::AtSite("/bin/true".into());
        let program = Program {
            executable,
            arguments: vec!["a".into()],
            environment: BTreeMap::new(),
            directory: None,
            setup: Vec::new(),
        };
        let packed = PackedProgram::from(program.clone());
        let mut other = packed.clone();
        other.change(|program| program.arguments.push("b".into()));
        assert_eq!(other.open().arguments, ["a".into(), "b".into()]);
        assert_eq!(packed.open(), program);
    }
}
