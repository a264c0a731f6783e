//! The manifest: the text whose digest is the digest of a directory.
//!
//! A manifest lists everything below a directory, each entry on a line of its
//! own, sorted by the bytes of its path:
//!
//! ```text
//! cospan manifest 1
//! d 3:bin
//! f 0555 1234 <64 hexadecimal digits of BLAKE3> 8:bin/tool
//! l 4:tool 7:bin/run
//! ```
//!
//! `d` is a directory, `f` a file with mode, size and digest, `l` a symbolic
//! link with its target. Texts carry their length in bytes in front, so that
//! no name can pass for something else. Modes are 0555 for a file that its
//! owner, group or anybody may execute, and 0444 otherwise: what is in the
//! store is for reading, so write permission and the special bits do not
//! belong to content. Times and owners do not either.
//!
//! The digest is BLAKE3 in its mode for deriving keys, with [`CONTEXT`]: the
//! digest of a directory is never that of a file, whatever the file contains.

use std::collections::{BTreeMap, VecDeque};

use cospan_domain::ids::Digest;
use thiserror::Error;

/// Sets digests of directories apart from digests of files.
pub const CONTEXT: &str = "cospan 2026 directory manifest 1";

/// The most links that the kernel follows on one path.
const MAX_LINKS: usize = 40;

/// The most names that are looked at for all links of a directory, long paths more than once: this
/// takes seconds. A million links of twenty names each need as many.
const STEPS_MAX: usize = 20_000_000;
/// The bytes of a path that are looked at in a step.
const STEP_BYTES: usize = 64;

/// A file, link or directory below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The path below the directory, without a slash in front.
    pub path: Vec<u8>,
    /// File, link or directory.
    pub kind: ManifestEntryKind,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestEntryKind {
    /// A directory; what is in it has entries of its own.
    Directory,
    /// A file.
    File {
        /// True if somebody may execute it.
        executable: bool,
        /// The size in bytes.
        size: u64,
        /// BLAKE3 of its bytes.
        digest: Digest,
    },
    /// A symbolic link.
    Link {
        /// The target, as it is written in the link.
        target: Vec<u8>,
    },
}

/// A link that cannot be part of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WrongLinkError {
    /// The link would lead out.
    #[error(
        "the link {link:?} points outside the directory (to {target:?}); \
         make it relative and keep it inside, or put the file there instead"
    )]
    Escapes {
        /// Path of the link.
        link: String,
        /// The target of the link.
        target: String,
    },
    /// Links lead to links so often that nobody can say where to.
    #[error(
        "too much is to be followed to know where the link {link:?} and others lead; \
         put files there instead of links to links"
    )]
    TooLong {
        /// Path of the link.
        link: String,
    },
}

impl ManifestEntry {
    /// Returns its path and its target, if it is a link.
    pub fn link_target(&self) -> Option<(&[u8], &[u8])> {
        match &self.kind {
            ManifestEntryKind::Link { target } => Some((&self.path, target)),
            ManifestEntryKind::Directory | ManifestEntryKind::File { .. } => None,
        }
    }
}

/// Computes the digest of a directory with these entries, in any order.
pub fn digest_entries(mut entries: Vec<ManifestEntry>) -> Digest {
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(b"cospan manifest 1\n");
    let mut line = Vec::new();
    for entry in &entries {
        line.clear();
        write_entry_line(&mut line, entry);
        hasher.update(&line);
    }
    Digest(*hasher.finalize().as_bytes())
}

fn write_entry_line(line: &mut Vec<u8>, entry: &ManifestEntry) {
    match &entry.kind {
        ManifestEntryKind::Directory => line.extend(b"d "),
        ManifestEntryKind::File {
            executable,
            size,
            digest,
        } => {
            let mode = if *executable { "0555" } else { "0444" };
            line.extend(format!("f {mode} {size} {digest} ").into_bytes());
        }
        ManifestEntryKind::Link { target } => {
            line.extend(b"l ");
            write_counted_text(line, target);
            line.push(b' ');
        }
    }
    write_counted_text(line, &entry.path);
    line.push(b'\n');
}

fn write_counted_text(line: &mut Vec<u8>, text: &[u8]) {
    line.extend(format!("{}:", text.len()).into_bytes());
    line.extend(text);
}

/// Checks that none of the links in a directory, each with its target, leads out of it,
/// also by way of other links.
///
/// # Errors
/// The first link that does, or that leads on for too long to be followed.
pub fn check_links<'a>(
    links: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), WrongLinkError> {
    let links: BTreeMap<&[u8], &[u8]> = links.into_iter().collect();
    let mut steps_left = STEPS_MAX;
    for (path, target) in &links {
        match stays_inside(path, &links, &mut steps_left) {
            Some(true) => {}
            Some(false) => {
                return Err(WrongLinkError::Escapes {
                    link: lossy_text(path),
                    target: lossy_text(target),
                });
            }
            None => {
                return Err(WrongLinkError::TooLong {
                    link: lossy_text(path),
                });
            }
        }
    }
    Ok(())
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Walks a path as the kernel would. A name that does not exist may come to exist, so it counts as
/// a directory. `None` if no steps are left.
fn stays_inside(
    path: &[u8],
    links: &BTreeMap<&[u8], &[u8]>,
    steps_left: &mut usize,
) -> Option<bool> {
    let mut ahead: VecDeque<&[u8]> = path.split(|byte| *byte == b'/').collect();
    // Each name counts when it is put ahead, whether or not the walk comes to it.
    *steps_left = steps_left.checked_sub(ahead.len())?;
    // The path so far, and its length before each of its names.
    let mut here = Vec::new();
    let mut ends = Vec::new();
    let mut followed = 0;
    while let Some(name) = ahead.pop_front() {
        *steps_left = steps_left.checked_sub(here.len() / STEP_BYTES)?;
        match name {
            b"" | b"." => {}
            b".." => match ends.pop() {
                None => return Some(false),
                Some(end) => here.truncate(end),
            },
            _ => {
                let end = here.len();
                if end > 0 {
                    here.push(b'/');
                }
                here.extend_from_slice(name);
                let Some(target) = links.get(&here[..]) else {
                    ends.push(end);
                    continue;
                };
                here.truncate(end);
                followed += 1;
                if followed > MAX_LINKS {
                    // Nobody who follows it gets anywhere.
                    return Some(true);
                }
                if target.first() == Some(&b'/') {
                    return Some(false);
                }
                let before = ahead.len();
                target
                    .rsplit(|byte| *byte == b'/')
                    .for_each(|name| ahead.push_front(name));
                *steps_left = steps_left.checked_sub(ahead.len() - before)?;
            }
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link_entry(path: &str, target: &str) -> ManifestEntry {
        ManifestEntry {
            path: path.into(),
            kind: ManifestEntryKind::Link {
                target: target.into(),
            },
        }
    }

    fn check_entry_links(entries: &[ManifestEntry]) -> Result<(), WrongLinkError> {
        check_links(entries.iter().filter_map(ManifestEntry::link_target))
    }

    fn file_entry(path: &str, executable: bool, size: u64) -> ManifestEntry {
        let kind = ManifestEntryKind::File {
            executable,
            size,
            digest: Digest([7; 32]),
        };
        ManifestEntry {
            path: path.into(),
            kind,
        }
    }

    #[test]
    fn links_that_stay_inside_are_fine_also_when_they_lead_nowhere() {
        for (path, target) in [
            ("a", "b"),
            ("d/a", "../b"),
            ("d/e/a", "../../d/./e"),
            ("a", "not/yet/there"),
            ("d/a", ".."),
            ("a", "."),
            ("a", "a"),
        ] {
            assert_eq!(
                check_entry_links(&[link_entry(path, target)]),
                Ok(()),
                "{path} -> {target}"
            );
        }
    }

    #[test]
    fn links_that_lead_outside_are_refused_also_by_way_of_other_links() {
        for links in [
            vec![link_entry("a", "..")],
            vec![link_entry("a", "/etc/passwd")],
            vec![link_entry("d/a", "../../x")],
            vec![link_entry("a", "b/../..")],
            // By its names alone `d/e/up/../..` would end in `d`.
            vec![link_entry("d/e/up", ".."), link_entry("x", "d/e/up/../..")],
        ] {
            assert!(
                matches!(
                    check_entry_links(&links),
                    Err(WrongLinkError::Escapes { .. })
                ),
                "{links:?}"
            );
        }
    }

    /// Forty links on each way, of two thousand names each: at a step each, an hour for them all.
    #[test]
    fn links_that_lead_on_and_on_are_refused_before_they_are_all_followed() {
        let around = "a/../".repeat(800);
        // Of the second kind only the first name is ever come to.
        for (before, behind) in [(&*around, ""), ("", &"/x".repeat(1_600))] {
            let target = |n| format!("{before}l{}{behind}", n + 1);
            let chain = (0..2_000).map(|n| link_entry(&format!("l{n}"), &target(n)));
            let refused = check_entry_links(&chain.collect::<Vec<_>>());
            assert!(
                matches!(refused, Err(WrongLinkError::TooLong { .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn all_that_belongs_to_content_changes_the_digest_and_order_does_not() {
        let all = [
            vec![],
            vec![file_entry("a", false, 1)],
            vec![file_entry("a", true, 1)],
            vec![file_entry("a", false, 2)],
            vec![file_entry("b", false, 1)],
            vec![link_entry("a", "b")],
            vec![link_entry("a", "c")],
            vec![ManifestEntry {
                path: b"a".to_vec(),
                kind: ManifestEntryKind::Directory,
            }],
            vec![file_entry("a", false, 1), file_entry("b", false, 1)],
        ];
        let digests: std::collections::BTreeSet<_> = all
            .iter()
            .map(|entries| digest_entries(entries.clone()))
            .collect();
        assert_eq!(digests.len(), all.len());
        assert_eq!(
            digest_entries(vec![file_entry("b", false, 1), file_entry("a", false, 1)]),
            digest_entries(vec![file_entry("a", false, 1), file_entry("b", false, 1)])
        );
    }

    /// Digests are in stores and catalogues: a change here orphans all of them.
    #[test]
    fn the_format_is_what_it_always_was() {
        let entries = vec![
            link_entry("run", "bin/tool"),
            file_entry("bin/tool", true, 1234),
            ManifestEntry {
                path: b"bin".to_vec(),
                kind: ManifestEntryKind::Directory,
            },
            file_entry("odd\n\u{ff}", false, 0),
        ];
        let seven = Digest([7; 32]);
        let text = format!(
            "cospan manifest 1\nd 3:bin\nf 0555 1234 {seven} 8:bin/tool\n\
             f 0444 0 {seven} 6:odd\n\u{ff}\nl 8:bin/tool 3:run\n"
        );
        assert_eq!(
            digest_entries(entries),
            Digest(blake3::derive_key(CONTEXT, text.as_bytes()))
        );
    }

    #[test]
    fn an_empty_directory_is_not_an_empty_file() {
        assert_ne!(
            digest_entries(vec![]),
            Digest(*blake3::hash(b"").as_bytes())
        );
        assert_ne!(
            digest_entries(vec![]),
            Digest(*blake3::hash(b"cospan manifest 1\n").as_bytes())
        );
    }

    proptest! {
        /// The kernel is the judge: what passes the check never leaves.
        #[test]
        fn the_kernel_never_leaves_by_links_that_passed(
            links in proptest::collection::btree_map(
                "[abc](/[abc]){0,2}",
                proptest::collection::vec("[abc]|\\.\\.", 1..5).prop_map(|names| names.join("/")),
                1..6,
            )
        ) {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().join("1/2/3/root");
            std::fs::create_dir_all(&root).unwrap();
            let mut made = Vec::new();
            for (path, target) in &links {
                let full = root.join(path);
                let real_parents = path.match_indices('/').all(|(end, _)| {
                    !made.iter().any(|entry: &ManifestEntry| entry.path == path.as_bytes()[..end])
                });
                if !real_parents || std::fs::create_dir_all(full.parent().unwrap()).is_err() {
                    continue;
                }
                if std::os::unix::fs::symlink(target, &full).is_ok() {
                    made.push(link_entry(path, target));
                }
            }
            if check_entry_links(&made).is_ok() {
                let dir = crate::files::open_beneath::DirectoryHandle::open(&root).unwrap();
                for entry in &made {
                    let path = std::str::from_utf8(&entry.path).unwrap();
                    if let Err(error) = dir.open_beneath(path) {
                        let out = rustix::io::Errno::XDEV.raw_os_error();
                        prop_assert_ne!(error.raw_os_error(), Some(out), "{} in {:?}", path, made);
                    }
                }
            }
        }
    }
}
