//! The only place that knows which keys there are.
//!
//! | key | value |
//! |---|---|
//! | `j/<job>/s` | what the job asks for, and its head at submission; never changes |
//! | `j/<job>/h` | its head, from its second unit on; guards the other keys of the job |
//! | `j/<job>/b<block>` | 64 components; absent while none of them was touched |
//! | `j/<job>/e<slot>` | the events of one unit, in a ring of 64 |
//! | `a/<job>` | a job that left the live state, with its last events |
//! | `c/<digest>/<site>` | a copy |
//! | `s/<site>` | a site |
//! | `f/<logical name>` | a logical file |
//! | `m/next-job` | the first job id that was never given out |
//! | `m/batch/<first job>` | a request of many jobs that is being written |
//! | `m/store/...` | the store's own |
//! | `t/<first job>/<number>` | a text that jobs of a request have in common; never changes |
//!
//! A record of several values has `+01`, `+02`, ... after the key of its first.

use cospan_domain::ids::{Digest, JobId, LogicalName, SiteName};

use crate::port::StoreKey;

/// All live jobs.
pub const JOBS: &[u8] = b"j/";
/// All archived jobs.
pub const ARCHIVE: &[u8] = b"a/";
/// All copies.
pub const COPIES: &[u8] = b"c/";
/// All sites.
pub const SITES: &[u8] = b"s/";
/// All logical files.
pub const FILES: &[u8] = b"f/";
/// The first job id that was never given out.
pub const NEXT_JOB: &str = "m/next-job";

/// Requests of many jobs that are being written.
pub const BATCHES: &[u8] = b"m/batch/";

/// Texts that jobs have in common. They come behind all jobs.
pub const TEXTS: &[u8] = b"t/";

/// Components in a block.
pub const BLOCK: usize = 64;
/// Units whose events are kept.
pub const HISTORY: u64 = 64;

/// Room for any key of a job.
const KEY_CAPACITY: usize = 32;

/// Makes a key of a job. Most writes are to such keys, and `format!` takes far longer.
fn job_key(id: JobId, part: &str) -> String {
    let mut key = String::with_capacity(KEY_CAPACITY);
    key.push_str("j/");
    push_hex(&mut key, id.0, 16);
    key.push('/');
    key.push_str(part);
    key
}

/// Appends the last `digits` hexadecimal digits of a number.
fn push_hex(key: &mut String, number: u64, digits: u32) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 16];
    let text = &mut text[..digits as usize];
    for (at, place) in text.iter_mut().rev().enumerate() {
        *place = DIGITS[(number >> (4 * at)) as usize & 15];
    }
    key.push_str(str::from_utf8(text).unwrap_or_default());
}

/// Returns the prefix of all keys of one job.
pub fn job_prefix(id: JobId) -> String {
    job_key(id, "")
}

/// Returns the key of a job's specification.
pub fn spec_key(id: JobId) -> String {
    job_key(id, "s")
}

/// Returns true for the key of a specification: each live job has one.
pub(crate) fn is_spec_key(key: &[u8]) -> bool {
    const LENGTH: usize = "j/0123456789abcdef/s".len();
    key.len() == LENGTH && key.starts_with(JOBS) && key.ends_with(b"/s")
}

/// Returns the key of a job's head.
pub fn head_key(id: JobId) -> String {
    job_key(id, "h")
}

/// Returns the key of a block of components.
pub fn block_key(id: JobId, block: usize) -> String {
    let mut key = job_key(id, "b");
    let digits = (usize::BITS - block.leading_zeros()).div_ceil(4);
    push_hex(&mut key, block as u64, digits.max(4));
    key
}

/// Returns the key of the events of the unit with this revision.
pub fn events_key(id: JobId, revision: u64) -> String {
    let mut key = job_key(id, "e");
    push_hex(&mut key, revision % HISTORY, 2);
    key
}

/// Returns the prefix of all events of a job.
pub fn history_prefix(id: JobId) -> String {
    job_key(id, "e")
}

/// Returns the key of an archived job.
pub fn archived_key(id: JobId) -> String {
    let mut key = String::with_capacity(KEY_CAPACITY);
    key.push_str("a/");
    push_hex(&mut key, id.0, 16);
    key
}

/// Returns the key of a copy.
pub fn copy_key(digest: &Digest, site: &SiteName) -> String {
    format!("c/{digest}/{site}")
}

/// Returns the key of a site.
pub fn site_key(site: &SiteName) -> String {
    format!("s/{site}")
}

/// Returns the key of a logical file.
pub fn file_key(name: &LogicalName) -> String {
    format!("f/{name}")
}

/// Returns the key of the marker of a request of many jobs.
pub fn batch_key(first: JobId) -> String {
    format!("m/batch/{:016x}", first.0)
}

/// Parses the first job of a request from its marker's key.
pub(crate) fn parse_batch_first(base: &str) -> Option<JobId> {
    u64::from_str_radix(base.strip_prefix("m/batch/")?, 16)
        .ok()
        .map(JobId)
}

/// Returns the key of a text that the jobs of a request share.
pub(crate) fn common_key(first: JobId, number: u32) -> String {
    format!("t/{:016x}/{number:08x}", first.0)
}

/// Parses the request of such a text, and its number.
pub(crate) fn parse_common_key(base: &str) -> Option<(JobId, u32)> {
    let (first, number) = base.strip_prefix("t/")?.split_once('/')?;
    let first = JobId(u64::from_str_radix(first, 16).ok()?);
    Some((first, u32::from_str_radix(number, 16).ok()?))
}

/// Returns the key of a record's value number `chunk`.
pub(crate) fn chunk_key(base: &str, chunk: usize) -> StoreKey {
    match chunk {
        0 => StoreKey::from(base),
        _ => StoreKey::from(format!("{base}+{chunk:02x}").as_str()),
    }
}

/// Splits a key into its record's key and the number of the value within it.
pub(crate) fn split_chunk(key: &StoreKey) -> Option<(&str, usize)> {
    let text = std::str::from_utf8(&key.0).ok()?;
    // Names of files and sites may contain a `+`; only records of jobs and their texts are cut.
    if ![JOBS, ARCHIVE, TEXTS]
        .iter()
        .any(|prefix| key.0.starts_with(prefix))
    {
        return Some((text, 0));
    }
    match text.split_once('+') {
        None => Some((text, 0)),
        Some((base, chunk)) => Some((base, usize::from_str_radix(chunk, 16).ok()?)),
    }
}

/// The part of a job that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobRecordPart {
    Spec,
    Head,
    Block(usize),
    Events,
}

/// Parses a record's key: the job, and the part of it.
pub(crate) fn parse_job_part(base: &str) -> Option<(JobId, JobRecordPart)> {
    let (id, part) = base.strip_prefix("j/")?.split_once('/')?;
    let id = JobId(u64::from_str_radix(id, 16).ok()?);
    let (kind, number) = part.split_at_checked(1)?;
    let part = match (kind, number) {
        ("s", "") => JobRecordPart::Spec,
        ("h", "") => JobRecordPart::Head,
        ("b", number) => JobRecordPart::Block(usize::from_str_radix(number, 16).ok()?),
        ("e", _) => JobRecordPart::Events,
        _ => return None,
    };
    Some((id, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_jobs_are_in_the_order_of_their_ids() {
        let ids = [0, 1, 9, 10, 255, 256, u64::MAX];
        let keys: Vec<String> = ids.into_iter().map(|id| job_prefix(JobId(id))).collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn a_key_tells_whose_and_what_it_is() {
        let id = JobId(77);
        for (base, part) in [
            (spec_key(id), JobRecordPart::Spec),
            (head_key(id), JobRecordPart::Head),
            (block_key(id, 15), JobRecordPart::Block(15)),
            (events_key(id, 130), JobRecordPart::Events),
        ] {
            for number in [0, 1, 30] {
                let key = chunk_key(&base, number);
                assert_eq!(split_chunk(&key), Some((base.as_str(), number)));
                assert_eq!(parse_job_part(&base), Some((id, part)));
            }
        }
    }

    #[test]
    fn a_plus_in_a_files_name_is_part_of_it() {
        let key = StoreKey::from(file_key(&"a+01".parse().unwrap()).as_str());
        assert_eq!(split_chunk(&key), Some(("f/a+01", 0)));
    }

    #[test]
    fn the_longest_names_make_keys_that_fit() {
        let site = SiteName::new(&"s".repeat(63)).unwrap();
        let name = LogicalName::new(&"n".repeat(255)).unwrap();
        for key in [
            copy_key(&Digest([0; 32]), &site),
            file_key(&name),
            super::site_key(&site),
        ] {
            assert!(key.len() <= crate::port::MAX_KEY_BYTES);
        }
    }
}
