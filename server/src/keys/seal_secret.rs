//! The secret that the words of attempts are derived from; see
//! [`cospan_sites::wrapper::attempt_words`].

use std::path::Path;

use cospan_domain::ids::JobId;
use cospan_sites::wrapper::attempt_words::AttemptAuthenticator;

use super::{KeyError, private};

/// Reads the secret of a data directory, or draws it. `next` is the id of the next job: if the
/// secret is drawn because it was missing or unreadable, attempts of earlier jobs may have begun
/// without words.
///
/// # Errors
///
/// The file belongs to somebody else, others can read it, or it cannot be written.
pub fn load_seal(data: &Path, next: JobId) -> Result<AttemptAuthenticator, KeyError> {
    let path = data.join("seal");
    let kept = private::read_private_file(&path)?.and_then(|(text, _)| parse_seal(&text));
    if let Some((secret, from)) = kept {
        return Ok(AttemptAuthenticator::new(secret, from));
    }
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
    private::write_private_file(
        &path,
        &format!("{} {next}\n", blake3::Hash::from_bytes(secret)),
    )?;
    Ok(AttemptAuthenticator::new(secret, next))
}

fn parse_seal(text: &str) -> Option<([u8; 32], JobId)> {
    let (secret, from) = text.strip_suffix('\n')?.split_once(' ')?;
    Some((
        *blake3::Hash::from_hex(secret).ok()?.as_bytes(),
        JobId(from.parse().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_directory_is_drawn_once_and_kept_to_its_owner() {
        let data = tempfile::tempdir().unwrap();
        let first = load_seal(data.path(), JobId(5)).unwrap();
        let text = std::fs::read_to_string(data.path().join("seal")).unwrap();
        assert_eq!(format!("{first:?}"), "Seal(Some(JobId(5)), ..)");
        let again = load_seal(data.path(), JobId(9)).unwrap();
        assert_eq!(format!("{again:?}"), "Seal(Some(JobId(5)), ..)");
        assert_eq!(
            std::fs::read_to_string(data.path().join("seal")).unwrap(),
            text
        );
        let other = tempfile::tempdir().unwrap();
        load_seal(other.path(), JobId(5)).unwrap();
        assert_ne!(
            std::fs::read_to_string(other.path().join("seal")).unwrap(),
            text
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(data.path().join("seal"))
                .unwrap()
                .permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_secret_that_cannot_be_read_is_drawn_anew_and_earlier_jobs_need_none() {
        let data = tempfile::tempdir().unwrap();
        load_seal(data.path(), JobId(5)).unwrap();
        private::write_private_file(&data.path().join("seal"), "torn").unwrap();
        assert_eq!(
            format!("{:?}", load_seal(data.path(), JobId(9)).unwrap()),
            "Seal(Some(JobId(9)), ..)"
        );
    }
}
