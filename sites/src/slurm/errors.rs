//! What `sbatch` says when it does not submit, as the port's kinds.

use crate::port::SiteError;

/// Parts of messages after which certainly nothing was submitted, and the site may well take
/// it later: it was not reached, or does not know us at the moment.
const NOT_REACHED: [&str; 7] = [
    "Unable to contact slurm controller",
    "Connection refused",
    "Invalid authentication credential",
    "Protocol authentication error",
    "Unable to establish control",
    "in standby mode",
    "Munge",
];

/// Parts of messages that speak of a limit on what one may have at the site at a time.
const FULL: [&str; 5] = [
    "MaxSubmit",
    "MaxJobCount",
    "Resource temporarily unavailable",
    "temporarily unable to accept job",
    "GrpSubmit",
];

/// Parts of messages after which it may have been submitted.
const LOST: [&str; 5] = [
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Transport endpoint is not connected",
    "Unexpected message received",
    "Communication connection failure",
];

/// What is known after `sbatch` ended with this code and these words.
pub(super) fn refused(code: i32, said: &[&str]) -> SiteError {
    let says =
        |parts: &[&str]| said.iter().any(|line| parts.iter().any(|part| line.contains(part)));
    // What is told in front of every line is no news.
    let why = said.iter().map(|line| line.strip_prefix("sbatch: error: ").unwrap_or(line));
    let why = why.collect::<Vec<_>>().join("; ");
    if says(&LOST) || matches!(code, 124 | 137) {
        return SiteError::OutcomeUnknown(format!("sbatch was not answered: {why}"));
    }
    if says(&NOT_REACHED) {
        return SiteError::NotSent(why);
    }
    if says(&FULL) {
        return SiteError::SiteFull(why);
    }
    match code {
        126 | 127 => SiteError::NotSent(format!("sbatch cannot be run: {why}")),
        _ if why.is_empty() => SiteError::OutcomeUnknown(format!("sbatch ended with {code}")),
        _ => SiteError::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_known_for_what_it_tells() {
        let lost = ["sbatch: error: Batch job submission failed: Socket timed out on send/recv"];
        assert!(matches!(refused(1, &lost), SiteError::OutcomeUnknown(_)));
        assert!(matches!(refused(124, &[]), SiteError::OutcomeUnknown(_)));
        let down = ["sbatch: error: Batch job submission failed: Unable to contact slurm \
                     controller (connect failure)"];
        assert!(matches!(refused(1, &down), SiteError::NotSent(_)));
        let full = [
            "sbatch: error: AssocMaxSubmitJobLimit",
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy",
        ];
        assert!(matches!(refused(1, &full), SiteError::SiteFull(_)));
        let none = ["sbatch: error: invalid partition specified: nowhere"];
        let why = "invalid partition specified: nowhere".to_owned();
        assert_eq!(refused(1, &none), SiteError::Refused(why));
        assert!(matches!(refused(127, &["sh: sbatch: not found"]), SiteError::NotSent(_)));
        assert!(matches!(refused(1, &[]), SiteError::OutcomeUnknown(_)));
    }
}
