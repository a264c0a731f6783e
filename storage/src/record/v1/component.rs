//! Components of a placed job, and the states of their attempts.

use std::sync::Arc;

use cospan_domain::acquisition::{self, Acquisition as DomainAcquisition};
use cospan_domain::ids::{InstanceId, LrmId, PolicyName, SiteName};
use cospan_domain::job::job_state::{self, AttemptEnding, AttemptState, RestartStep as DomainStep};
use cospan_domain::placed::{self, PlacementRule, ReasonCode as DomainCode};

use super::convert::{TextValue, WireConversion, wire_enum, wire_inner, wire_struct};
use super::spec::{Chunk, Content, QueueLimits};

wire_struct!(Component = job_state::Component {
    run: Run;
    placement: Option<Placement>,
    attempt: u32,
    given_back: bool,
    charge: Option<Charge>,
    avoid: Vec<TextValue<SiteName>>,
    collected: Vec<Collected>,
    began: Option<Began>,
    restart: Option<Restart>,
    start_by: Option<u64>,
    not_before: Option<u64>,
    held_since: Option<u64>,
    origins: Vec<Origin>,
    unfit_for: Vec<(TextValue<SiteName>, Arc<str>)>,
});

wire_struct!(Origin = job_state::ImportedAttempts { instance: TextValue<InstanceId>, last: u32 });

wire_struct!(Restart = job_state::ComponentRestart {
    step: RestartStep,
    since: u64;
    tries: u32,
    not_before: u64,
});
wire_enum!(
    RestartStep = DomainStep {
        ToPlace,
        Staging,
        Staged
    }
);

wire_struct!(Began = job_state::BegunAttempt { site: TextValue<SiteName>, attempt: u32; at: Option<u64> });

wire_struct!(Placement = placed::Placement {
    site: TextValue<SiteName>,
    transfer_time: u64;
    sources: Vec<Source>,
    share: Option<u32>,
    acquisition: Acquisition,
});
wire_enum!(Acquisition = DomainAcquisition { ClaimNow, Queue(QueueLimits), Reserved(Promised) });
wire_struct!(Promised = acquisition::UsedReservation {
    serial: u32,
    from: u64,
    to: u64;
    shared: bool,
});

impl Default for Acquisition {
    fn default() -> Self {
        DomainAcquisition::default().to_wire()
    }
}

wire_struct!(PlacedBy = placed::PlacementOrigin {
    policy: TextValue<PolicyName>,
    rule: Rule;
    refused: Option<DominantRefusal>,
});
wire_struct!(
    DominantRefusal = placed::DominantRefusal {
        code: ReasonCode,
        sites: u32
    }
);
wire_enum!(
    ReasonCode = DomainCode {
        NotEnoughIdle,
        Reserved,
        QuotaReached,
        SiteFull,
        Waited,
        StagingFull,
        Avoided,
        OwnerKeptOff,
        NoSplit,
        NotInHistory,
        NoBandwidth,
        ReplicaUnreachable,
        NoReplica,
        Probing,
        Isolated,
        SiteUnreachable,
        SiteUnknown,
        Maintenance,
        Frozen,
        Draining,
        Drained,
        CredentialsExpired,
        SiteUnusable,
        QueueOnly,
        NoQueue,
        QuotaTooSmall,
        TooSmall,
        TooLong,
        NoGflops,
        LabelMismatch,
        RefusedByBatchSystem,
        ForOtherKeys,
        NoSuchSite,
        NotTheNamedSite,
        NoSites,
        PolicyUnsuited,
        PolicyUnknown,
    }
);
wire_enum!(
    Rule = PlacementRule {
        NamedSite,
        MostLeft,
        AtFiles,
        NearestPair,
        FirstInOrder,
        BestConnected,
        LargestFilled,
        FirstSplit,
        Nearest,
    }
);

wire_struct!(Source = placed::ContentSource {
    content: Content,
    from: TextValue<SiteName>;
    chunk: Option<Chunk>,
});

wire_enum!(Run = AttemptState {
    Idle,
    Intended { at: u64 },
    Uncertain { settled_at: u64, absences: u8, look_at: u64 },
    Submitted { lrm_id: TextValue<LrmId>, at: u64, absences: u8, waits: Option<Waits> },
    AtGate { lrm_id: TextValue<LrmId>, host: Arc<str>, since: u64, clock: Option<i64> },
    Opened { lrm_id: TextValue<LrmId>, host: Arc<str>, at: u64 },
    Running { lrm_id: TextValue<LrmId>, host: Arc<str>, since: u64 },
    Ended { how: Ending, at: u64 },
});

wire_struct!(Waits = job_state::SiteQueueWait { since: u64; expected_start: Option<u64>, told_at: Option<u64> });

wire_enum!(Ending = AttemptEnding {
    Succeeded,
    Failed(Arc<str>),
    NeverRan(Arc<str>),
    Lost(Arc<str>),
    Killed,
    Abandoned,
});

wire_struct!(Charge = job_state::SiteCharge { site: TextValue<SiteName>, attempt: u32, detail: Arc<str> });
wire_struct!(Collected = job_state::OutputCollection { ; content: Option<Content>, done: bool });

/// Returns an upper bound of the bytes that a component takes as written; fast.
pub(crate) fn max_written_bytes(component: &job_state::Component) -> usize {
    /// Names of fields, numbers, and three names of sites.
    const FIELDS: usize = 1_024;
    /// A digest, a size and the name of a site, or two digests and four numbers beside it, with
    /// their fields.
    const ITEM: usize = 512;
    /// Most bytes that a byte of text takes: `\u0000`.
    const ESCAPED: usize = 6;
    let sources = component
        .placement
        .as_ref()
        .map_or(0, |placement| placement.sources.len());
    let items =
        sources + component.avoid.len() + component.collected.len() + component.origins.len();
    let items = items + component.unfit_for.len();
    let detail = component
        .charge
        .as_ref()
        .map_or(0, |charge| charge.detail.len());
    let words: usize = component.unfit_for.values().map(|words| words.len()).sum();
    FIELDS + items * ITEM + (attempt_text_bytes(&component.run) + detail + words) * ESCAPED
}

/// Returns the bytes of text in the state of an attempt.
fn attempt_text_bytes(run: &AttemptState) -> usize {
    let host = match run {
        AttemptState::AtGate { host, .. }
        | AttemptState::Opened { host, .. }
        | AttemptState::Running { host, .. } => host.len(),
        AttemptState::Ended { how, .. } => match how {
            AttemptEnding::Failed(text)
            | AttemptEnding::NeverRan(text)
            | AttemptEnding::Lost(text) => text.len(),
            AttemptEnding::Succeeded | AttemptEnding::Killed | AttemptEnding::Abandoned => 0,
        },
        AttemptState::Idle
        | AttemptState::Intended { .. }
        | AttemptState::Uncertain { .. }
        | AttemptState::Submitted { .. } => 0,
    };
    host + run.lrm_id().map_or(0, |id| id.as_str().len())
}

impl Component {
    /// Signs its attempts as those of another control plane, except those already signed.
    pub(crate) fn sign_attempts(&mut self, instance: InstanceId) {
        let signed = self.origins.last().map_or(0, |origin| origin.last);
        if self.attempt > signed {
            self.origins.push(Origin {
                instance: TextValue(instance),
                last: self.attempt,
            });
        }
    }

    /// Removes the sources of its input.
    pub(crate) fn drop_input_sources(&mut self) {
        if let Some(placement) = &mut self.placement {
            placement.sources.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::acquisition;
    use cospan_domain::content::Content;
    use cospan_domain::ids::{Attempt, Digest};
    use cospan_domain::units::{Bytes, ClockSkew, DurationMs, Timestamp};

    use super::super::WireConversion;
    use super::*;

    fn text(length: usize) -> Arc<str> {
        "\u{1}".repeat(length).into()
    }

    /// Everything as long as it can be, but for the lengths of lists and texts.
    fn largest(run: AttemptState, items: usize) -> job_state::Component {
        let site = |last: char| SiteName::new(&format!("{}{last}", "s".repeat(62))).unwrap();
        let content = Content {
            digest: Digest([255; 32]),
            size: Bytes(u64::MAX),
        };
        let offset = Bytes(u64::MAX);
        let length = Bytes(u64::MAX);
        let chunk = Some(cospan_domain::content::FileChunk {
            of: content,
            offset,
            length,
        });
        let source = placed::ContentSource {
            content,
            from: site('a'),
            chunk,
        };
        let collected = job_state::OutputCollection {
            content: Some(content),
            done: true,
        };
        let attempt = Attempt(u32::MAX);
        job_state::Component {
            placement: Some(placed::Placement {
                share: Some(u32::MAX),
                acquisition: DomainAcquisition::Queue(acquisition::QueueTimeLimits {
                    deadline: DurationMs(u64::MAX),
                    max_hold: DurationMs(u64::MAX),
                }),
                site: site('a'),
                sources: vec![source; items],
                transfer_time: DurationMs(u64::MAX),
            }),
            attempt,
            run,
            given_back: true,
            charge: Some(job_state::SiteCharge {
                site: site('a'),
                attempt,
                detail: text(items),
            }),
            avoid: ('a'..='z').take(items).map(site).collect(),
            unfit_for: ('a'..='z')
                .take(items)
                .map(|last| (site(last), text(300)))
                .collect(),
            collected: vec![collected; items],
            began: Some(job_state::BegunAttempt {
                site: site('b'),
                attempt,
                at: Some(Timestamp(u64::MAX)),
            }),
            start_by: Some(Timestamp(u64::MAX)),
            not_before: Some(Timestamp(u64::MAX)),
            held_since: Some(Timestamp(u64::MAX)),
            restart: Some(job_state::ComponentRestart {
                step: DomainStep::Staging,
                since: Timestamp(u64::MAX),
                tries: u32::MAX,
                not_before: Timestamp(u64::MAX),
            }),
            origins: vec![
                job_state::ImportedAttempts {
                    instance: InstanceId::from_random(1),
                    last: attempt
                };
                items
            ],
        }
    }

    #[test]
    fn no_component_takes_more_than_is_said_beforehand() {
        let at = Timestamp(u64::MAX);
        let lrm_id = LrmId::new(&"\"".repeat(255)).unwrap();
        let runs = |length: usize| {
            let host = text(length);
            let lrm_id = lrm_id.clone();
            [
                AttemptState::Idle,
                AttemptState::Uncertain {
                    settled_at: at,
                    absences: u8::MAX,
                    look_at: at,
                },
                AttemptState::Submitted {
                    lrm_id: lrm_id.clone(),
                    at,
                    absences: u8::MAX,
                    waits: Some(job_state::SiteQueueWait {
                        since: at,
                        expected_start: Some(at),
                        told_at: Some(at),
                    }),
                },
                AttemptState::AtGate {
                    lrm_id: lrm_id.clone(),
                    host: host.clone(),
                    since: at,
                    clock: Some(ClockSkew(i64::MIN)),
                },
                AttemptState::Running {
                    lrm_id,
                    host,
                    since: at,
                },
                AttemptState::Ended {
                    how: AttemptEnding::NeverRan(text(length)),
                    at,
                },
            ]
        };
        for length in [0, 1, 20] {
            for run in runs(length * 50) {
                let component = largest(run, length);
                let wire: Component = component.to_wire();
                let bytes = serde_json::to_vec(&wire).unwrap().len();
                let most = max_written_bytes(&component);
                assert!(
                    bytes <= most,
                    "{bytes} bytes, at most {most} said: {component:?}"
                );
            }
        }
    }
}
