//! Checks of a plan: finds every flaw, each with its place and a remedy. The command line and the
//! server use the same checks.

use cospan_domain::units::DurationMs;
use cospan_simulator::fault_kinds::FaultKind;
use cospan_sites::port::SiteCallKind;

use super::injectable_faults;
use crate::config::nearest_name;
use cospan_api::v1::Length;
use cospan_api::v1::chaos::{ChaosStatus, InjectionPlan};

/// Most faults of one plan.
const INJECTIONS_MAX: usize = 64;
/// Largest delay of an answer: no call waits longer.
const DELAY_MAX: DurationMs = DurationMs::from_secs(60);

/// The bounds for plans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanBounds {
    /// All sites.
    pub sites: Vec<String>,
    /// Longest rehearsal.
    pub max_duration: DurationMs,
    /// Largest number of sites in one rehearsal.
    pub max_sites: u32,
}

impl From<ChaosStatus> for PlanBounds {
    fn from(status: ChaosStatus) -> Self {
        let ChaosStatus {
            sites,
            max_duration: Length(max_duration),
            max_sites,
            ..
        } = status;
        Self {
            sites,
            max_duration,
            max_sites,
        }
    }
}

/// A flaw of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFlaw {
    /// The place of the flaw: `for`, `inject[0].sites`.
    pub place: String,
    /// The problem in words.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

/// Judges a plan of this length, given the injections that could be read, with their places.
pub(super) fn find_plan_flaws(
    lasting: DurationMs,
    injections: &[(usize, InjectionPlan)],
    grounds: &PlanBounds,
) -> Vec<PlanFlaw> {
    let mut judge = PlanChecker {
        grounds,
        lasting,
        index: 0,
        flaws: Vec::new(),
    };
    judge.check_overall(injections);
    for (index, injection) in injections {
        judge.index = *index;
        judge.check_sites(injection);
        judge.check_kind(injection);
        judge.check_times(injection);
    }
    judge.flaws
}

struct PlanChecker<'g> {
    grounds: &'g PlanBounds,
    lasting: DurationMs,
    /// Index of the injection that is being judged.
    index: usize,
    flaws: Vec<PlanFlaw>,
}

impl PlanChecker<'_> {
    fn add_flaw(&mut self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) {
        let place = format!("inject[{}].{key}", self.index);
        let problem = format!(
            "{key} of [[inject]] number {}: {}",
            self.index + 1,
            problem.into()
        );
        self.flaws.push(PlanFlaw {
            place,
            problem,
            remedy: remedy.into(),
        });
    }

    fn add_plan_flaw(&mut self, key: &str, problem: String, remedy: String) {
        self.flaws.push(PlanFlaw {
            place: key.into(),
            problem,
            remedy,
        });
    }

    fn check_overall(&mut self, injections: &[(usize, InjectionPlan)]) {
        let most = self.grounds.max_duration;
        if self.lasting == DurationMs::ZERO {
            let problem = "the rehearsal has no duration".to_owned();
            self.add_plan_flaw("for", problem, "give for = \"10m\", or --for 10m".into());
        } else if self.lasting > most {
            let asked = Length(self.lasting);
            let most = Length(most);
            let problem =
                format!("{asked} is longer than a rehearsal may take here, which is {most}");
            let remedy = "shorten it, or raise max_duration in [chaos] of the server";
            self.add_plan_flaw("for", problem, remedy.into());
        }
        if injections.len() > INJECTIONS_MAX {
            let problem = format!("the plan has {} [[inject]]", injections.len());
            self.add_plan_flaw("inject", problem, format!("give at most {INJECTIONS_MAX}"));
        }
        let mut struck: Vec<&String> = injections
            .iter()
            .flat_map(|(_, one)| &one.sites)
            .filter(|site: &&String| self.grounds.sites.contains(site))
            .collect();
        struck.sort();
        struck.dedup();
        let count = struck.len();
        let most = self.grounds.max_sites;
        if count > most as usize {
            let problem = format!(
                "the plan injects faults into {count} of {} sites; at most {most} are allowed here",
                self.grounds.sites.len()
            );
            let remedy = "name fewer sites, or raise max_sites_percent in [chaos] of the server";
            self.add_plan_flaw("inject", problem, remedy.into());
        }
    }

    fn check_sites(&mut self, injection: &InjectionPlan) {
        let known = self.grounds.sites.clone();
        if injection.sites.is_empty() {
            self.add_flaw(
                "sites",
                "none is named",
                format!("there are: {}", known.join(", ")),
            );
        }
        for unknown in injection.sites.iter().filter(|site| !known.contains(site)) {
            let remedy = suggest_name(unknown, known.iter().map(String::as_str));
            self.add_flaw("sites", format!("there is no site {unknown:?}"), remedy);
        }
    }

    fn check_kind(&mut self, injection: &InjectionPlan) {
        let InjectionPlan {
            fault,
            calls,
            probability,
            ..
        } = injection;
        let kind = injectable_faults::find_kind(fault);
        if kind.is_none() {
            let remedy = suggest_name(
                fault,
                injectable_faults::injectable_kinds().map(FaultKind::as_str),
            );
            self.add_flaw("fault", format!("there is no fault {fault:?}"), remedy);
        }
        for name in calls {
            let Some(call) = find_call(name) else {
                let remedy = suggest_name(name, SiteCallKind::ALL.map(SiteCallKind::as_str));
                self.add_flaw(
                    "calls",
                    format!("there is no kind of call {name:?}"),
                    remedy,
                );
                continue;
            };
            if let Some(kind) = kind.filter(|kind| !injectable_faults::can_affect(*kind, call)) {
                let able: Vec<&str> = injectable_faults::affected_calls(kind)
                    .into_iter()
                    .map(SiteCallKind::as_str)
                    .collect();
                let remedy = format!("it strikes: {}", able.join(", "));
                self.add_flaw("calls", format!("{fault} cannot strike {name}"), remedy);
            }
        }
        // Not `<= 0`: a NaN is wrong, too.
        if !(*probability > 0.0 && *probability <= 1.0) {
            let problem = format!("{probability} is not a share of calls");
            self.add_flaw(
                "probability",
                problem,
                "give a number above 0 and at most 1",
            );
        }
    }

    fn check_times(&mut self, injection: &InjectionPlan) {
        let after = injection
            .after
            .map_or(DurationMs::ZERO, |Length(after)| after);
        if after >= self.lasting && self.lasting > DurationMs::ZERO {
            let problem = format!(
                "it would begin {} after the rehearsal, which takes {}",
                Length(after),
                Length(self.lasting)
            );
            self.add_flaw("after", problem, "begin earlier, or rehearse for longer");
        }
        if injection.lasting == Some(Length(DurationMs::ZERO)) {
            self.add_flaw(
                "lasting",
                "it has no duration",
                "give a length of time like \"2m\"",
            );
        }
        let late = injection.fault == FaultKind::Late.as_str();
        match injection.delay {
            None if late => {
                self.add_flaw(
                    "delay",
                    "it is not given",
                    "say how late answers come: delay = \"5s\"",
                );
            }
            Some(_) if !late && injectable_faults::find_kind(&injection.fault).is_some() => {
                let problem = format!("{} has none", injection.fault);
                self.add_flaw(
                    "delay",
                    problem,
                    "leave it out, or choose the fault \"late\"",
                );
            }
            Some(Length(delay)) if delay > DELAY_MAX => {
                let problem = format!("{} is later than any call waits", Length(delay));
                self.add_flaw(
                    "delay",
                    problem,
                    format!("give at most {}", Length(DELAY_MAX)),
                );
            }
            _ => {}
        }
    }
}

/// Returns the kind of call with this name.
pub(super) fn find_call(name: &str) -> Option<SiteCallKind> {
    SiteCallKind::ALL
        .into_iter()
        .find(|call| call.as_str() == name)
}

/// Suggests a remedy for a wrong name: the nearest known name, or all of them.
fn suggest_name<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest_name(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there are: {}", known.join(", ")),
    }
}
