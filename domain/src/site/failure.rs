//! Whose fault a failed component is.

/// Classes of failure. Exactly one of them is an error of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// It ran and ended badly by itself, or could not be run as described: the job's own.
    Application,
    /// Refused without a reason, lost, its node failed, or it could not be started.
    Site,
    /// A limit of the site or of the account was reached.
    SiteFull,
    /// Others took the processors before us.
    ClaimLost,
    /// It gave way to a more urgent job.
    Preempted,
    /// It ran into its wall time.
    WallTime,
    /// We ended it: a user asked, or a sibling failed.
    Cancelled,
    /// Nobody knows.
    Unknown,
}

/// What the end of a component says about its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// One error more.
    Charges,
    /// The site did its part: the count of consecutive errors becomes zero.
    Clears,
    /// Nothing.
    Neither,
}

impl FailureClass {
    /// All of them.
    pub const ALL: [FailureClass; 8] = [
        FailureClass::Application,
        FailureClass::Site,
        FailureClass::SiteFull,
        FailureClass::ClaimLost,
        FailureClass::Preempted,
        FailureClass::WallTime,
        FailureClass::Cancelled,
        FailureClass::Unknown,
    ];

    /// Whether it counts against the site.
    pub fn charges_site(self) -> bool {
        self.verdict() == Verdict::Charges
    }

    /// What it says about the site.
    ///
    /// KOALA, fault tolerance: an error of a component is charged to its site, a
    /// component that ends without a site error sets the count to zero, siblings
    /// aborted with it count as neither. A component stopped from outside, by its
    /// wall time too, says nothing: it may have hung because of the site.
    pub fn verdict(self) -> Verdict {
        match self {
            FailureClass::Site => Verdict::Charges,
            FailureClass::Application => Verdict::Clears,
            FailureClass::SiteFull
            | FailureClass::ClaimLost
            | FailureClass::Preempted
            | FailureClass::WallTime
            | FailureClass::Cancelled
            | FailureClass::Unknown => Verdict::Neither,
        }
    }

    /// Its name in the journal, in answers and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureClass::Application => "application",
            FailureClass::Site => "site",
            FailureClass::SiteFull => "site-full",
            FailureClass::ClaimLost => "claim-lost",
            FailureClass::Preempted => "preempted",
            FailureClass::WallTime => "wall-time",
            FailureClass::Cancelled => "cancelled",
            FailureClass::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_site_are_charged_to_it() {
        let charged: Vec<_> = FailureClass::ALL.into_iter().filter(|c| c.charges_site()).collect();
        assert_eq!(charged, [FailureClass::Site]);
    }

    #[test]
    fn what_was_stopped_from_outside_says_nothing_about_the_site() {
        use FailureClass::{Cancelled, ClaimLost, Preempted, SiteFull, Unknown, WallTime};
        for class in [Cancelled, ClaimLost, Preempted, SiteFull, Unknown, WallTime] {
            assert_eq!(class.verdict(), Verdict::Neither, "{}", class.as_str());
        }
        assert_eq!(FailureClass::Application.verdict(), Verdict::Clears);
    }
}
