//! The components of a placed job: their placements and attempts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::acquisition::Acquisition;
use crate::content::Content;
use crate::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, LrmId, SiteName, TargetName};
use crate::job::job_state::{Job, JobPhase};
use crate::job::spec::{ComponentSpec, RequestType};
use crate::placed::Placement;
use crate::resources::{GFLOPS, Resources};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// A component of a placed job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Component {
    /// The placement in this round.
    pub placement: Option<Placement>,
    /// Number of its latest attempt; never used twice.
    pub attempt: Attempt,
    /// The state of the latest attempt.
    pub run: AttemptState,
    /// The time from which on its latest attempt holds processors that are not yet counted as
    /// wasted, by our clock; `None` unless it is known to hold some and its payload has not begun.
    pub held_since: Option<Timestamp>,
    /// True if it lost its processors or gives them back: its attempt is being ended, and it may be
    /// claimed again in the same round.
    pub given_back: bool,
    /// An error of its latest attempt that its site's record does not have yet.
    pub charge: Option<SiteCharge>,
    /// Sites that failed it since it was placed; the next placement avoids them while others can
    /// take it.
    pub avoid: BTreeSet<SiteName>,
    /// Sites whose batch systems refused what it asks for, each with the batch system's words. It
    /// is not placed there again.
    pub unfit_for: BTreeMap<SiteName, Arc<str>>,
    /// States of its outputs that are brought to sites, by position in the specification.
    pub collected: Vec<OutputCollection>,
    /// The latest attempt whose payload began, of this round or an earlier one.
    pub began: Option<BegunAttempt>,
    /// Set while it is restarted alone, from its failure in a running job until its payload begins
    /// again. Also set if it begins later than the others, and its job has started without it.
    pub restart: Option<ComponentRestart>,
    /// The last moment at which its payload may begin with the others of its round, by its site's
    /// clock; set once the start is decided.
    pub start_by: Option<Timestamp>,
    /// The earliest time at which its next attempt is to begin at its site, by our clock: nobody
    /// needs it before.
    pub not_before: Option<Timestamp>,
    /// The control planes that made its attempts where it was not us, one for each import of the
    /// store, in order.
    pub origins: Vec<ImportedAttempts>,
}

/// Attempts that another control plane made, before its store was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportedAttempts {
    /// That control plane.
    pub instance: InstanceId,
    /// The last attempt that it may have made; earlier ones may be of an earlier origin.
    pub last: Attempt,
}

impl Component {
    /// Returns the way in which it gets its processors.
    pub fn acquisition(&self) -> Acquisition {
        self.placement
            .as_ref()
            .map(|placement| placement.acquisition)
            .unwrap_or_default()
    }

    /// Returns true if it is known to wait in its site's own queue.
    pub fn is_queued_at_site(&self) -> bool {
        self.run.is_queued_at_site()
    }

    /// Returns how long it has waited at its gate since the last moment at which it might begin
    /// with the others, by its site's clock; `now` is ours. Zero if that moment is to come.
    pub fn time_waited_past_start(&self, now: Timestamp) -> DurationMs {
        match (&self.run, self.start_by) {
            (
                AttemptState::AtGate {
                    clock: Some(clock), ..
                },
                Some(start_by),
            ) => (now + *clock).since(start_by),
            _ => DurationMs::ZERO,
        }
    }

    /// Returns the instance in the tag of an attempt, given ours.
    pub fn instance_of_attempt(&self, attempt: Attempt, ours: InstanceId) -> InstanceId {
        self.foreign_instance_of(attempt).unwrap_or(ours)
    }

    /// Returns the instance in the tag of an attempt, if it is not ours.
    pub fn foreign_instance_of(&self, attempt: Attempt) -> Option<InstanceId> {
        let origin = self.origins.iter().find(|origin| attempt <= origin.last);
        origin.map(|origin| origin.instance)
    }
}

/// A component that is started again, or for the first time, while the others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentRestart {
    /// The next step.
    pub step: RestartStep,
    /// The time of this step, or of the claim of its processors.
    pub since: Timestamp,
    /// Tries to place or claim it that failed since its payload ended.
    pub tries: u32,
    /// The earliest time of the next try.
    pub not_before: Timestamp,
}

/// The steps of a restarted component on its way to its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartStep {
    /// It has no new site yet: its placement still names the site where it failed.
    ToPlace,
    /// It has a site, and its input is on the way there.
    Staging,
    /// The input is there: its processors can be claimed, or are.
    Staged,
}

/// An attempt whose payload began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunAttempt {
    pub site: SiteName,
    pub attempt: Attempt,
    /// The begin by its site's clock, where the site reports it.
    pub at: Option<Timestamp>,
}

/// The state of an attempt, as far as we know it for certain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AttemptState {
    /// There is no attempt in this round.
    #[default]
    Idle,
    /// It is to be submitted.
    Intended {
        /// The time of the last change.
        at: Timestamp,
    },
    /// It may have been submitted: it is to be looked up by its tag.
    Uncertain {
        /// The time after which the submission cannot take effect.
        settled_at: Timestamp,
        /// Look-ups after that time that did not find it.
        absences: u8,
        /// The earliest time of the next look-up.
        look_at: Timestamp,
    },
    /// The batch system acknowledged it.
    Submitted {
        /// The number that the batch system gave it.
        lrm_id: LrmId,
        /// The time of the acknowledgement.
        at: Timestamp,
        /// Look-ups that did not find it.
        absences: u8,
        /// Set while it waits in its site's own queue; `None` while it is expected to start.
        waits: Option<SiteQueueWait>,
    },
    /// The wrapper waits at the gate.
    AtGate {
        /// The number that the batch system gave it.
        lrm_id: LrmId,
        host: Arc<str>,
        /// The time since when, by our clock.
        since: Timestamp,
        /// The lead of its site's clock over ours, as compared in this epoch. `None`: the server
        /// was down, and the site has not said since that the attempt still waits there.
        clock: Option<ClockSkew>,
    },
    /// The gate is open; the payload is not yet seen to have begun.
    Opened {
        /// The number that the batch system gave it.
        lrm_id: LrmId,
        host: Arc<str>,
        /// The time of the last change.
        at: Timestamp,
    },
    /// The payload runs.
    Running {
        /// The number that the batch system gave it.
        lrm_id: LrmId,
        host: Arc<str>,
        /// The time since when, by our clock.
        since: Timestamp,
    },
    /// It is over, and nothing of it lives.
    Ended {
        how: AttemptEnding,
        /// The time at which we knew.
        at: Timestamp,
    },
}

/// An attempt that waits in its site's own queue, neither starting nor lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteQueueWait {
    /// The time since when, by our clock.
    pub since: Timestamp,
    /// The start that its site expects, by our clock, if it says so.
    pub expected_start: Option<Timestamp>,
    /// The time of the first report of that start; `None` in records of an older version.
    pub told_at: Option<Timestamp>,
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnding {
    /// It succeeded.
    Succeeded,
    /// It failed, with this exit code or signal, or in another way of its own.
    Failed(Arc<str>),
    /// It never ran: refused, void, or never arrived.
    NeverRan(Arc<str>),
    /// The site lost it.
    Lost(Arc<str>),
    /// We ended it.
    Killed,
    /// It was given up: its site did not answer, and the job or its user said not to wait. It may
    /// still run; the site's reconciliation ends it on sight.
    Abandoned,
}

impl AttemptState {
    /// Returns its number in the batch system, where known.
    pub fn lrm_id(&self) -> Option<&LrmId> {
        match self {
            AttemptState::Submitted { lrm_id, .. }
            | AttemptState::AtGate { lrm_id, .. }
            | AttemptState::Opened { lrm_id, .. }
            | AttemptState::Running { lrm_id, .. } => Some(lrm_id),
            AttemptState::Idle
            | AttemptState::Intended { .. }
            | AttemptState::Uncertain { .. }
            | AttemptState::Ended { .. } => None,
        }
    }

    /// Returns true if it waits at its gate, and its site has said so in this epoch.
    pub fn is_confirmed_ready(&self) -> bool {
        matches!(self, AttemptState::AtGate { clock: Some(_), .. })
    }

    /// Returns true if it is known to wait in its site's own queue.
    pub fn is_queued_at_site(&self) -> bool {
        matches!(self, AttemptState::Submitted { waits: Some(_), .. })
    }

    /// Returns true if something of it may exist at the site.
    pub fn may_live(&self) -> bool {
        !matches!(self, AttemptState::Idle | AttemptState::Ended { .. })
    }

    /// Returns true if its payload is known to have begun.
    pub fn has_begun(&self) -> bool {
        match self {
            AttemptState::Running { .. } => true,
            AttemptState::Ended { how, .. } => {
                matches!(how, AttemptEnding::Succeeded | AttemptEnding::Failed(_))
            }
            AttemptState::Idle
            | AttemptState::Intended { .. }
            | AttemptState::Uncertain { .. }
            | AttemptState::Submitted { .. }
            | AttemptState::AtGate { .. }
            | AttemptState::Opened { .. } => false,
        }
    }

    /// Returns its name in answers and tables.
    pub fn as_str(&self) -> &'static str {
        match self {
            AttemptState::Idle => "idle",
            AttemptState::Intended { .. } => "intended",
            AttemptState::Uncertain { .. } => "uncertain",
            AttemptState::Submitted { waits: Some(_), .. } => "waiting-at-site",
            AttemptState::Submitted { .. } => "submitted",
            AttemptState::AtGate { .. } => "at-gate",
            AttemptState::Opened { .. } => "opened",
            AttemptState::Running { .. } => "running",
            AttemptState::Ended { how, .. } => match how {
                AttemptEnding::Succeeded => "succeeded",
                AttemptEnding::Failed(_) => "failed",
                AttemptEnding::NeverRan(_) => "never-ran",
                AttemptEnding::Lost(_) => "lost",
                AttemptEnding::Killed => "killed",
                AttemptEnding::Abandoned => "abandoned",
            },
        }
    }
}

/// An error to be charged to a site, until the site's record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteCharge {
    /// The site.
    pub site: SiteName,
    /// The attempt that failed.
    pub attempt: Attempt,
    /// The fault.
    pub detail: Arc<str>,
}

/// An output on its way to the site that keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputCollection {
    /// The content, once it was read.
    pub content: Option<Content>,
    /// True once its site has it, whole, and the catalogue knows it.
    pub done: bool,
}

impl Job {
    /// Returns the tag of a component's latest attempt, given our instance.
    pub fn latest_tag(&self, ours: InstanceId, index: ComponentIndex) -> AttemptTag {
        let attempt = self
            .components
            .get(index.0 as usize)
            .map_or(Attempt(0), |c| c.attempt);
        self.tag_of(ours, index, attempt)
    }

    /// Returns the tag of one of a component's attempts, given our instance.
    pub fn tag_of(&self, ours: InstanceId, index: ComponentIndex, attempt: Attempt) -> AttemptTag {
        let component = self.components.get(index.0 as usize);
        let instance = component.map_or(ours, |component| {
            component.instance_of_attempt(attempt, ours)
        });
        AttemptTag {
            instance,
            job: self.id,
            component: index,
            attempt,
        }
    }

    /// Iterates over the components with their indexes.
    pub fn indexed_components(&self) -> impl Iterator<Item = (ComponentIndex, &Component)> {
        self.components
            .iter()
            .enumerate()
            .map(|(i, c)| (ComponentIndex(i as u32), c))
    }

    /// Returns the specification of a component: its own, or the one that all components of a
    /// flexible request share.
    pub fn component_spec(&self, index: ComponentIndex) -> Option<&ComponentSpec> {
        match self.spec.request {
            RequestType::Flexible(_) => self.spec.components.first(),
            RequestType::Fixed | RequestType::NonFixed => {
                self.spec.components.get(index.0 as usize)
            }
        }
    }

    /// Iterates over the components with their indexes and specifications.
    pub fn components_with_specs(
        &self,
    ) -> impl Iterator<Item = (ComponentIndex, &Component, &ComponentSpec)> {
        self.indexed_components().filter_map(|(index, component)| {
            self.component_spec(index)
                .map(|spec| (index, component, spec))
        })
    }

    /// Returns the resources that a component takes of its site: as requested, or its share of the
    /// total.
    pub fn resources_of(&self, index: ComponentIndex) -> Option<Resources> {
        Some(self.requested_resources(index)?.without_computing_power())
    }

    /// Returns the computing power that its processors must have together, in GFLOPS.
    pub fn gflops_of(&self, index: ComponentIndex) -> Option<u64> {
        Some(self.requested_resources(index)?.other(GFLOPS))
    }

    fn requested_resources(&self, index: ComponentIndex) -> Option<Resources> {
        let component = self.components.get(index.0 as usize);
        let share = component.and_then(|component| component.placement.as_ref()?.share);
        let asked = &self.component_spec(index)?.resources;
        Some(share.map_or_else(|| asked.clone(), |share| asked.portion_for(share)))
    }

    /// Returns the processors that a component gets at its site.
    pub fn processors_of(&self, index: ComponentIndex) -> u32 {
        let component = self.components.get(index.0 as usize);
        let share = component.and_then(|component| component.placement.as_ref()?.share);
        share.unwrap_or_else(|| {
            self.component_spec(index)
                .map_or(0, |spec| spec.resources.processors)
        })
    }

    /// Returns a component's name; those of a flexible request are numbered from 1.
    pub fn component_name(&self, index: ComponentIndex) -> Option<String> {
        self.spec.component_name(index, self.components.len())
    }

    /// Returns the number of its components; for a flexible request 1 before its first placement.
    pub fn component_count(&self) -> usize {
        self.components.len().max(self.spec.components.len())
    }

    /// Returns true if something of it may live at a site.
    pub fn may_live_anywhere(&self) -> bool {
        self.components
            .iter()
            .any(|component| component.run.may_live())
    }

    /// Counts the different sites of its components.
    pub fn count_sites(&self) -> u32 {
        let placements = self.components.iter().filter_map(|c| c.placement.as_ref());
        placements
            .map(|placement| &placement.site)
            .collect::<BTreeSet<_>>()
            .len() as u32
    }

    /// Returns true if a site has not yet recorded an error of it.
    pub fn has_unrecorded_charges(&self) -> bool {
        self.components
            .iter()
            .any(|component| component.charge.is_some())
    }

    /// Iterates over the receivers to whom its end is still to be reported.
    pub fn pending_end_receivers(&self) -> impl Iterator<Item = &TargetName> {
        let ended = self.is_final();
        self.spec
            .run
            .notify
            .difference(&self.told)
            .filter(move |_| ended)
    }

    /// Returns the time at which it ended, if it has.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            JobPhase::Finished { at }
            | JobPhase::Failed { at, .. }
            | JobPhase::Cancelled { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Iterates over the components of which something may live at one of these sites.
    pub fn components_living_at(
        &self,
        sites: &BTreeSet<SiteName>,
    ) -> impl Iterator<Item = ComponentIndex> {
        let living = self.indexed_components().filter(move |(_, component)| {
            let placement = component.placement.as_ref();
            component.run.may_live()
                && placement.is_some_and(|placement| sites.contains(&placement.site))
        });
        living.map(|(index, _)| index)
    }

    /// Returns true if a component of it has a site, or had one when it ended: a job gets sites for
    /// all components at once, but a component that is restarted alone may have none for a while.
    pub fn is_placed(&self) -> bool {
        !matches!(self.phase, JobPhase::Queued { .. })
            && self
                .components
                .iter()
                .any(|component| component.placement.is_some())
    }

    /// Returns true if nothing can happen to it any more.
    pub fn is_final(&self) -> bool {
        self.phase.kind().is_final()
    }
}
