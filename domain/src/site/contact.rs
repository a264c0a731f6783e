//! Contact with a site. Volatile: each start begins without knowledge.

use crate::units::{DurationMs, Timestamp};

/// The known state of the way to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteContact {
    /// It has not answered since our start, and not failed for long enough either.
    NeverAnswered,
    /// It answers; single failures since are no information.
    Answering {
        /// The latest answer.
        last_at: Timestamp,
    },
    /// It does not answer.
    Unreachable {
        /// The first failure in a row.
        since: Timestamp,
        /// The latest answer since our start.
        last_answer: Option<Timestamp>,
    },
    /// It is there, and refuses our credentials.
    CredentialsExpired { since: Timestamp },
}

/// The result of a query, as far as contact is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SiteQueryOutcome {
    /// The site answered.
    Answered,
    /// No answer, or none that could be read: no information.
    Failed,
    /// It was reached, but is not fit to do anything for us; no wait follows.
    OutOfOrder,
    /// The site refused our credentials.
    CredentialsExpired,
}

/// Says when a site that does not answer counts as unreachable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactParameters {
    /// After this many failed queries in a row ...
    pub unreachable_failures: u32,
    /// ... and this long after the first of them.
    pub unreachable_after: DurationMs,
}

impl Default for ContactParameters {
    fn default() -> Self {
        Self {
            unreachable_failures: 3,
            unreachable_after: DurationMs::from_secs(30),
        }
    }
}

/// Contact with one site, as queries show it. It takes their results in the order in which the
/// queries were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactLog {
    contact: SiteContact,
    failures: u32,
    first_failure: Option<Timestamp>,
    last_answer: Option<Timestamp>,
}

impl Default for ContactLog {
    fn default() -> Self {
        Self {
            contact: SiteContact::NeverAnswered,
            failures: 0,
            first_failure: None,
            last_answer: None,
        }
    }
}

impl ContactLog {
    pub fn contact(&self) -> SiteContact {
        self.contact
    }

    /// Failed queries since the latest answer.
    pub fn failures_in_a_row(&self) -> u32 {
        self.failures
    }

    /// Returns the time since when a site that still counts as answering does not. One failure says
    /// nothing; two in a row are worth showing, long before they decide anything.
    pub fn silent_since(&self) -> Option<Timestamp> {
        let waiting = matches!(
            self.contact,
            SiteContact::NeverAnswered | SiteContact::Answering { .. }
        );
        self.first_failure.filter(|_| waiting && self.failures >= 2)
    }

    /// Takes the result of a query. Returns the contact now, if it is of another kind than before.
    pub fn note_result(
        &mut self,
        result: SiteQueryOutcome,
        parameters: &ContactParameters,
        now: Timestamp,
    ) -> Option<SiteContact> {
        let before = std::mem::discriminant(&self.contact);
        match result {
            SiteQueryOutcome::Answered => {
                self.forget_failures();
                self.last_answer = Some(now);
                self.contact = SiteContact::Answering { last_at: now };
            }
            SiteQueryOutcome::CredentialsExpired => {
                self.forget_failures();
                if !matches!(self.contact, SiteContact::CredentialsExpired { .. }) {
                    self.contact = SiteContact::CredentialsExpired { since: now };
                }
            }
            SiteQueryOutcome::Failed => self.note_failure(parameters, now),
            SiteQueryOutcome::OutOfOrder => {
                let at_once = ContactParameters {
                    unreachable_failures: 0,
                    unreachable_after: DurationMs::ZERO,
                };
                self.note_failure(&at_once, now);
            }
        }
        (std::mem::discriminant(&self.contact) != before).then_some(self.contact)
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        self.first_failure = None;
    }

    fn note_failure(&mut self, parameters: &ContactParameters, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        // A clock that was set back must not put off the decision by that much.
        let first = self.first_failure.map_or(now, |first| first.min(now));
        self.first_failure = Some(first);
        let long_enough = now.since(first) >= parameters.unreachable_after;
        let waiting = matches!(
            self.contact,
            SiteContact::NeverAnswered | SiteContact::Answering { .. }
        );
        if waiting && long_enough && self.failures >= parameters.unreachable_failures {
            self.contact = SiteContact::Unreachable {
                since: first,
                last_answer: self.last_answer,
            };
        }
    }
}

impl SiteContact {
    /// Returns true if the site answers us.
    pub fn is_answering(self) -> bool {
        matches!(self, SiteContact::Answering { .. })
    }

    /// Returns the time since when the site is unreachable, if it is.
    pub fn unreachable_since(self) -> Option<Timestamp> {
        match self {
            SiteContact::Unreachable { since, .. } => Some(since),
            SiteContact::NeverAnswered
            | SiteContact::Answering { .. }
            | SiteContact::CredentialsExpired { .. } => None,
        }
    }

    /// The name in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SiteContact::NeverAnswered => "never-answered",
            SiteContact::Answering { .. } => "answering",
            SiteContact::Unreachable { .. } => "unreachable",
            SiteContact::CredentialsExpired { .. } => "credentials-expired",
        }
    }
}

#[cfg(test)]
#[path = "contact_tests.rs"]
mod tests;
