//! The two ways to feed components: each reads a whole file, or its own chunk of it
//! (KOALA, model; a chunk is proportional to the component's processors).

use crate::content::{ComponentFilePart, Content, FileChunk};
use crate::ids::ComponentIndex;
use crate::job::job_state::Job;
use crate::job::spec::{InputSpec, JobSpec, RequestType};
use crate::placed::Placement;

/// The portion of a file that a component reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum InputPortion {
    /// All of it.
    #[default]
    Whole,
    /// A chunk of its own: the components that read the file in chunks have the whole of it
    /// together.
    Chunk,
}

impl InputPortion {
    /// Returns its name in job files.
    pub fn as_str(self) -> &'static str {
        match self {
            InputPortion::Whole => "whole",
            InputPortion::Chunk => "chunk",
        }
    }
}

impl JobSpec {
    /// Returns the chunk that a component reads of an input: `None` if it reads all of it, or is
    /// not bound yet. `placements` are those of all components: for a flexible request the shares
    /// count, for others the processors that each component asks for.
    pub fn chunk_of(
        &self,
        index: usize,
        input: &InputSpec,
        placements: &[Placement],
    ) -> Option<FileChunk> {
        let of = input
            .file
            .bound
            .filter(|_| input.feed == InputPortion::Chunk)?;
        let part = match self.request {
            RequestType::Flexible(_) => {
                let shares: Vec<u64> = placements
                    .iter()
                    .map(|placement: &Placement| u64::from(placement.share.unwrap_or(0)))
                    .collect();
                component_part(index, &shares)
            }
            RequestType::Fixed | RequestType::NonFixed => self.file_part_of(index, of),
        };
        Some(FileChunk::for_part(of, part))
    }

    /// Returns a component's part of a file among all that read it in chunks.
    pub fn file_part_of(&self, index: usize, of: Content) -> ComponentFilePart {
        let processors = self.components.iter().map(|component| {
            let takes_part = component.inputs.iter().any(|input: &InputSpec| {
                input.feed == InputPortion::Chunk && input.file.bound == Some(of)
            });
            if takes_part {
                u64::from(component.resources.processors)
            } else {
                0
            }
        });
        component_part(index, &processors.collect::<Vec<_>>())
    }
}

impl Job {
    /// Returns a placed component's part of a file among all that read it in chunks.
    pub fn file_part_of(&self, index: ComponentIndex, of: Content) -> ComponentFilePart {
        match self.spec.request {
            RequestType::Flexible(_) => {
                let shares: Vec<u64> = self
                    .indexed_components()
                    .map(|(at, _)| self.processors_of(at).into())
                    .collect();
                component_part(index.0 as usize, &shares)
            }
            RequestType::Fixed | RequestType::NonFixed => {
                self.spec.file_part_of(index.0 as usize, of)
            }
        }
    }
}

fn component_part(index: usize, processors: &[u64]) -> ComponentFilePart {
    let before = processors.iter().take(index).sum();
    let own = processors.get(index).copied().unwrap_or(0);
    ComponentFilePart {
        before,
        own,
        total: processors.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Digest;
    use crate::units::Bytes;

    fn content_of_size(size: u64) -> Content {
        Content {
            digest: Digest([7; 32]),
            size: Bytes(size),
        }
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
                let chunk = FileChunk::for_part(content_of_size(size), component_part(index, &processors));
                prop_assert_eq!(chunk.offset.0, end, "no gap, no overlap");
                end += chunk.length.0;
                let exact = u128::from(size) * u128::from(processors[index]) / u128::from(total);
                prop_assert!(u128::from(chunk.length.0).abs_diff(exact) <= 1);
            }
            prop_assert_eq!(end, size);
        }

    }
}
