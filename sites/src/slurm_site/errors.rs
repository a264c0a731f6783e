//! Messages of `sbatch` when it does not submit, and of `scontrol` when it does not reserve, as
//! the port's kinds of errors.

use super::slurm_reservations::ScontrolOutcome;
use crate::port::SiteError;

/// Parts of messages after which certainly nothing was submitted, and the site may well accept it
/// later: it was not reached, or does not know us at the moment.
const NOT_REACHED: [&str; 8] = [
    "Unable to contact slurm controller",
    "Connection refused",
    "Invalid authentication credential",
    "Protocol authentication error",
    "Unable to establish control",
    "in standby mode",
    "establish a configuration source",
    "Munge",
];

/// Parts of messages about a limit on what one may have at the site at a time, or about nodes that
/// are out of use for a while.
const FULL: [&str; 7] = [
    "MaxSubmit",
    "MaxJobCount",
    "Resource temporarily unavailable",
    "temporarily unable to accept job",
    "GrpSubmit",
    "inactive or drain",
    "Required node not available",
];

/// Parts of messages about a demand of an attempt that the site never meets.
const UNFIT: [&str; 11] = [
    "Requested node configuration is not available",
    "Requested partition configuration not available",
    "Requested topology configuration is not available",
    "Requested time limit is invalid",
    "Node count specification invalid",
    "More processors requested than permitted",
    "Memory specification can not be satisfied",
    "CPU count per node can not be satisfied",
    "Job violates accounting/QOS policy",
    "User's group not permitted to use this partition",
    "TRES",
];

/// Parts of messages about what the site's own configuration demands, unless the attempt has
/// options of its own.
const DEMANDED_BY_SITE: [&str; 8] = [
    "partition",
    "account",
    "qos",
    "QOS",
    "eservation",
    "icense",
    "gres",
    "permi",
];

/// Parts of messages about a fault of the site, whatever is submitted.
const SITE_FAULTS: [&str; 6] = [
    "I/O error",
    "No space left",
    "nable to open",
    "nable to write",
    "Invalid user id",
    "generating job credential",
];

/// The beginning of the answer of the controller that refuses a job. Also a plugin of the site that
/// checks submissions refuses so, in words of its own or none ("Unspecified error").
const CONTROLLER_REFUSED: &str = "Batch job submission failed: ";

/// Parts of messages after which it may have been submitted: the controller was reached, and what
/// failed is the rest of the talk with it.
const LOST: [&str; 11] = [
    "receive failure",
    "send failure",
    "shutdown failure",
    "Insane message length",
    "Connection reset by peer",
    "Broken pipe",
    "Socket timed out",
    "Zero Bytes were transmitted or received",
    "Transport endpoint is not connected",
    "Unexpected message received",
    "Communication connection failure",
];

/// Interprets the end of `sbatch` with this code and these words; `has_own`: the
/// attempt has options of its own. What is refused for what it asks is no fault of the site.
pub(super) fn submission_error(code: i32, said: &[&str], has_own: bool) -> SiteError {
    // A prefix of every line is no news.
    let why = said
        .iter()
        .map(|line| line.strip_prefix("sbatch: error: ").unwrap_or(line));
    let why = why.collect::<Vec<_>>().join("; ");
    if let Some(error) = unanswered_error("sbatch", code, said, &why) {
        return error;
    }
    if contains_any(said, &FULL) {
        return SiteError::SiteFull(why);
    }
    match code {
        126 | 127 => SiteError::NotSent(format!("sbatch cannot be run: {why}")),
        _ if why.is_empty() => SiteError::OutcomeUnknown(format!("sbatch ended with {code}")),
        _ if is_unfit(said, has_own) => SiteError::Unfit(why),
        _ => SiteError::Refused(why),
    }
}

/// Returns true if these words refuse what the attempt asks for.
fn is_unfit(said: &[&str], has_own: bool) -> bool {
    if contains_any(said, &SITE_FAULTS) {
        return false;
    }
    let is_by_controller = said.iter().any(|line| line.contains(CONTROLLER_REFUSED));
    contains_any(said, &UNFIT)
        || has_own
        || (is_by_controller && !contains_any(said, &DEMANDED_BY_SITE))
}

fn contains_any(said: &[&str], parts: &[&str]) -> bool {
    said.iter()
        .any(|line| parts.iter().any(|part| line.contains(part)))
}

/// Corrects the error for an attempt with a reservation: that may have
/// gone, which is nobody's error.
pub(super) fn error_with_reservation(is_promised: bool, error: SiteError) -> SiteError {
    match error {
        SiteError::Refused(why) | SiteError::Unfit(why)
            if is_promised && why.contains("eservation") =>
        {
            SiteError::SiteFull(why)
        }
        error => error,
    }
}

/// Interprets a command that was not answered.
fn unanswered_error(command: &str, code: i32, said: &[&str], why: &str) -> Option<SiteError> {
    if contains_any(said, &LOST) || matches!(code, 124 | 137) {
        return Some(SiteError::OutcomeUnknown(format!(
            "{command} was not answered: {why}"
        )));
    }
    contains_any(said, &NOT_REACHED).then(|| SiteError::NotSent(why.to_owned()))
}

/// Parts of messages about processors that are not free at that time.
const BUSY: [&str; 4] = [
    "nodes are busy",
    "overlap",
    "Requested node configuration is not available",
    "Node count specification invalid",
];

/// Parts of messages about what the account may not do.
const FORBIDDEN: [&str; 3] = ["Invalid user id", "ermission denied", "Access denied"];

/// Interprets what `scontrol` did to a reservation if it ended with this code and these words.
pub(super) fn reservation_answer(
    code: Option<i32>,
    said: &[&str],
) -> Result<ScontrolOutcome, SiteError> {
    let why = said.join("; ");
    let Some(code) = code else {
        return Err(SiteError::OutcomeUnknown(format!(
            "scontrol gave no exit code: {why}"
        )));
    };
    if code == 0 {
        return Ok(ScontrolOutcome::All);
    }
    if let Some(error) = unanswered_error("scontrol", code, said, &why) {
        return Err(error);
    }
    if contains_any(said, &FORBIDDEN) {
        return Err(SiteError::Refused(format!(
            "the account may not make reservations in Slurm ({why}): have its operators give it \
             AdminLevel=Operator, or set grants_reservations = false"
        )));
    }
    let known = [
        (&BUSY[..], ScontrolOutcome::Busy),
        (&["Duplicate reservation name"], ScontrolOutcome::Twice),
        (&["reservation is in use"], ScontrolOutcome::InUse),
        (
            &["reservation is invalid", "not found"],
            ScontrolOutcome::Missing,
        ),
    ];
    let did = known
        .into_iter()
        .find(|(parts, _)| contains_any(said, parts))
        .map(|(_, did)| did);
    did.ok_or_else(|| match code {
        126 | 127 => SiteError::NotSent(format!("scontrol cannot be run: {why}")),
        _ if why.is_empty() => SiteError::OutcomeUnknown(format!("scontrol ended with {code}")),
        _ => SiteError::Refused(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_known_for_what_it_tells() {
        let lost = ["sbatch: error: Batch job submission failed: Socket timed out on send/recv"];
        let refused = |code, said: &[&str]| submission_error(code, said, false);
        assert!(matches!(refused(1, &lost), SiteError::OutcomeUnknown(_)));
        assert!(matches!(refused(124, &[]), SiteError::OutcomeUnknown(_)));
        let down = [
            "sbatch: error: Batch job submission failed: Unable to contact slurm \
                     controller (connect failure)",
        ];
        assert!(matches!(refused(1, &down), SiteError::NotSent(_)));
        let full = [
            "sbatch: error: AssocMaxSubmitJobLimit",
            "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy",
        ];
        assert!(matches!(refused(1, &full), SiteError::SiteFull(_)));
        let none = ["sbatch: error: invalid partition specified: nowhere"];
        let why = "invalid partition specified: nowhere".to_owned();
        assert_eq!(refused(1, &none), SiteError::Refused(why));
        assert!(matches!(
            refused(127, &["sh: sbatch: not found"]),
            SiteError::NotSent(_)
        ));
        assert!(matches!(refused(1, &[]), SiteError::OutcomeUnknown(_)));
    }

    #[test]
    fn a_controller_that_was_reached_may_have_taken_it() {
        for said in [
            "Message receive failure",
            "Unable to contact slurm controller (receive failure)",
            "Unable to contact slurm controller (send failure)",
            "Communication shutdown failure",
            "Insane message length",
        ] {
            let line = format!("sbatch: error: Batch job submission failed: {said}");
            let answer = submission_error(1, &[&line], false);
            assert!(matches!(answer, SiteError::OutcomeUnknown(_)), "{answer:?}");
        }
    }

    #[test]
    fn a_promise_that_its_site_has_no_more_is_nobodys_error() {
        let gone = ["Batch job submission failed: Requested reservation is invalid"];
        let of =
            |is_promised| error_with_reservation(is_promised, submission_error(1, &gone, false));
        assert!(matches!(
            (of(true), of(false)),
            (SiteError::SiteFull(_), SiteError::Refused(_))
        ));
        let other = error_with_reservation(
            true,
            submission_error(1, &["invalid partition specified: x"], false),
        );
        assert!(matches!(other, SiteError::Refused(_)));
    }

    #[test]
    fn what_an_attempt_asks_for_in_vain_is_not_the_sites_error() {
        for (said, unfit, own) in [
            (
                "Batch job submission failed: Requested node configuration is not available",
                true,
                true,
            ),
            ("Memory specification can not be satisfied", true, true),
            (
                "Batch job submission failed: Invalid license specification",
                false,
                true,
            ),
            ("invalid partition specified: nowhere", false, true),
            (
                "Batch job submission failed: Invalid qos specification",
                false,
                true,
            ),
            ("sbatch: unrecognized option '--prefer=x'", false, true),
            (
                "Batch job submission failed: I/O error writing script/environment to file",
                false,
                false,
            ),
            ("Batch job submission failed: Unspecified error", true, true),
            (
                "Batch job submission failed: Invalid job array specification",
                true,
                true,
            ),
            (
                "sbatch: fatal: --gpus-per-task used without either --gpus or -n/--ntasks",
                false,
                true,
            ),
            (
                "sbatch: fatal: Could not establish a configuration source",
                false,
                false,
            ),
        ] {
            let is_unfit =
                |has_own| matches!(submission_error(1, &[said], has_own), SiteError::Unfit(_));
            assert_eq!((is_unfit(false), is_unfit(true)), (unfit, own), "{said}");
        }
    }
}
