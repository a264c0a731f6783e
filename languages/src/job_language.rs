//! The port of a language of job files. Each language has a folder, and a line in [`JOB_LANGUAGES`].

use std::string::FromUtf8Error;

use cospan_api::v1::{JobDocument, ParseError};
use cospan_domain::units::DurationMs;

use crate::own::OwnJobFiles;
use crate::sbatch::SbatchScripts;

/// All languages. The first that recognises a file reads it; the last one recognises every file.
pub static JOB_LANGUAGES: &[&dyn JobLanguage] = &[&SbatchScripts, &OwnJobFiles];

/// A language of job files.
pub trait JobLanguage: Sync {
    /// Returns true if a file is of this language.
    fn recognises(&self, file: &JobFile<'_>) -> bool;

    /// Returns true if a file of this language takes arguments.
    fn takes_arguments(&self) -> bool {
        false
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Something in the file cannot be read, or cannot be expressed as a job.
    fn read_jobs(
        &self,
        file: &JobFile<'_>,
        around: JobFileContext<'_>,
    ) -> Result<JobFileContent, JobFileMistakes>;
}

/// Finds the language of a file.
pub fn language_of(file: &JobFile<'_>) -> &'static dyn JobLanguage {
    JOB_LANGUAGES
        .iter()
        .copied()
        .find(|language| language.recognises(file))
        .unwrap_or(&OwnJobFiles)
}

/// Reads the text of a job file. Comments of a script may be in another encoding than UTF-8: they come out
/// with signs that stand for whatever it was.
///
/// # Errors
/// Something else is not UTF-8.
pub fn decode_job_file(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    String::from_utf8(bytes).or_else(|error| {
        let bytes = error.as_bytes();
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if bytes.starts_with(b"#!")
            && lines.all(|line| is_mere_comment(line) || std::str::from_utf8(line).is_ok())
        {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        } else {
            Err(error)
        }
    })
}

fn is_mere_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.starts_with(b"#") && !line.get(1).is_some_and(u8::is_ascii_uppercase)
}

/// A job file, and its origin.
#[derive(Debug, Clone, Copy)]
pub struct JobFile<'a> {
    /// The file as people see it: a path, or the name of a stream.
    pub shown: &'a str,
    /// The name without folders, if it is a file.
    pub name: Option<&'a str>,
    pub text: &'a str,
    /// The arguments for what it runs.
    pub arguments: &'a [String],
}

/// A time, with the partition and site that set it.
pub type PartitionDefaultTime = (DurationMs, String);

/// Processors of a node, with its partition and site.
pub type PartitionNodeSize = (u32, String);

/// Context of a job file that it does not contain.
#[derive(Clone, Copy)]
pub struct JobFileContext<'a> {
    /// Reads an exported variable of this process.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Finds the time limit that these partitions, or those of jobs that name none, give a job
    /// without a time; with the partition, and its site.
    pub default_time: &'a dyn Fn(Option<&str>) -> Option<PartitionDefaultTime>,
    /// Finds the smallest node of these partitions, or of those of jobs that name none, at any site.
    pub smallest_node: &'a dyn Fn(Option<&str>) -> Option<PartitionNodeSize>,
}

/// The jobs of a file.
#[derive(Debug, Clone, Default)]
pub struct JobFileContent {
    pub jobs: Vec<JobDocument>,
    /// Notes for the user, each with its line, from 1.
    pub notes: Vec<(usize, String)>,
}

/// All mistakes of a file: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFileMistakes {
    pub mistakes: Vec<ParseError>,
    /// The remedy, if it is one of this file.
    pub remedy: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_a_script_may_be_in_another_encoding() {
        let decode = |bytes: &[u8]| decode_job_file(bytes.to_vec()).ok();
        let text = decode(b"#!/bin/sh\n  # gr\xfc\xdfe\necho\n");
        assert_eq!(
            text.as_deref(),
            Some("#!/bin/sh\n  # gr\u{fffd}\u{fffd}e\necho\n")
        );
        for other in [
            &b"#!/bin/sh\necho gr\xfc\xdfe\n"[..],
            b"#!/bin/sh\n#SBATCH -J gr\xfc\xdfe\n",
            b"# gr\xfc\xdfe\nname = \"x\"\n",
        ] {
            assert_eq!(decode(other), None);
        }
    }
}
