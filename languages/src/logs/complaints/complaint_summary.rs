//! The summary of [`LogComplaints`] for people.

use std::fmt;

use super::{ComplaintTreatment, LogComplaintKind, LogComplaintTally, LogComplaints};

impl fmt::Display for LogComplaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = group_thousands(self.lines_read);
        match self.lines_skipped() {
            0 if self.lines_read == 1 => f.write_str("1 line read, none skipped")?,
            0 => write!(f, "{lines} lines read, none skipped")?,
            skipped => {
                write!(f, "{} of {lines} lines skipped: ", group_thousands(skipped))?;
                f.write_str(&self.list_complaints(ComplaintTreatment::Skipped))?;
            }
        }
        for (treatment, lead) in [
            (ComplaintTreatment::Kept, "kept all the same"),
            (ComplaintTreatment::Incomplete, "the log is incomplete"),
        ] {
            let listed = self.list_complaints(treatment);
            if !listed.is_empty() {
                write!(f, "; {lead}: {listed}")?;
            }
        }
        Ok(())
    }
}

impl LogComplaints {
    /// Formats complaints as `2 x unknown run time (lines 17, 290), 1 x ...`.
    fn list_complaints(&self, treatment: ComplaintTreatment) -> String {
        let kinds: Vec<String> = self
            .with_treatment(treatment)
            .map(|(kind, tally)| tally.describe_kind(*kind))
            .collect();
        kinds.join(", ")
    }
}

impl LogComplaintTally {
    fn describe_kind(&self, kind: LogComplaintKind) -> String {
        let count = group_thousands(self.count);
        let lines: Vec<String> = self.kept.iter().map(|kept| kept.line.to_string()).collect();
        let noun = if self.count == 1 { "line" } else { "lines" };
        let unlisted = self.count - self.kept.len() as u64;
        match (lines.is_empty(), unlisted) {
            (true, _) => format!("{count} x {kind}"),
            (false, 0) => format!("{count} x {kind} ({noun} {})", lines.join(", ")),
            (false, more) => {
                format!(
                    "{count} x {kind} ({noun} {} and {} more)",
                    lines.join(", "),
                    group_thousands(more)
                )
            }
        }
    }
}

/// Formats a number with a comma between thousands.
fn group_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
