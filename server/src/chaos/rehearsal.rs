//! A rehearsal: its plan with everything filled in, its start, and its end.

use std::collections::BTreeMap;
use std::time::Duration;

use cospan_domain::ids::{KeyName, SiteName};
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_simulator::fault_kinds::FaultKind;
use cospan_sites::faulty_site::{FaultInjection, InjectedFault};
use cospan_sites::port::SiteCallKind;
use tokio::time::Instant;

use super::injectable_faults;
use super::plan_check::find_call;
use super::rehearsal_effects::RehearsalEffects;
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{ChaosPlan, InjectionPlan, InjectionReport, RehearsalReport};

/// A fault of a rehearsal.
#[derive(Debug, Clone)]
struct RehearsalFault {
    kind: FaultKind,
    fault: InjectedFault,
    sites: Vec<SiteName>,
    calls: Vec<SiteCallKind>,
    probability: f64,
    delay: Option<DurationMs>,
    from: Timestamp,
    until: Timestamp,
}

/// The end of a rehearsal.
#[derive(Debug, Clone)]
pub(super) struct RehearsalEnd {
    pub(super) at: Timestamp,
    /// The key that ended it; `None` if its time was over.
    pub(super) by: Option<KeyName>,
}

/// A rehearsal.
#[derive(Debug)]
pub(super) struct Rehearsal {
    /// Number that tells this rehearsal from those before and after it.
    pub(super) number: u64,
    pub(super) by: KeyName,
    seed: u64,
    parts: Vec<RehearsalFault>,
    pub(super) begun_at: Timestamp,
    pub(super) ends_at: Timestamp,
    pub(super) ended: Option<RehearsalEnd>,
    pub(super) recovered_at: Option<Timestamp>,
    pub(super) deeds: RehearsalEffects,
    /// Errors charged to each site before it began.
    pub(super) charged_before: BTreeMap<SiteName, u64>,
    /// Injected faults that the metrics have counted, by site and kind of fault.
    pub(super) counted: BTreeMap<(SiteName, &'static str), u64>,
}

impl Rehearsal {
    /// Creates the rehearsal of a valid plan that begins now.
    pub(super) fn new(plan: &ChaosPlan, seed: u64, by: KeyName, now: Timestamp) -> Self {
        let ends_at = now + plan.lasting.0;
        Self {
            number: 0,
            by,
            seed,
            parts: plan
                .inject
                .iter()
                .filter_map(|injection| RehearsalFault::of(injection, now, ends_at))
                .collect(),
            begun_at: now,
            ends_at,
            ended: None,
            recovered_at: None,
            deeds: RehearsalEffects::default(),
            charged_before: BTreeMap::new(),
            counted: BTreeMap::new(),
        }
    }

    /// Lists the sites of the rehearsal, each once.
    pub(super) fn rehearsed_sites(&self) -> std::collections::BTreeSet<&SiteName> {
        self.parts.iter().flat_map(|part| &part.sites).collect()
    }

    /// Lists the injections at one site, for a rehearsal that begins at `instant`.
    pub(super) fn injections_at(&self, site: &SiteName, instant: Instant) -> Vec<FaultInjection> {
        let here = self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.sites.contains(site));
        here.map(|(index, part)| FaultInjection {
            name: part.kind.as_str(),
            fault: part.fault,
            calls: part.calls.clone(),
            share_ppm: (part.probability * 1e6).ceil() as u32,
            from: instant + Duration::from_millis(part.from.since(self.begun_at).0),
            until: instant + Duration::from_millis(part.until.since(self.begun_at).0),
            seed: self.seed_at(site, index),
        })
        .collect()
    }

    /// Derives a seed, so that no two sites and no two faults draw alike.
    fn seed_at(&self, site: &SiteName, index: usize) -> u64 {
        let hash = blake3::hash(format!("{}/{index}/{site}", self.seed).as_bytes());
        hash.as_bytes()
            .iter()
            .take(8)
            .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
    }

    fn is_active(&self, part: &RehearsalFault, now: Timestamp) -> bool {
        self.ended.is_none() && part.from <= now && now < part.until
    }

    /// Counts the faults that are being injected now.
    pub(super) fn count_active(&self, now: Timestamp) -> usize {
        self.parts
            .iter()
            .filter(|part| self.is_active(part, now))
            .count()
    }

    /// Lists the faults that are being injected at a site now.
    pub(super) fn faults_at(&self, site: &str, now: Timestamp) -> Vec<&'static str> {
        let striking = self
            .parts
            .iter()
            .filter(|part| self.is_active(part, now))
            .filter(|part: &&RehearsalFault| part.sites.iter().any(|name| name.as_str() == site));
        striking.map(|part| part.kind.as_str()).collect()
    }

    /// Formats the faults in one line, for the log.
    pub(super) fn format_faults(&self) -> String {
        self.parts
            .iter()
            .map(|part: &RehearsalFault| {
                let sites: Vec<&str> = part.sites.iter().map(SiteName::as_str).collect();
                format!(
                    "{} with probability {} at {}",
                    part.kind.as_str(),
                    part.probability,
                    sites.join(", ")
                )
            })
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Formats the numbers of injected faults in one line, for the log.
    pub(super) fn format_injected(&self) -> String {
        let struck = self.counted.iter().filter(|(_, count)| **count > 0);
        let all: Vec<String> = struck
            .map(|((site, kind), count): (&(SiteName, &str), &u64)| {
                format!("{count} {kind} at {site}")
            })
            .collect();
        if all.is_empty() {
            "nothing".into()
        } else {
            all.join(", ")
        }
    }

    /// Reports as the interface shows it.
    pub(super) fn report(&self, now: Timestamp) -> RehearsalReport {
        RehearsalReport {
            by: self.by.to_string(),
            seed: self.seed,
            begun_at: self.begun_at.into(),
            ends_at: self.ends_at.into(),
            ended_at: self.ended.as_ref().map(|end| end.at.into()),
            stopped_by: self
                .ended
                .as_ref()
                .and_then(|end| Some(end.by.as_ref()?.to_string())),
            injections: self
                .parts
                .iter()
                .map(|part| self.injection_report(part, now))
                .collect(),
        }
    }

    fn injection_report(&self, part: &RehearsalFault, now: Timestamp) -> InjectionReport {
        let state = if self.is_active(part, now) {
            "striking"
        } else if self.ended.is_none() && now < part.from {
            "waiting"
        } else {
            "over"
        };
        InjectionReport {
            state: state.into(),
            sites: part.sites.iter().map(SiteName::to_string).collect(),
            fault: part.kind.as_str().into(),
            calls: part
                .calls
                .iter()
                .map(|call| call.as_str().to_owned())
                .collect(),
            probability: part.probability,
            from: part.from.into(),
            until: part.until.into(),
            delay: part.delay.map(Length),
        }
    }
}

impl RehearsalFault {
    /// Returns `None` only for a plan that was not judged.
    fn of(plan: &InjectionPlan, begun_at: Timestamp, ends_at: Timestamp) -> Option<Self> {
        let kind = injectable_faults::find_kind(&plan.fault)?;
        let delay = plan.delay.map(|Length(delay)| delay);
        let from = begun_at + plan.after.map_or(DurationMs::ZERO, |Length(after)| after);
        let until = plan
            .lasting
            .map_or(ends_at, |Length(lasting)| from + lasting);
        let named = plan
            .calls
            .iter()
            .filter_map(|call| find_call(call))
            .collect();
        Some(Self {
            kind,
            fault: injectable_faults::fault_of_kind(
                kind,
                Duration::from_millis(delay.unwrap_or_default().0),
            )?,
            sites: plan
                .sites
                .iter()
                .filter_map(|site| SiteName::new(site).ok())
                .collect(),
            calls: if plan.calls.is_empty() {
                injectable_faults::affected_calls(kind)
            } else {
                named
            },
            probability: plan.probability,
            delay,
            from,
            until: until.min(ends_at),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Timestamp = Timestamp(1_000_000);

    fn secs(secs: u64) -> Length {
        Length(DurationMs::from_secs(secs))
    }

    /// Two sites for ten minutes, from one minute on for two.
    fn rehearsal() -> Rehearsal {
        let one = InjectionPlan {
            sites: vec!["delft".into(), "leiden".into()],
            fault: "late".into(),
            calls: Vec::new(),
            probability: 0.25,
            after: Some(secs(60)),
            lasting: Some(secs(120)),
            delay: Some(secs(5)),
        };
        let whole = InjectionPlan {
            after: None,
            lasting: Some(secs(9_999)),
            ..one.clone()
        };
        let plan = ChaosPlan {
            lasting: secs(600),
            seed: None,
            inject: vec![one, whole],
        };
        Rehearsal::new(&plan, 7, "drill".parse().unwrap(), BEGIN)
    }

    #[test]
    fn faults_strike_in_their_windows_and_never_beyond_the_end() {
        let mut rehearsal = rehearsal();
        let active = |r: &Rehearsal, after| r.count_active(BEGIN + secs(after).0);
        let at = [0, 59, 60, 179, 180, 599, 600];
        let counts = at.map(|after| active(&rehearsal, after));
        assert_eq!(counts, [1, 1, 2, 2, 1, 1, 0]);
        assert_eq!(rehearsal.faults_at("delft", BEGIN), ["late"]);
        assert!(rehearsal.faults_at("utrecht", BEGIN).is_empty());
        rehearsal.ended = Some(RehearsalEnd {
            at: BEGIN,
            by: None,
        });
        assert_eq!(active(&rehearsal, 60), 0);
        let report = rehearsal.report(BEGIN);
        assert!(report.injections.iter().all(|one| one.state == "over"));
    }

    #[test]
    fn each_site_and_each_fault_draws_for_itself_and_alike_every_time() {
        let now = Instant::now();
        let injections = |site: &str| rehearsal().injections_at(&site.parse().unwrap(), now);
        let delft = injections("delft");
        let leiden = injections("leiden");
        assert_eq!(delft, injections("delft"));
        let seeds: std::collections::BTreeSet<u64> =
            delft.iter().chain(&leiden).map(|one| one.seed).collect();
        assert_eq!(seeds.len(), 4);
        assert_eq!(delft[0].share_ppm, 250_000);
        assert_eq!(delft[0].from, now + Duration::from_secs(60));
        assert_eq!(delft[1].until, now + Duration::from_secs(600));
        assert!(injections("utrecht").is_empty());
    }
}
