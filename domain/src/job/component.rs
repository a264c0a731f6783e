//! The components of a placed job: where they go, and what their attempts are doing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::acquire::Acquisition;
use crate::content::Content;
use crate::ids::{Attempt, AttemptTag, ComponentIndex, InstanceId, LrmId, SiteName, TargetName};
use crate::job::spec::{ComponentSpec, RequestType};
use crate::job::state::{Job, JobPhase};
use crate::placed::Placement;
use crate::planted::{Bug, bug};
use crate::resources::{GFLOPS, Resources};
use crate::units::{ClockSkew, DurationMs, Timestamp};

/// One component of a placed job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Component {
    /// Where it goes in this round.
    pub placement: Option<Placement>,
    /// Number of its latest attempt; never used twice.
    pub attempt: Attempt,
    /// What its latest attempt is doing.
    pub run: AttemptState,
    /// From when on its latest attempt holds processors, by our clock, and that is not counted as
    /// wasted yet; `None` unless it is known to hold some and its payload has not begun.
    pub held_since: Option<Timestamp>,
    /// It lost its processors or gives them back: its attempt is being ended, and it may be
    /// claimed again in the same round.
    pub given_back: bool,
    /// Its latest attempt is owed to its site's record: an error to charge.
    pub charge: Option<SiteCharge>,
    /// Sites where it failed through the site since it was placed; avoided at the next
    /// placement while others can hold it.
    pub avoid: BTreeSet<SiteName>,
    /// Its outputs that are brought to sites, by position in the specification.
    pub collected: Vec<Collected>,
    /// Its latest attempt whose payload began, of this round or an earlier one.
    pub began: Option<Began>,
    /// It failed while the job ran, and is restarted alone; until its payload begins anew. Or it
    /// begins later than the others, and its job has started without it.
    pub restart: Option<Restart>,
    /// The last moment at which its payload may begin with the others of its round, by its
    /// site's clock; known once the start is decided.
    pub start_by: Option<Timestamp>,
    /// Its next attempt is to begin at its site no earlier than this, by our clock: nobody needs
    /// it before.
    pub not_before: Option<Timestamp>,
    /// Who made its attempts where it was not us: each time the store was imported, in order.
    pub origins: Vec<AttemptOrigin>,
}

/// Attempts that another control plane made, before its store was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptOrigin {
    /// That control plane.
    pub instance: InstanceId,
    /// The last attempt that it may have made; earlier ones may be of an earlier origin.
    pub last: Attempt,
}

impl Component {
    /// How it gets its processors.
    pub fn acquisition(&self) -> Acquisition {
        self.placement
            .as_ref()
            .map(|placement| placement.acquisition)
            .unwrap_or_default()
    }

    /// Whether it waits in its site's own queue, as is meant.
    pub fn waits_at_site(&self) -> bool {
        self.run.waits_at_site()
    }

    /// For how long it has waited at its gate since the last moment at which it might begin
    /// with the others, by its site's clock; `now` is ours. Zero if that is to come.
    pub fn past_start(&self, now: Timestamp) -> DurationMs {
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

    /// Whose tag an attempt carries, given ours.
    pub fn instance_of(&self, attempt: Attempt, ours: InstanceId) -> InstanceId {
        self.origin_of(attempt).unwrap_or(ours)
    }

    /// Whose tag an attempt carries, if it is not ours.
    pub fn origin_of(&self, attempt: Attempt) -> Option<InstanceId> {
        let origin = self.origins.iter().find(|origin| attempt <= origin.last);
        origin.map(|origin| origin.instance)
    }
}

/// A component on its way to run again, or for the first time, while the others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// How far it is.
    pub step: RestartStep,
    /// When it came to this step, or when its processors were claimed.
    pub since: Timestamp,
    /// Tries to find or to claim processors that failed since its payload ended.
    pub tries: u32,
    /// No try before.
    pub not_before: Timestamp,
}

/// How far a restarted component is on its way to its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartStep {
    /// It has no site yet: the one where it failed is only remembered.
    ToPlace,
    /// It has a site, and its input is on the way there.
    Staging,
    /// Its input is there: its processors can be claimed, or are.
    Staged,
}

/// An attempt whose payload began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Began {
    /// Where.
    pub site: SiteName,
    /// Which.
    pub attempt: Attempt,
    /// When, by its site's clock, where the site says so.
    pub at: Option<Timestamp>,
}

/// What an attempt is doing, as far as we know it for certain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AttemptState {
    /// There is no attempt in this round.
    #[default]
    Idle,
    /// To be submitted.
    Intended {
        /// Since when.
        at: Timestamp,
    },
    /// Perhaps submitted: to be looked up by its tag.
    Uncertain {
        /// The submission cannot take effect after this time.
        settled_at: Timestamp,
        /// Times it was asked for after that and was not there.
        absences: u8,
        /// Not asked again before.
        look_at: Timestamp,
    },
    /// Acknowledged by the resource manager.
    Submitted {
        /// Its number there.
        lrm_id: LrmId,
        /// When it was acknowledged.
        at: Timestamp,
        /// Times it was asked for and was not there.
        absences: u8,
        /// It waits in its site's queue, as is meant; `None` while it is expected to start.
        waits: Option<Waits>,
    },
    /// Its wrapper waits at the gate.
    AtGate {
        /// Its number there.
        lrm_id: LrmId,
        /// Its host.
        host: Arc<str>,
        /// Since when, by our clock.
        since: Timestamp,
        /// How far its site's clock is ahead of ours, as compared in this life of ours. `None`:
        /// we were away, and the site has not said since that it still waits there.
        clock: Option<ClockSkew>,
    },
    /// Its gate is open; it is not yet seen to have begun.
    Opened {
        /// Its number there.
        lrm_id: LrmId,
        /// Its host.
        host: Arc<str>,
        /// Since when.
        at: Timestamp,
    },
    /// Its payload runs.
    Running {
        /// Its number there.
        lrm_id: LrmId,
        /// Its host.
        host: Arc<str>,
        /// Since when, by our clock.
        since: Timestamp,
    },
    /// It is over, and nothing of it lives.
    Ended {
        /// How.
        how: AttemptEnding,
        /// When we knew.
        at: Timestamp,
    },
}

/// An attempt that waits in its site's own queue, and is neither starting nor lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Since when, by our clock.
    pub since: Timestamp,
    /// When its site expects to start it, by our clock, if it says so.
    pub expected_start: Option<Timestamp>,
    /// When the site was first heard to say that; `None` where an older version noted it.
    pub told_at: Option<Timestamp>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnding {
    /// With success.
    Succeeded,
    /// With this exit code or signal, or another way of its own.
    Failed(Arc<str>),
    /// It never ran: refused, void, or never arrived.
    NeverRan(Arc<str>),
    /// The site lost it.
    Lost(Arc<str>),
    /// We ended it.
    Killed,
    /// Its site did not answer, and the job or its user said not to wait. It may still run;
    /// the site's reconciliation ends it on sight.
    Abandoned,
}

impl AttemptState {
    /// The resource manager's number, where known.
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

    /// Whether it waits at its gate, as its site has said since we were away.
    pub fn is_confirmed_ready(&self) -> bool {
        matches!(self, AttemptState::AtGate { clock: Some(_), .. })
    }

    /// Whether it waits in its site's own queue, as is meant.
    pub fn waits_at_site(&self) -> bool {
        matches!(self, AttemptState::Submitted { waits: Some(_), .. })
    }

    /// Whether something of it may exist at the site.
    pub fn may_live(&self) -> bool {
        !matches!(self, AttemptState::Idle | AttemptState::Ended { .. })
    }

    /// Whether its payload is known to have begun.
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

    /// Its name in answers and tables.
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
    /// What happened.
    pub detail: Arc<str>,
}

/// An output on its way to the site that keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collected {
    /// Its content, once it was read.
    pub content: Option<Content>,
    /// The target has it, whole, and the catalogue knows it.
    pub done: bool,
}

impl Job {
    /// The tag of a component's latest attempt, given our instance.
    pub fn tag(&self, ours: InstanceId, index: ComponentIndex) -> AttemptTag {
        let attempt = self
            .components
            .get(index.0 as usize)
            .map_or(Attempt(0), |c| c.attempt);
        self.tag_of(ours, index, attempt)
    }

    /// The tag of one of a component's attempts, given our instance.
    pub fn tag_of(&self, ours: InstanceId, index: ComponentIndex, attempt: Attempt) -> AttemptTag {
        let component = self.components.get(index.0 as usize);
        let instance = component.map_or(ours, |component| component.instance_of(attempt, ours));
        AttemptTag {
            instance,
            job: self.id,
            component: index,
            attempt,
        }
    }

    /// Components with their indexes.
    pub fn indexed(&self) -> impl Iterator<Item = (ComponentIndex, &Component)> {
        self.components
            .iter()
            .enumerate()
            .map(|(i, c)| (ComponentIndex(i as u32), c))
    }

    /// What was asked for a component: its own description, or the one that all
    /// components of a flexible request share.
    pub fn spec_of(&self, index: ComponentIndex) -> Option<&ComponentSpec> {
        match self.spec.request {
            RequestType::Flexible(_) => self.spec.components.first(),
            RequestType::Fixed | RequestType::NonFixed => {
                self.spec.components.get(index.0 as usize)
            }
        }
    }

    /// Components with their indexes and what was asked for each.
    pub fn specified(&self) -> impl Iterator<Item = (ComponentIndex, &Component, &ComponentSpec)> {
        self.indexed().filter_map(|(index, component)| {
            self.spec_of(index).map(|spec| (index, component, spec))
        })
    }

    /// What a component takes of its site: as asked for, or its share of the total.
    pub fn resources_of(&self, index: ComponentIndex) -> Option<Resources> {
        Some(self.asked_of(index)?.countable())
    }

    /// What its processors must do together, in GFLOPS.
    pub fn gflops_of(&self, index: ComponentIndex) -> Option<u64> {
        Some(self.asked_of(index)?.other(GFLOPS))
    }

    fn asked_of(&self, index: ComponentIndex) -> Option<Resources> {
        let component = self.components.get(index.0 as usize);
        let share = component.and_then(|component| component.placement.as_ref()?.share);
        let asked = &self.spec_of(index)?.resources;
        let share = share.filter(|_| !bug(Bug::SplitAsWhole));
        Some(share.map_or_else(|| asked.clone(), |share| asked.portion(share)))
    }

    /// Processors that a component gets at its site.
    pub fn processors_of(&self, index: ComponentIndex) -> u32 {
        let component = self.components.get(index.0 as usize);
        let share = component.and_then(|component| component.placement.as_ref()?.share);
        share.unwrap_or_else(|| {
            self.spec_of(index)
                .map_or(0, |spec| spec.resources.processors)
        })
    }

    /// A component's name; those of a flexible request are numbered from 1.
    pub fn name_of(&self, index: ComponentIndex) -> Option<String> {
        self.spec.name_of(index, self.components.len())
    }

    /// How many components it has; of a flexible request 1 before its first placement.
    pub fn component_count(&self) -> usize {
        self.components.len().max(self.spec.components.len())
    }

    /// Whether something of it may live at a site.
    pub fn may_live_anywhere(&self) -> bool {
        self.components
            .iter()
            .any(|component| component.run.may_live())
    }

    /// Different sites of its components.
    pub fn sites_combined(&self) -> u32 {
        let placements = self.components.iter().filter_map(|c| c.placement.as_ref());
        placements
            .map(|placement| &placement.site)
            .collect::<BTreeSet<_>>()
            .len() as u32
    }

    /// Whether a site's record is still to have an error of it.
    pub fn owes_charges(&self) -> bool {
        self.components
            .iter()
            .any(|component| component.charge.is_some())
    }

    /// Who is still to be told that it has ended.
    pub fn untold(&self) -> impl Iterator<Item = &TargetName> {
        let ended = self.is_final();
        self.spec
            .run
            .notify
            .difference(&self.told)
            .filter(move |_| ended)
    }

    /// When it ended, if it has.
    pub fn ended_at(&self) -> Option<Timestamp> {
        match self.phase {
            JobPhase::Finished { at }
            | JobPhase::Failed { at, .. }
            | JobPhase::Cancelled { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Components of which something may live at one of these sites.
    pub fn living_at(&self, sites: &BTreeSet<SiteName>) -> impl Iterator<Item = ComponentIndex> {
        let there = |component: &Component| {
            let placement = component.placement.as_ref();
            placement.is_some_and(|placement| sites.contains(&placement.site))
        };
        let living = self
            .indexed()
            .filter(move |(_, c)| c.run.may_live() && there(c));
        living.map(|(index, _)| index)
    }

    /// Whether a component of it has a site, or had one when it ended: a job has sites for all
    /// of them at once, but one that is restarted alone may have none for a while.
    pub fn is_placed(&self) -> bool {
        !matches!(self.phase, JobPhase::Queued { .. })
            && self
                .components
                .iter()
                .any(|component| component.placement.is_some())
    }

    /// Whether nothing can happen to it any more.
    pub fn is_final(&self) -> bool {
        self.phase.kind().is_final()
    }
}
