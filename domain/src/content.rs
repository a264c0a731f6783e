//! Content of files, which is copied, compared and kept, and chunks of it.

use crate::ids::Digest;
use crate::units::Bytes;

/// Content of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content {
    /// Digest of the file, or of the directory's manifest.
    pub digest: Digest,
    /// Bytes to move.
    pub size: Bytes,
}

/// A chunk: consecutive bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileChunk {
    /// The file.
    pub of: Content,
    /// The offset of the chunk in the file.
    pub offset: Bytes,
    /// The length; it may be zero.
    pub length: Bytes,
}

/// A component's part of a file that several components share, in numbers of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentFilePart {
    /// Processors of the components before this one.
    pub before: u64,
    /// Processors of the component itself.
    pub own: u64,
    /// Processors of all components together.
    pub total: u64,
}

impl FileChunk {
    /// Returns the chunk of a part. Chunks of all parts follow each other without gap or overlap.
    pub fn for_part(of: Content, part: ComponentFilePart) -> Self {
        let begin = part_boundary(of.size, part.before, part.total);
        let end = part_boundary(of.size, part.before.saturating_add(part.own), part.total);
        Self {
            of,
            offset: Bytes(begin),
            length: Bytes(end - begin),
        }
    }

    /// Returns the greatest length of the chunk of `own` of `total` processors, wherever in the
    /// file it begins.
    pub fn max_chunk_length(of: Content, own: u64, total: u64) -> Bytes {
        let exact = u128::from(of.size.0) * u128::from(own.min(total));
        let most = if total == 0 {
            0
        } else {
            exact.div_ceil(total.into())
        };
        Bytes(u64::try_from(most).unwrap_or(of.size.0))
    }

    /// Returns true if it is all of its file, so that it is not copied as a chunk.
    pub fn is_whole(&self) -> bool {
        self.length == self.of.size
    }

    /// Returns the content under which it is copied and kept. The digest says which bytes of which
    /// content it is: equal chunks are copied once, and different ones never taken for each other.
    pub fn as_content(&self) -> Content {
        if self.is_whole() {
            return self.of;
        }
        let mut name = blake3::Hasher::new_derive_key("cospan 2026 a chunk of a file");
        name.update(&self.of.digest.0);
        name.update(&self.offset.0.to_le_bytes());
        name.update(&self.length.0.to_le_bytes());
        Content {
            digest: Digest(*name.finalize().as_bytes()),
            size: self.length,
        }
    }
}

/// Where in a file of this size the parts of so many of `total` processors end.
fn part_boundary(size: Bytes, processors: u64, total: u64) -> u64 {
    let exact = u128::from(size.0) * u128::from(processors.min(total));
    let at = exact.checked_div(u128::from(total)).unwrap_or(0);
    u64::try_from(at).unwrap_or(size.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content_of_size(size: u64) -> Content {
        Content {
            digest: Digest([7; 32]),
            size: Bytes(size),
        }
    }

    #[test]
    fn a_chunk_is_proportional_to_its_processors() {
        let chunk = |before, own| {
            FileChunk::for_part(
                content_of_size(100),
                ComponentFilePart {
                    before,
                    own,
                    total: 16,
                },
            )
        };
        assert_eq!(
            (chunk(0, 4).offset, chunk(0, 4).length),
            (Bytes(0), Bytes(25))
        );
        assert_eq!(
            (chunk(4, 12).offset, chunk(4, 12).length),
            (Bytes(25), Bytes(75))
        );
        assert_eq!(
            chunk(0, 16).as_content(),
            content_of_size(100),
            "all of a file is the file"
        );
        assert_ne!(
            chunk(0, 4).as_content().digest,
            chunk(4, 4).as_content().digest
        );
        assert_eq!(chunk(4, 12).as_content().size, Bytes(75));
    }

    proptest! {
        #[test]
        fn no_chunk_is_longer_than_the_longest_of_as_many_processors(
            size in 0..1_000u64, before in 0..99u64, own in 0..99u64,
        ) {
            let length = FileChunk::for_part(content_of_size(size), ComponentFilePart { before, own, total: 99 }).length;
            let longest = FileChunk::max_chunk_length(content_of_size(size), own, 99);
            prop_assert!(length <= longest);
            prop_assert!(longest.0 <= (size * own).div_ceil(99));
        }

        #[test]
        fn different_chunks_have_different_names(
            one in (0..99u64, 0..99u64), other in (0..99u64, 0..99u64),
        ) {
            let chunk = |(offset, length)| FileChunk {
                of: content_of_size(1_000), offset: Bytes(offset), length: Bytes(length),
            };
            let same_name = chunk(one).as_content().digest == chunk(other).as_content().digest;
            prop_assert_eq!(same_name, one == other);
        }
    }
}
