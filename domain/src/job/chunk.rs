//! The two ways to feed components: each reads a whole file, or its own chunk of it
//! (KOALA, model; a chunk is proportional to the component's processors).

use crate::ids::{ComponentIndex, Digest};
use crate::job::spec::{Content, Input, JobSpec, Request};
use crate::job::state::{Job, Placement};
use crate::units::Bytes;

/// How much of a file a component reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Feed {
    /// All of it.
    #[default]
    Whole,
    /// Its own chunk: all components that read the file in chunks have the whole of it together.
    Chunk,
}

impl Feed {
    /// Its name in job files.
    pub fn as_str(self) -> &'static str {
        match self {
            Feed::Whole => "whole",
            Feed::Chunk => "chunk",
        }
    }
}

/// A run of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk {
    /// The file.
    pub of: Content,
    /// Where in it the chunk begins.
    pub offset: Bytes,
    /// How long it is; it may be empty.
    pub length: Bytes,
}

/// The parts of a file that go to one of several, by number of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Those of the components before this one.
    pub before: u64,
    /// Its own.
    pub own: u64,
    /// Those of all together.
    pub total: u64,
}

impl Chunk {
    /// The chunk of a part. Chunks of all parts follow each other without gap or overlap.
    pub fn of_part(of: Content, part: Part) -> Self {
        let cut = |processors: u64| {
            let exact = u128::from(of.size.0) * u128::from(processors.min(part.total));
            let at = exact.checked_div(u128::from(part.total)).unwrap_or(0);
            u64::try_from(at).unwrap_or(of.size.0)
        };
        let (begin, end) = (cut(part.before), cut(part.before.saturating_add(part.own)));
        Self { of, offset: Bytes(begin), length: Bytes(end - begin) }
    }

    /// Whether it is all of its file, and so no chunk that is copied by itself.
    pub fn is_whole(&self) -> bool {
        self.length == self.of.size
    }

    /// What it is called where it is copied to and kept. The name says which bytes of which
    /// content it is: equal chunks are copied once, and unequal ones never taken for each other.
    pub fn content(&self) -> Content {
        if self.is_whole() {
            return self.of;
        }
        let mut name = blake3::Hasher::new_derive_key("cospan 2026 a chunk of a file");
        name.update(&self.of.digest.0);
        name.update(&self.offset.0.to_le_bytes());
        name.update(&self.length.0.to_le_bytes());
        Content { digest: Digest(*name.finalize().as_bytes()), size: self.length }
    }
}

impl JobSpec {
    /// The chunk that a component reads of an input: `None` if it reads all of it, or is not
    /// bound yet. `placements` are those of all components: of a flexible request the shares
    /// count, of others what each component asks for.
    pub fn chunk(&self, index: usize, input: &Input, placements: &[Placement]) -> Option<Chunk> {
        let of = input.file.bound.filter(|_| input.feed == Feed::Chunk)?;
        let part = match self.request {
            Request::Flexible(_) => {
                let share = |placement: &Placement| u64::from(placement.share.unwrap_or(0));
                let shares: Vec<u64> = placements.iter().map(share).collect();
                part(index, &shares)
            }
            Request::Fixed | Request::NonFixed => self.part_of(index, of),
        };
        Some(Chunk::of_part(of, part))
    }

    /// A component's part of a file among all that read it in chunks.
    pub fn part_of(&self, index: usize, of: Content) -> Part {
        let reads = |input: &Input| input.feed == Feed::Chunk && input.file.bound == Some(of);
        let processors = self.components.iter().map(|component| {
            let takes_part = component.inputs.iter().any(reads);
            if takes_part { u64::from(component.resources.processors) } else { 0 }
        });
        part(index, &processors.collect::<Vec<_>>())
    }
}

impl Job {
    /// A placed component's part of a file among all that read it in chunks.
    pub fn part_of(&self, index: ComponentIndex, of: Content) -> Part {
        match self.spec.request {
            Request::Flexible(_) => {
                let shares: Vec<u64> =
                    self.indexed().map(|(at, _)| self.processors_of(at).into()).collect();
                part(index.0 as usize, &shares)
            }
            Request::Fixed | Request::NonFixed => self.spec.part_of(index.0 as usize, of),
        }
    }
}

fn part(index: usize, processors: &[u64]) -> Part {
    let before = processors.iter().take(index).sum();
    let own = processors.get(index).copied().unwrap_or(0);
    Part { before, own, total: processors.iter().sum() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(size: u64) -> Content {
        Content { digest: Digest([7; 32]), size: Bytes(size) }
    }

    #[test]
    fn a_chunk_is_proportional_to_its_processors() {
        let chunk = |before, own| Chunk::of_part(file(100), Part { before, own, total: 16 });
        assert_eq!((chunk(0, 4).offset, chunk(0, 4).length), (Bytes(0), Bytes(25)));
        assert_eq!((chunk(4, 12).offset, chunk(4, 12).length), (Bytes(25), Bytes(75)));
        assert_eq!(chunk(0, 16).content(), file(100), "all of a file is the file");
        assert_ne!(chunk(0, 4).content().digest, chunk(4, 4).content().digest);
        assert_eq!(chunk(4, 12).content().size, Bytes(75));
    }

    proptest! {
        #[test]
        fn chunks_are_the_whole_file_together_and_none_is_too_large(
            size in prop_oneof![0..1_000u64, any::<u64>()],
            processors in prop::collection::vec(1..5_000u64, 1..9),
        ) {
            let mut end = 0;
            let total: u64 = processors.iter().sum();
            for index in 0..processors.len() {
                let chunk = Chunk::of_part(file(size), part(index, &processors));
                prop_assert_eq!(chunk.offset.0, end, "no gap, no overlap");
                end += chunk.length.0;
                let exact = u128::from(size) * u128::from(processors[index]) / u128::from(total);
                prop_assert!(u128::from(chunk.length.0).abs_diff(exact) <= 1);
            }
            prop_assert_eq!(end, size);
        }

        #[test]
        fn different_chunks_have_different_names(
            one in (0..99u64, 0..99u64), other in (0..99u64, 0..99u64),
        ) {
            let chunk = |(offset, length)| Chunk {
                of: file(1_000), offset: Bytes(offset), length: Bytes(length),
            };
            let same_name = chunk(one).content().digest == chunk(other).content().digest;
            prop_assert_eq!(same_name, one == other);
        }
    }
}
