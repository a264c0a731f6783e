//! Words of a specification: long ones that jobs share are stored in records of their own.

use std::fmt;
use std::sync::Arc;

use cospan_domain::job::spec::{self, ExecutableSource, ProgramPiece};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::convert::{RecordProblem, WireConversion};
use super::spec::{ComponentSpec, Executable, JobSpec, Override, StoredProgram};

/// The only field of a word that is stored elsewhere.
const COMMON: &str = "common";

/// A word, or the number of the text that it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StoredWord {
    /// The text itself.
    Text(Arc<str>),
    /// The number of a text that the jobs of a request share.
    Common(u32),
}

impl WireConversion<StoredWord> for Arc<str> {
    fn to_wire(&self) -> StoredWord {
        StoredWord::Text(self.clone())
    }

    fn from_wire(wire: StoredWord) -> Result<Self, RecordProblem> {
        match wire {
            StoredWord::Text(text) => Ok(text),
            StoredWord::Common(number) => Err(format!("its text {number} is missing")),
        }
    }
}

impl Serialize for StoredWord {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            StoredWord::Text(text) => to.serialize_str(text),
            StoredWord::Common(number) => {
                let mut word = to.serialize_struct("Word", 1)?;
                word.serialize_field(COMMON, number)?;
                word.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for StoredWord {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct WordVisitor;

        impl<'de> Visitor<'de> for WordVisitor {
            type Value = StoredWord;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or the number of one")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StoredWord, E> {
                Ok(StoredWord::Text(text.into()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StoredWord, A::Error> {
                match map.next_entry::<String, u32>()? {
                    Some((field, number)) if field == COMMON => Ok(StoredWord::Common(number)),
                    _ => Err(de::Error::missing_field(COMMON)),
                }
            }
        }

        from.deserialize_any(WordVisitor)
    }
}

/// The words of a program in the pieces in which they are shared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredProgramWords {
    arguments: u32,
    setup: u32,
    directory: bool,
    pieces: Vec<StoredPiece>,
}

/// Short words one after the other, or a long one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum StoredPiece {
    Short(StoredWord),
    Long(StoredWord),
}

/// Several pieces stay separate, so that shared pieces of jobs can be recognised.
impl WireConversion<StoredProgram> for spec::PackedProgram {
    fn to_wire(&self) -> StoredProgram {
        if self.pieces().len() <= 1 {
            return self.unpack().to_wire();
        }
        let counts = self.word_counts();
        let packed = StoredProgramWords {
            arguments: counts.arguments,
            setup: counts.setup,
            directory: counts.has_directory,
            pieces: self
                .pieces()
                .iter()
                .map(|piece: &ProgramPiece| match piece {
                    ProgramPiece::Short(text) => StoredPiece::Short(text.to_wire()),
                    ProgramPiece::Long(text) => StoredPiece::Long(text.to_wire()),
                })
                .collect(),
        };
        StoredProgram::from_pieces(self.executable.to_wire(), packed)
    }

    fn from_wire(mut wire: StoredProgram) -> Result<Self, RecordProblem> {
        let Some(packed) = wire.packed.take() else {
            return Ok(spec::Program::from_wire(wire)?.into());
        };
        let counts = spec::ProgramWordCounts {
            arguments: packed.arguments,
            setup: packed.setup,
            has_directory: packed.directory,
        };
        let pieces = packed
            .pieces
            .into_iter()
            .map(piece_from_wire)
            .collect::<Result<_, _>>()?;
        let executable =
            <ExecutableSource as WireConversion<Executable>>::from_wire(wire.executable)?;
        spec::PackedProgram::from_pieces(executable, counts, pieces).map_err(str::to_owned)
    }
}

fn piece_from_wire(wire: StoredPiece) -> Result<ProgramPiece, RecordProblem> {
    Ok(match wire {
        StoredPiece::Short(word) => ProgramPiece::Short(WireConversion::from_wire(word)?),
        StoredPiece::Long(word) => ProgramPiece::Long(WireConversion::from_wire(word)?),
    })
}

impl JobSpec {
    /// Visits every word that jobs may share.
    pub(crate) fn visit_words(&mut self, visit: &mut dyn FnMut(&mut StoredWord)) {
        self.components
            .iter_mut()
            .for_each(|component| component.visit_words(visit));
        let values = self.run.task.iter_mut().flat_map(|task| &mut task.values);
        values.for_each(|(_, value)| visit(value));
    }
}

impl ComponentSpec {
    fn visit_words(&mut self, visit: &mut dyn FnMut(&mut StoredWord)) {
        let StoredProgram {
            arguments,
            environment,
            setup,
            packed,
            ..
        } = &mut self.program;
        arguments.iter_mut().chain(setup).for_each(&mut *visit);
        environment.iter_mut().for_each(|(_, value)| visit(value));
        for piece in packed.iter_mut().flat_map(|packed| &mut packed.pieces) {
            let (StoredPiece::Short(word) | StoredPiece::Long(word)) = piece;
            visit(word);
        }
        let overrides = self
            .at
            .iter_mut()
            .map(|(_, change)| change)
            .chain(&mut self.restart);
        for Override {
            arguments,
            environment,
            setup,
            lrm_options,
            ..
        } in overrides
        {
            let words = arguments
                .iter_mut()
                .flatten()
                .chain(setup)
                .chain(lrm_options);
            words.for_each(&mut *visit);
            environment.iter_mut().for_each(|(_, value)| visit(value));
        }
    }
}
