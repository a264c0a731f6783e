//! Programs as specifications keep them. Their words would make up most of the memory that waiting
//! jobs take, so runs of one sweep share what they have in common.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use super::spec::{ComponentSpec, ExecutableSource, JobSpec, Program};
use crate::ids::RelPath;

/// Bytes from which on a word is a piece of its own.
const LONG: usize = 1_024;
/// Bytes at which a piece of shorter words is closed.
const PIECE: usize = 2_048;

/// A [`Program`] with its words in a few pieces, which other programs can share. It is unpacked
/// to use the words one by one.
#[derive(Clone)]
pub struct PackedProgram {
    /// The executable.
    pub executable: ExecutableSource,
    counts: ProgramWordCounts,
    /// The words in order: arguments, lines of setup, the directory if there is one, then name and
    /// value of each variable.
    pieces: Arc<[ProgramPiece]>,
}

/// Counts of a program's words by kind; all others are names and values of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramWordCounts {
    /// Arguments.
    pub arguments: u32,
    /// Lines of setup.
    pub setup: u32,
    /// True if it names a directory.
    pub has_directory: bool,
}

impl ProgramWordCounts {
    fn count_before_variables(self) -> usize {
        self.arguments as usize + self.setup as usize + usize::from(self.has_directory)
    }

    /// Returns the kind of the word with this number; `name` is the word before it.
    fn word_kind(self, number: usize, name: &str) -> ProgramWordKind<'_> {
        let arguments = self.arguments as usize;
        let setup = self.setup as usize;
        let variables = self.count_before_variables();
        match number {
            _ if number < arguments => ProgramWordKind::Argument(number),
            _ if number < arguments + setup => ProgramWordKind::Fixed,
            _ if number < variables => ProgramWordKind::Directory,
            _ if (number - variables).is_multiple_of(2) => ProgramWordKind::Fixed,
            _ => ProgramWordKind::Value(name),
        }
    }
}

/// Consecutive words of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramPiece {
    /// Short words, each behind its length in bytes and a colon.
    Short(Arc<str>),
    /// A single long word.
    Long(Arc<str>),
}

impl ProgramPiece {
    /// Returns the text, which copies of the piece share.
    pub fn text(&self) -> &Arc<str> {
        let (ProgramPiece::Short(text) | ProgramPiece::Long(text)) = self;
        text
    }

    fn words(&self) -> PackedWords<'_> {
        PackedWords {
            pieces: std::slice::from_ref(self).iter(),
            rest: "",
        }
    }
}

/// The kind of a word, for replacing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramWordKind<'a> {
    /// The argument with this number.
    Argument(usize),
    /// The directory.
    Directory,
    /// The value of the variable of this name.
    Value(&'a str),
    /// A word that is never replaced.
    Fixed,
}

impl PackedProgram {
    /// Builds a program from pieces as they were stored.
    ///
    /// # Errors
    /// They do not have the words that they should have.
    pub fn from_pieces(
        executable: ExecutableSource,
        counts: ProgramWordCounts,
        pieces: Vec<ProgramPiece>,
    ) -> Result<Self, &'static str> {
        let program = Self {
            executable,
            counts,
            pieces: pieces.into(),
        };
        let is_whole = program.pieces.iter().all(|piece| match piece {
            ProgramPiece::Long(_) => true,
            ProgramPiece::Short(text) => written_length(piece.words()) == text.len(),
        });
        let count = program.words().count();
        let before = counts.count_before_variables();
        if !is_whole || count < before || !(count - before).is_multiple_of(2) {
            return Err("its program does not have the words that it says");
        }
        Ok(program)
    }

    /// Counts of its words by kind.
    pub fn word_counts(&self) -> ProgramWordCounts {
        self.counts
    }

    /// The pieces that hold its words.
    pub fn pieces(&self) -> &[ProgramPiece] {
        &self.pieces
    }

    /// Unpacks the program.
    pub fn unpack(&self) -> Program {
        let mut words = self.words().map(PackedWord::to_shared);
        let arguments = words
            .by_ref()
            .take(self.counts.arguments as usize)
            .collect();
        let setup = words.by_ref().take(self.counts.setup as usize).collect();
        let directory = self.counts.has_directory.then(|| words.next()).flatten();
        let directory = directory.and_then(|text| RelPath::new(&text).ok());
        let mut environment = BTreeMap::new();
        while let (Some(name), Some(value)) = (words.next(), words.next()) {
            environment.insert(name, value);
        }
        let executable = self.executable.clone();
        Program {
            executable,
            arguments,
            environment,
            directory,
            setup,
        }
    }

    /// Unpacks the program, changes it and packs it again.
    pub fn change_program(&mut self, by: impl FnOnce(&mut Program)) {
        let mut program = self.unpack();
        by(&mut program);
        *self = program.into();
    }

    /// Replaces words that contain the text `with`. Pieces without such words stay shared.
    ///
    /// # Errors
    /// The first of `by`, which gives `None` for a word that stays.
    pub(crate) fn replace_words<E>(
        &mut self,
        with: &str,
        mut by: impl FnMut(ProgramWordKind<'_>, &str) -> Result<Option<Arc<str>>, E>,
    ) -> Result<(), E> {
        if !self.pieces.iter().any(|piece| piece.text().contains(with)) {
            return Ok(());
        }
        let mut pieces = Vec::with_capacity(self.pieces.len());
        let mut number = 0;
        let mut before = Arc::<str>::default();
        for piece in &*self.pieces {
            if !piece.text().contains(with) {
                pieces.push(piece.clone());
                number += piece.words().count();
                before = piece
                    .words()
                    .last()
                    .map(PackedWord::to_shared)
                    .unwrap_or_default();
                continue;
            }
            let mut packer = WordPacker::default();
            let mut is_other = false;
            for word in piece.words() {
                let place = self.counts.word_kind(number, &before);
                let other = if word.as_str().contains(with) {
                    by(place, word.as_str())?
                } else {
                    None
                };
                is_other |= other.is_some();
                let word = other.unwrap_or_else(|| word.to_shared());
                packer.push_word(&word);
                number += 1;
                before = word;
            }
            if is_other {
                pieces.extend(packer.into_pieces())
            } else {
                pieces.push(piece.clone())
            }
        }
        self.pieces = pieces.into();
        Ok(())
    }

    /// Iterates over its arguments without unpacking it.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.words()
            .take(self.counts.arguments as usize)
            .map(PackedWord::as_str)
    }

    /// Iterates over names and values of its variables without unpacking it.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut words = self
            .words()
            .skip(self.counts.count_before_variables())
            .map(PackedWord::as_str);
        std::iter::from_fn(move || Some((words.next()?, words.next()?)))
    }

    /// Bytes of memory that its words take.
    pub(super) fn byte_count(&self) -> usize {
        self.pieces.iter().map(|piece| piece.text().len()).sum()
    }

    fn words(&self) -> PackedWords<'_> {
        PackedWords {
            pieces: self.pieces.iter(),
            rest: "",
        }
    }
}

impl JobSpec {
    /// Iterates over the texts that are long enough to be worth sharing, each as often as it
    /// occurs.
    pub fn long_texts(&self) -> impl Iterator<Item = &Arc<str>> {
        let values = self.run.task.iter().flat_map(|task| task.values.values());
        self.components
            .iter()
            .flat_map(long_texts)
            .chain(values)
            .filter(|text| text.len() >= LONG)
    }
}

fn long_texts(component: &ComponentSpec) -> impl Iterator<Item = &Arc<str>> {
    let words = component.overrides().flat_map(|change| {
        let lists = change.arguments.iter().flatten().chain(&change.setup);
        lists
            .chain(&change.lrm_options)
            .chain(change.environment.values())
    });
    component
        .program
        .pieces()
        .iter()
        .map(ProgramPiece::text)
        .chain(words)
}

/// Two programs are equal if their words are, however they are cut into pieces.
impl PartialEq for PackedProgram {
    fn eq(&self, other: &Self) -> bool {
        self.executable == other.executable
            && self.counts == other.counts
            && (Arc::ptr_eq(&self.pieces, &other.pieces)
                || have_same_words(self.words(), other.words()))
    }
}

fn have_same_words(mut one: PackedWords<'_>, mut other: PackedWords<'_>) -> bool {
    loop {
        let next = (one.next_piece(), other.next_piece());
        if let (Some(piece), Some(same)) = next
            && Arc::ptr_eq(piece.text(), same.text())
        {
            // The same piece has the same words, so both sides skip it.
            one.pieces.next();
            other.pieces.next();
            continue;
        }
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some(word), Some(same)) if word.as_str() == same.as_str() => {}
            _ => return false,
        }
    }
}

impl Eq for PackedProgram {}

impl From<Program> for PackedProgram {
    fn from(program: Program) -> Self {
        let Program {
            executable,
            arguments,
            environment,
            directory,
            setup,
        } = program;
        let counts = ProgramWordCounts {
            arguments: arguments.len() as u32,
            setup: setup.len() as u32,
            has_directory: directory.is_some(),
        };
        let mut packer = WordPacker::default();
        arguments
            .iter()
            .chain(&setup)
            .for_each(|word| packer.push_word(word));
        if let Some(directory) = &directory {
            packer.push_word(&directory.as_str().into());
        }
        for (name, value) in &environment {
            packer.push_word(name);
            packer.push_word(value);
        }
        Self {
            executable,
            counts,
            pieces: packer.into_pieces().into(),
        }
    }
}

impl fmt::Debug for PackedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(f)
    }
}

/// Cuts words into pieces.
#[derive(Default)]
struct WordPacker {
    pieces: Vec<ProgramPiece>,
    short: String,
}

impl WordPacker {
    fn push_word(&mut self, word: &Arc<str>) {
        if word.len() >= LONG {
            self.close_piece();
            self.pieces.push(ProgramPiece::Long(word.clone()));
            return;
        }
        // Writing into a text cannot fail.
        let _ = write!(self.short, "{}:{word}", word.len());
        if self.short.len() >= PIECE {
            self.close_piece();
        }
    }

    fn close_piece(&mut self) {
        if !self.short.is_empty() {
            self.pieces
                .push(ProgramPiece::Short(std::mem::take(&mut self.short).into()));
        }
    }

    fn into_pieces(mut self) -> Vec<ProgramPiece> {
        self.close_piece();
        self.pieces
    }
}

#[derive(Clone, Copy)]
enum PackedWord<'a> {
    Short(&'a str),
    Long(&'a Arc<str>),
}

impl<'a> PackedWord<'a> {
    fn as_str(self) -> &'a str {
        match self {
            PackedWord::Short(text) => text,
            PackedWord::Long(text) => text,
        }
    }

    fn to_shared(self) -> Arc<str> {
        match self {
            PackedWord::Short(text) => text.into(),
            PackedWord::Long(text) => text.clone(),
        }
    }
}

/// Iterates over the words of pieces. Text that is no word ends its piece.
struct PackedWords<'a> {
    pieces: std::slice::Iter<'a, ProgramPiece>,
    rest: &'a str,
}

impl<'a> PackedWords<'a> {
    /// The piece that begins at this position, if one does.
    fn next_piece(&self) -> Option<&'a ProgramPiece> {
        self.pieces
            .as_slice()
            .first()
            .filter(|_| self.rest.is_empty())
    }
}

impl<'a> Iterator for PackedWords<'a> {
    type Item = PackedWord<'a>;

    fn next(&mut self) -> Option<PackedWord<'a>> {
        loop {
            if let Some((word, rest)) = first_word(self.rest) {
                self.rest = rest;
                return Some(PackedWord::Short(word));
            }
            match self.pieces.next()? {
                ProgramPiece::Long(word) => {
                    self.rest = "";
                    return Some(PackedWord::Long(word));
                }
                ProgramPiece::Short(text) => self.rest = text,
            }
        }
    }
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let (length, rest) = text.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// Bytes of short words as they are written in a piece.
fn written_length(words: PackedWords<'_>) -> usize {
    words
        .map(|word| word.as_str().len())
        .map(|length| length.to_string().len() + 1 + length)
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_texts() -> impl Strategy<Value = Vec<Arc<str>>> {
        let text = prop_oneof![9 => ".{0,40}", 1 => "[a-z]{100,20000}", 1 => Just(String::new())];
        prop::collection::vec(text.prop_map(Arc::from), 0..6)
    }

    proptest! {
        #[test]
        fn a_packed_program_opens_to_what_it_was(
            arguments in any_texts(),
            setup in any_texts(),
            names in any_texts(),
            values in any_texts(),
            directory in prop::option::of("[a-z]{1,9}(/[a-z]{1,200}){0,2}"),
        ) {
            let directory = directory.map(|text| RelPath::new(&text).unwrap());
            let environment = names.into_iter().zip(values).collect();
            let executable = ExecutableSource::AtSite("/bin/true".into());
            let program = Program { executable, arguments, environment, directory, setup };
            let packed = PackedProgram::from(program.clone());
            prop_assert_eq!(&packed.unpack(), &program);
            prop_assert_eq!(&PackedProgram::from(packed.unpack()), &packed);
            let pieces = packed.pieces().to_vec();
            let read = PackedProgram::from_pieces(packed.executable.clone(), packed.word_counts(), pieces);
            prop_assert_eq!(read.unwrap(), packed);
        }
    }

    fn packed_program(arguments: Vec<Arc<str>>, values: &[(&str, String)]) -> PackedProgram {
        let environment = values
            .iter()
            .map(|(name, value)| ((*name).into(), (**value).into()));
        let executable = ExecutableSource::AtSite("/bin/true".into());
        let environment = environment.collect();
        Program {
            executable,
            arguments,
            environment,
            directory: None,
            setup: Vec::new(),
        }
        .into()
    }

    #[test]
    fn pieces_without_a_replaced_word_stay_shared() {
        let many: Vec<Arc<str>> = (0..500)
            .map(|number| format!("word {number}").into())
            .collect();
        let with = [many.clone(), vec!["<1>".into()], many].concat();
        let packed = packed_program(
            with,
            &[("LONG", "x".repeat(300_000)), ("SHORT", "<2>".into())],
        );
        let mut filled = packed.clone();
        let mut seen = Vec::new();
        filled
            .replace_words("<", |place: ProgramWordKind<'_>, word: &str| {
                seen.push((format!("{place:?}"), word.to_owned()));
                Ok::<_, ()>(Some("y".repeat(5_000).into()))
            })
            .unwrap();
        let place =
            |place: ProgramWordKind<'_>, word: &str| (format!("{place:?}"), word.to_owned());
        let expected = [
            place(ProgramWordKind::Argument(500), "<1>"),
            place(ProgramWordKind::Value("SHORT"), "<2>"),
        ];
        assert_eq!(seen, expected);
        let mut expected = packed.unpack();
        expected.arguments[500] = "y".repeat(5_000).into();
        expected
            .environment
            .insert("SHORT".into(), "y".repeat(5_000).into());
        assert_eq!(filled.unpack(), expected);
        assert_eq!(filled, PackedProgram::from(expected), "however it is cut");
        let own: usize = filled
            .pieces()
            .iter()
            .filter(|piece: &&ProgramPiece| {
                !packed
                    .pieces()
                    .iter()
                    .any(|other| Arc::ptr_eq(other.text(), piece.text()))
            })
            .map(|it| it.text().len())
            .sum();
        assert!(own < 2 * (5_000 + 2 * PIECE), "{own}");
    }

    #[test]
    fn pieces_that_are_not_what_they_say_are_refused() {
        let of = |arguments: u32, text: &str| {
            let counts = ProgramWordCounts {
                arguments,
                ..ProgramWordCounts::default()
            };
            let executable = ExecutableSource::AtSite("/bin/true".into());
            PackedProgram::from_pieces(executable, counts, vec![ProgramPiece::Short(text.into())])
        };
        assert!(of(2, "1:a3:b:c").is_ok() && of(0, "1:a3:b:c").is_ok());
        for (arguments, text) in [
            (3, "1:a1:b"),
            (1, "1:a1:b"),
            (2, "1:a9:b"),
            (1, "1:a:"),
            (0, "x"),
        ] {
            assert!(of(arguments, text).is_err(), "{arguments} {text}");
        }
    }

    #[test]
    fn a_changed_program_is_another_and_its_copies_stay() {
        let executable = ExecutableSource::AtSite("/bin/true".into());
        let program = Program {
            executable,
            arguments: vec!["a".into()],
            environment: BTreeMap::new(),
            directory: None,
            setup: Vec::new(),
        };
        let packed = PackedProgram::from(program.clone());
        let mut other = packed.clone();
        other.change_program(|program| program.arguments.push("b".into()));
        assert_eq!(other.unpack().arguments, ["a".into(), "b".into()]);
        assert_eq!(packed.unpack(), program);
    }
}
