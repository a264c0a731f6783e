//! Directories of a site that only an agent can reach.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use async_trait::async_trait;
use cospan_domain::content::Content;

use super::file_root::INCOMING;
use super::push_tree::{ArrivedFileSizes, TreePushDestination};
use super::remote_file_area::SharedAgentClient;
use super::tree_pieces::{
    DirectoryListing, FileByteRun, ListingEntry, ListingEntryKind, NAMES_MAX,
};
use crate::agent::{self, SiteAgentRequest};
use crate::exec::CommandChannel;
use crate::port::SiteError;

/// Makes a path a word of a command: never an option.
fn path_word(path: &[u8]) -> OsString {
    OsString::from_vec([b"./", path].concat())
}

fn unreadable_answer() -> SiteError {
    SiteError::OutcomeUnknown("the answer is no listing".to_owned())
}

impl SharedAgentClient {
    /// Lists what is below the directory at this path below the root; `None` if it is a file.
    pub(super) async fn list_tree(
        &self,
        path: &str,
    ) -> Result<Option<DirectoryListing>, SiteError> {
        let leaves = match self.ask_for_bytes(&["list-tree", path], b"tree\n").await? {
            Some(listed) => parse_leaves(&listed)?,
            None => return Ok(None),
        };
        DirectoryListing::new(leaves).map(Some)
    }

    pub(super) async fn fetch_runs(
        &self,
        path: &str,
        runs: &[FileByteRun],
    ) -> Result<Vec<u8>, SiteError> {
        let mut words: Vec<OsString> = vec!["get-runs".into(), path.into()];
        for run in runs {
            words.push(path_word(&run.path));
            words.extend([run.offset.to_string(), run.length.to_string()].map(OsString::from));
        }
        let bytes = self
            .ask_for_bytes(&words, b"runs\n")
            .await?
            .unwrap_or_default();
        let wanted: usize = runs.iter().map(|run| run.length as usize).sum();
        if bytes.len() == wanted {
            return Ok(bytes);
        }
        Err(SiteError::Refused(format!(
            "{path} changed while it was read"
        )))
    }

    /// Returns the bytes of an answer between this beginning and its end;
    /// `None` if it begins otherwise.
    async fn ask_for_bytes(
        &self,
        words: &[impl AsRef<OsStr>],
        begins: &[u8],
    ) -> Result<Option<Vec<u8>>, SiteError> {
        let command =
            self.agent
                .build_command(words, SiteAgentRequest::default(), CommandChannel::Bulk);
        let output = self.agent.exec.run(command).await?;
        agent::read_answer(&output)?;
        let body = output.stdout.strip_prefix(begins);
        Ok(body
            .and_then(|body| body.strip_suffix(b"\ndone\n"))
            .map(<[u8]>::to_vec))
    }

    /// Sends a request with many words, as many at a time as one command takes.
    async fn send_in_batches(
        &self,
        verb: &str,
        name: &str,
        all: Vec<[OsString; 2]>,
    ) -> Result<(), SiteError> {
        let mut all = all.into_iter().peekable();
        while all.peek().is_some() {
            let mut words: Vec<OsString> = vec![verb.into(), name.into()];
            let mut length = 0;
            while let Some(pair) = all.next_if(|_| length < NAMES_MAX) {
                length += pair.iter().map(|word| word.len()).sum::<usize>() + 1;
                words.extend(pair.into_iter().filter(|word| !word.is_empty()));
            }
            self.agent
                .send_request(&words, SiteAgentRequest::default())
                .await?;
        }
        Ok(())
    }
}

/// Parses `KIND MODE SIZE PATH`, NUL, the target of a link, NUL.
fn parse_leaves(listed: &[u8]) -> Result<Vec<ListingEntry>, SiteError> {
    let mut parts = listed.split(|byte| *byte == 0);
    let mut leaves = Vec::new();
    while let (Some(first), Some(target)) = (parts.next(), parts.next()) {
        let mut words = first.splitn(4, |byte| *byte == b' ');
        let found = next_utf8_word(&mut words);
        let mode = next_utf8_word(&mut words);
        let size = next_utf8_word(&mut words);
        let (Some(found), Some(mode), Some(size)) = (found, mode, size) else {
            return Err(unreadable_answer());
        };
        let mode = u32::from_str_radix(mode, 8).map_err(|_| unreadable_answer())?;
        let path = words.next().ok_or_else(unreadable_answer)?.to_vec();
        let kind = match found {
            "d" => ListingEntryKind::Directory,
            "f" => ListingEntryKind::File {
                executable: mode & 0o111 != 0,
                size: size.parse().map_err(|_| unreadable_answer())?,
            },
            "l" => ListingEntryKind::Link(target.to_vec()),
            _ => {
                let shown = String::from_utf8_lossy(&path);
                let why = format!("{shown:?} is neither file, directory nor link; take it away");
                return Err(SiteError::Refused(why));
            }
        };
        leaves.push(ListingEntry { path, kind });
    }
    Ok(leaves)
}

fn next_utf8_word<'w>(words: &mut impl Iterator<Item = &'w [u8]>) -> Option<&'w str> {
    std::str::from_utf8(words.next()?).ok()
}

#[async_trait]
impl TreePushDestination for SharedAgentClient {
    async fn begin_tree(
        &self,
        name: &str,
        listing: &DirectoryListing,
    ) -> Result<ArrivedFileSizes, SiteError> {
        self.agent.send_long_request(&["plant", name]).await?;
        let there = self.arrived_leaves(name).await?;
        let known: BTreeSet<&[u8]> = there.iter().map(|known| &known.path[..]).collect();
        let missing = listing.leaves().iter().filter(|leaf| {
            leaf.kind == ListingEntryKind::Directory && !known.contains(&leaf.path[..])
        });
        let missing = missing
            .map(|leaf| [path_word(&leaf.path), OsString::new()])
            .collect();
        self.send_in_batches("grow", name, missing).await?;
        let sizes = there.into_iter().filter_map(|leaf| match leaf.kind {
            ListingEntryKind::File { size, .. } => Some((leaf.path, size)),
            ListingEntryKind::Directory | ListingEntryKind::Link(_) => None,
        });
        Ok(sizes.collect())
    }

    async fn append_runs(
        &self,
        name: &str,
        runs: &[(FileByteRun, bool)],
        bytes: Vec<u8>,
    ) -> Result<(), SiteError> {
        let mut words: Vec<OsString> = vec!["fill".into(), name.into()];
        for (run, executable) in runs {
            words.push(if *executable { "executable" } else { "plain" }.into());
            words.push(path_word(&run.path));
            words.extend([run.offset.to_string(), run.length.to_string()].map(OsString::from));
        }
        let command = self.agent.build_command(
            &words,
            SiteAgentRequest::from_bytes(bytes),
            CommandChannel::Bulk,
        );
        agent::read_answer(&self.agent.exec.run(command).await?)?;
        Ok(())
    }

    async fn commit_tree(
        &self,
        name: &str,
        listing: &DirectoryListing,
        content: Content,
        sum: &str,
    ) -> Result<(), SiteError> {
        let digest = content.digest.to_string();
        let links = listing.leaves().iter().filter_map(|leaf| match &leaf.kind {
            ListingEntryKind::Link(target) => {
                Some([path_word(&leaf.path), OsStr::from_bytes(target).to_owned()])
            }
            ListingEntryKind::Directory | ListingEntryKind::File { .. } => None,
        });
        let (whole, _) = self.copied_bytes(name, content.digest).await?;
        if !whole {
            self.send_in_batches("tie", name, links.collect()).await?;
            if DirectoryListing::new(self.arrived_leaves(name).await?).as_ref() != Ok(listing) {
                return Err(SiteError::Refused(
                    "what arrived is not what was sent".to_owned(),
                ));
            }
        }
        self.agent
            .send_long_request(&["settle", name, &digest, sum])
            .await
            .map(drop)
    }
}

impl SharedAgentClient {
    async fn arrived_leaves(&self, name: &str) -> Result<Vec<ListingEntry>, SiteError> {
        let listed = self
            .ask_for_bytes(&["list-tree", &format!("{INCOMING}/{name}")], b"tree\n")
            .await?;
        parse_leaves(&listed.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_whatever_names_there_are_and_refused_if_it_is_strange() {
        let listed = b"d 755 4096 a b\0\0f 640 12 a b/x\ny\0\0f 100 0 \xff\0\0l 777 3 l\0a b\0";
        let file = |executable, size| ListingEntryKind::File { executable, size };
        let expected = [
            (&b"a b"[..], ListingEntryKind::Directory),
            (b"a b/x\ny", file(false, 12)),
            (b"\xff", file(true, 0)),
            (b"l", ListingEntryKind::Link(b"a b".to_vec())),
        ];
        assert_eq!(
            parse_leaves(listed).unwrap(),
            expected.map(|(path, kind): (&[u8], ListingEntryKind)| ListingEntry {
                path: path.to_vec(),
                kind,
            })
        );
        assert!(parse_leaves(b"").unwrap().is_empty());
        for strange in [
            &b"f x 1 a\0\0"[..],
            b"f 640 -1 a\0\0",
            b"p 640 0 pipe\0\0",
            b"f 640\0\0",
        ] {
            assert!(parse_leaves(strange).is_err());
        }
    }
}
