//! Classes of failure of a component, which say whose fault it is.

/// The class of a failure. Exactly one of them is an error of the site.
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
    /// The cause is unknown.
    Unknown,
}

impl FailureClass {
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

    /// Returns true if it counts against the site. Every other class says nothing about it.
    ///
    /// KOALA, fault tolerance: an error of a component is charged to its site, a component that
    /// succeeds sets the count to zero, siblings aborted with it count as neither. Nor does an
    /// error of the job's own (vector FT-2): a program that finds its disk full, or a library
    /// missing, fails by itself too, and must not hide a fault of the site. A component stopped
    /// from outside, also at its wall time, may have hung because of the site.
    pub fn charges_site(self) -> bool {
        self == FailureClass::Site
    }

    /// The name in the journal, in answers and in metrics.
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
        let charged: Vec<_> = FailureClass::ALL
            .into_iter()
            .filter(|c| c.charges_site())
            .collect();
        assert_eq!(charged, [FailureClass::Site]);
    }
}
