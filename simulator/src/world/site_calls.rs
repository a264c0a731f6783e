//! The calls that the control plane can make to a site, carried out at once. Delays and faults are
//! added by the caller.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::{AttemptTag, ComponentIndex, HostName, LrmId, SiteName};
use cospan_domain::labels::SiteLabels;
use cospan_domain::resources::Resources;
use cospan_domain::units::{DurationMs, DurationUs};
use cospan_sites::port::{
    AcceptedAttempt, AttemptSubmitRequest, ExitCause, FoundSubmission, GateDecision, GateState,
    GoDecision, PayloadExit, SiteCapabilities, SiteDescription, SiteError, SiteStatus,
    TagLookupAnswer,
};
use cospan_sites::wrapper::state_files::MISSING;

use super::SimulatedWorld;
use super::agenda::{AgendaEvent, SiteIndex};
use super::attempt::{AttemptStage, JobSpread, SimulatedAttempt, requested_run_time};
use super::batch::LrmJobId;
use super::world_history::WorldLedgerEvent;
use super::world_site::BatchJobOwner;

/// Returns the labels of a site: its place, and its half of the country.
fn labels_of(name: &SiteName) -> SiteLabels {
    let half = if name.as_str() < "e" {
        "north"
    } else {
        "south"
    };
    [
        ("place".into(), [name.as_str().into()].into()),
        ("half".into(), [half.into()].into()),
    ]
    .into()
}

impl SimulatedWorld {
    /// Describes the site.
    pub fn describe(&self, site: SiteIndex) -> SiteDescription {
        let total = Resources::processors(self.sites[site.0].processors);
        SiteDescription {
            total: total.clone(),
            largest_component: total,
            labels: labels_of(&self.sites[site.0].name),
            capabilities: SiteCapabilities {
                queues: self.sites[site.0].queues,
                queues_only: false,
                reservations: self.sites[site.0].grants_reservations(),
            },
            lanes: None,
            manager: "simulated".into(),
        }
    }

    /// Returns the load, and the state of the given attempts.
    pub fn status(&mut self, site: SiteIndex, tags: &[AttemptTag]) -> SiteStatus {
        let attempts = tags
            .iter()
            .map(|tag| (*tag, self.show_attempt(site, *tag)))
            .collect();
        let now = self.now;
        let ebbs = self.sites[site.0].idle_drops(now);
        let cluster = &self.sites[site.0];
        let ailments = &cluster.ailments;
        let idle = ailments
            .stale
            .as_ref()
            .map_or_else(|| cluster.unreserved_idle(self.now), |then| then.idle);
        SiteStatus {
            site_clock: Some(ailments.clock_time(self.now)),
            idle: Resources::processors(idle),
            idle_in: BTreeMap::new(),
            ebbs,
            attempts,
            silence: None,
        }
    }

    /// Submits an attempt. The batch system accepts it also under a tag that it knows already.
    ///
    /// # Errors
    /// Fails if it is larger than the site, or what it needs is promised to others.
    pub fn submit(
        &mut self,
        site: SiteIndex,
        order: &AttemptSubmitRequest,
    ) -> Result<AcceptedAttempt, SiteError> {
        let answer = self.accept_attempt(site, order);
        if answer.is_err() {
            let name = &self.sites[site.0].name;
            let refused = WorldLedgerEvent::Refused;
            self.ledger.record_event(self.now, name, order.tag, refused);
        }
        answer
    }

    fn accept_attempt(
        &mut self,
        site: SiteIndex,
        order: &AttemptSubmitRequest,
    ) -> Result<AcceptedAttempt, SiteError> {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        if cluster.attempts.contains_key(&order.tag) {
            return self.submit_again(site, order);
        }
        cluster.check_reservations(order, now)?;
        let number = cluster.next_free_number();
        let processors = order.resources.processors;
        if order.begin_in == DurationMs::ZERO {
            cluster
                .batch
                .submit(number, processors, requested_run_time(order), now)
                .map_err(|problem| SiteError::Refused(problem.to_string()))?;
        } else {
            self.agenda.add_event(
                now + order.begin_in,
                site,
                AgendaEvent::Eligible(order.tag, number),
            );
        }
        let attempt = SimulatedAttempt::new(order, number, now, self.pace.wall_late);
        let lrm_id = attempt.lrm_id(&cluster.name);
        cluster.attempts.insert(order.tag, attempt);
        cluster
            .occupants
            .insert(number, BatchJobOwner::Ours(order.tag));
        self.ledger.record_event(
            now,
            &cluster.name,
            order.tag,
            WorldLedgerEvent::Submitted { processors },
        );
        if let Some(lease) = order.reservation {
            self.ledger.record_event(
                now,
                &cluster.name,
                order.tag,
                WorldLedgerEvent::Reserved(lease),
            );
        }
        let touched = self.touched[site.0];
        self.start_batch_jobs(site);
        // The submitter already knows of this change.
        self.touched[site.0] = touched;
        Ok(AcceptedAttempt { lrm_id })
    }

    /// Lets an attempt that was to begin later enter the queue, if it is still wanted.
    pub(super) fn enter_queue(&mut self, site: SiteIndex, tag: AttemptTag, job: LrmJobId) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let attempt = cluster
            .attempts
            .get(&tag)
            .filter(|attempt| attempt.is_queued_as(job));
        let Some(attempt) = attempt else { return };
        // An attempt that is too large was refused when it was first submitted.
        let _ = cluster
            .batch
            .submit(job, attempt.processors, attempt.asked, now);
        self.start_batch_jobs(site);
    }

    /// Looks for submissions under a tag. The first is the one that has the directory.
    pub fn find_by_tag(&self, site: SiteIndex, tag: AttemptTag) -> TagLookupAnswer {
        let cluster = &self.sites[site.0];
        let then = cluster.ailments.stale.as_ref();
        let is_shown = then.is_none_or(|then| then.attempts.contains_key(&tag));
        let found = cluster
            .attempts
            .get(&tag)
            .filter(|_| is_shown)
            .map(|attempt| FoundSubmission {
                lrm_id: attempt.lrm_id(&cluster.name),
                submitted_at: attempt.submitted_at,
            });
        let doubles = cluster.found_doubles(tag).filter(|_| is_shown);
        TagLookupAnswer {
            found: found.into_iter().chain(doubles).collect(),
        }
    }

    /// Decides a gate, or finds it decided: exactly one decision wins.
    ///
    /// # Errors
    /// Fails for `Go` if there is no directory yet.
    pub fn decide_gate(
        &mut self,
        site: SiteIndex,
        tag: AttemptTag,
        decision: &GateDecision,
    ) -> Result<GateState, SiteError> {
        let spread = match decision {
            GateDecision::Go(go) => Some(self.spread_of(go)),
            GateDecision::Void => None,
        };
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        if cluster.taken.contains(&tag) {
            return Ok(GateState::Voided);
        }
        let attempt = cluster
            .attempts
            .get_mut(&tag)
            .filter(|attempt| attempt.has_directory());
        let Some(attempt) = attempt else {
            if matches!(decision, GateDecision::Go(_)) {
                return Err(SiteError::Refused(format!("{tag} has no directory yet")));
            }
            cluster.taken.insert(tag);
            self.ledger
                .record_event(now, &cluster.name, tag, WorldLedgerEvent::Voided);
            return Ok(GateState::Voided);
        };
        if let Some((decided, _)) = attempt.decision {
            return Ok(decided);
        }
        let (state, deed, round) = match decision {
            GateDecision::Go(go) => {
                if attempt.lists_hosts {
                    let told = WorldLedgerEvent::Told(go.rank, go.peers.clone());
                    self.ledger.record_event(now, &cluster.name, tag, told);
                }
                attempt.start_by = go.start_by;
                let peers = go.peers.iter().map(|peer| peer.attempt).collect();
                (
                    GateState::Opened,
                    WorldLedgerEvent::Opened(go.round, peers),
                    go.round,
                )
            }
            GateDecision::Void => (
                GateState::Voided,
                WorldLedgerEvent::Voided,
                Default::default(),
            ),
        };
        attempt.decision = Some((state, round));
        spread
            .iter()
            .for_each(|spread| attempt.apply_spread(spread));
        self.ledger.record_event(now, &cluster.name, tag, deed);
        let delay = self.draw_duration(self.pace.gate_max);
        self.agenda
            .add_event(now + delay, site, AgendaEvent::GateSeen(tag));
        Ok(state)
    }

    /// Returns true if another gate of its round is still to be decided.
    pub fn awaits_gates(&self, tag: AttemptTag, go: &GoDecision) -> bool {
        let mut parts = (0..).map(ComponentIndex).zip(&go.peers);
        parts.any(|(component, peer)| {
            let tag = AttemptTag {
                component,
                attempt: peer.attempt,
                ..tag
            };
            let site = self.index_of(&peer.site);
            let attempt = site.and_then(|site| self.sites[site.0].attempts.get(&tag));
            attempt.is_some_and(|attempt| attempt.decision.is_none())
        })
    }

    /// Returns the number of sites of a job, and the quality of the links between them.
    fn spread_of(&self, go: &GoDecision) -> JobSpread {
        let sites: BTreeSet<&SiteName> = go.peers.iter().map(|peer| &peer.site).collect();
        let pairs = sites
            .iter()
            .flat_map(|from| sites.iter().map(move |to| (*from, *to)));
        let links = pairs.filter(|(from, to)| from != to);
        let slowest = links
            .filter_map(|(from, to)| self.network.link_capacity(from, to))
            .min();
        let fastest = self.fastest_link;
        JobSpread {
            sites: sites.len(),
            slowest: slowest.unwrap_or(fastest),
            fastest,
        }
    }

    /// Ends an attempt, and every batch job that has its tag.
    pub fn cancel(&mut self, site: SiteIndex, tag: AttemptTag) {
        self.withdraw_doubles(site, tag);
        self.cancel_attempt(site, tag);
    }

    /// Takes the batch job of this number out of the queue, if it has the tag.
    pub fn withdraw(&mut self, site: SiteIndex, tag: AttemptTag, id: &LrmId) {
        let job = self.parse_job_number(site, id);
        let cluster = &self.sites[site.0];
        let Some(job) = job.filter(|job| cluster.batch.is_queued(*job)) else {
            return;
        };
        if cluster.doubles.contains_key(&(tag, job)) {
            self.end_double(site, tag, job);
        } else if cluster
            .attempts
            .get(&tag)
            .is_some_and(|attempt| attempt.lrm == job)
        {
            self.cancel_attempt(site, tag);
        }
    }

    fn cancel_attempt(&mut self, site: SiteIndex, tag: AttemptTag) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let Some(attempt) = cluster.attempts.get_mut(&tag) else {
            return;
        };
        match attempt.stage.clone() {
            AttemptStage::Queued => {
                let job = attempt.lrm;
                if cluster.stand_for_double(tag) {
                    return self.end_double(site, tag, job);
                }
                let Some(attempt) = cluster.attempts.get_mut(&tag) else {
                    return;
                };
                attempt.stage = AttemptStage::Lost {
                    began: false,
                    detail: "cancelled in the queue",
                };
                self.ledger
                    .record_event(now, &cluster.name, tag, WorldLedgerEvent::Withdrawn);
                self.leave_batch(site, tag, job);
            }
            AttemptStage::Starting => attempt.told_to_end = true,
            AttemptStage::AtGate { .. } => {
                attempt.told_to_end = true;
                attempt
                    .decision
                    .get_or_insert((GateState::Voided, Default::default()));
                self.on_gate_seen(site, tag);
            }
            AttemptStage::Running { since } => {
                let cause = ExitCause::Terminated;
                self.exit_attempt(
                    site,
                    tag,
                    PayloadExit {
                        cause,
                        began_at: since,
                        ended_at: now,
                    },
                );
                return;
            }
            AttemptStage::Exited(_) | AttemptStage::Void | AttemptStage::Lost { .. } => return,
        }
        self.start_batch_jobs(site);
    }

    /// Removes everything that an ended attempt left.
    ///
    /// # Errors
    /// Fails if it has not ended.
    pub fn remove_attempt(&mut self, site: SiteIndex, tag: AttemptTag) -> Result<(), SiteError> {
        let cluster = &mut self.sites[site.0];
        let has_double = cluster.doubles_of(tag).next().is_some();
        if has_double
            || cluster
                .attempts
                .get(&tag)
                .is_some_and(SimulatedAttempt::is_live)
        {
            return Err(SiteError::Refused(format!(
                "{tag} has not ended; cancel it first"
            )));
        }
        let known = cluster.attempts.remove(&tag).is_some();
        if cluster.taken.remove(&tag) || known {
            self.ledger
                .record_event(self.now, &cluster.name, tag, WorldLedgerEvent::Removed);
        }
        Ok(())
    }

    /// Lists all attempts of any control plane that left something.
    pub fn list_attempts(&self, site: SiteIndex) -> Vec<AttemptTag> {
        let cluster = &self.sites[site.0];
        let known: BTreeMap<AttemptTag, ()> = cluster
            .attempts
            .keys()
            .chain(&cluster.taken)
            .map(|tag| (*tag, ()))
            .collect();
        known.into_keys().collect()
    }

    /// Measures the time of a message to the host of another site, named like the site, and back.
    ///
    /// # Errors
    /// Fails if there is no such host, it cannot be reached, or a link is cut.
    pub fn round_trip(&self, site: SiteIndex, to: &HostName) -> Result<DurationUs, SiteError> {
        let from = &self.sites[site.0].name;
        let known = SiteName::new(to.as_str())
            .ok()
            .and_then(|name| self.index_of(&name));
        let there = known.map(|index| &self.sites[index.0]);
        let there = there.filter(|there| !there.ailments.cut_off && !there.ailments.silent);
        let round_trip = there.and_then(|there| {
            let way = self.network.link_latency(from, &there.name)?;
            Some(DurationUs::from(
                way + self.network.link_latency(&there.name, from)?,
            ))
        });
        round_trip.ok_or_else(|| SiteError::OutcomeUnknown(format!("{to} does not answer")))
    }

    pub(super) fn on_wrapper_ready(&mut self, site: SiteIndex, tag: AttemptTag, job: LrmJobId) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let double = cluster.doubles.get(&(tag, job));
        if double.is_some_and(|double| !double.started) {
            return; // Its node died under it; it waits for another.
        }
        if double.is_some() && !cluster.take_directory(tag, job) {
            return self.end_double(site, tag, job);
        }
        let taken = cluster.taken.contains(&tag);
        let attempt = cluster.attempts.get_mut(&tag);
        let Some(attempt) = attempt.filter(|a| a.lrm == job && a.stage == AttemptStage::Starting)
        else {
            return;
        };
        if taken || attempt.told_to_end {
            attempt.stage = AttemptStage::Void;
            self.leave_batch(site, tag, job);
            return self.start_batch_jobs(site);
        }
        let held_at = cluster.batch.running_since(job).unwrap_or(now);
        attempt.stage = AttemptStage::AtGate {
            since: now,
            held_at,
        };
        let hold_over = now + attempt.hold_max;
        self.ledger
            .record_event(now, &cluster.name, tag, WorldLedgerEvent::Ready);
        self.agenda
            .add_event(hold_over, site, AgendaEvent::HoldOver(tag));
        self.mark_touched(site);
    }

    /// Closes the gate of an attempt past its longest hold, as its wrapper does.
    pub(super) fn on_hold_over(&mut self, site: SiteIndex, tag: AttemptTag) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let Some(attempt) = cluster.attempts.get_mut(&tag) else {
            return;
        };
        let holds = matches!(attempt.stage, AttemptStage::AtGate { .. });
        if holds && attempt.decision.is_none() {
            attempt.decision = Some((GateState::Voided, Default::default()));
            self.ledger
                .record_event(now, &cluster.name, tag, WorldLedgerEvent::HeldTooLong);
            self.on_gate_seen(site, tag);
        }
    }

    pub(super) fn on_gate_seen(&mut self, site: SiteIndex, tag: AttemptTag) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let Some(attempt) = cluster.attempts.get_mut(&tag) else {
            return;
        };
        if !matches!(attempt.stage, AttemptStage::AtGate { .. }) {
            return;
        }
        match attempt.decision {
            Some((GateState::Opened, _)) if attempt.start_by < cluster.ailments.clock_time(now) => {
                self.exit_attempt(
                    site,
                    tag,
                    PayloadExit {
                        cause: ExitCause::TooLate,
                        began_at: now,
                        ended_at: now,
                    },
                );
            }
            Some((GateState::Opened, _)) if attempt.payload.missing => {
                let cause = ExitCause::CouldNotStart(MISSING.to_owned());
                self.exit_attempt(
                    site,
                    tag,
                    PayloadExit {
                        cause,
                        began_at: now,
                        ended_at: now,
                    },
                );
            }
            Some((GateState::Opened, _)) => {
                attempt.stage = AttemptStage::Running { since: now };
                let (length, _) = attempt.natural_end();
                self.ledger
                    .record_event(now, &cluster.name, tag, WorldLedgerEvent::Began);
                if attempt
                    .inputs
                    .iter()
                    .any(|digest| !cluster.store.contains_key(digest))
                {
                    self.ledger.record_event(
                        now,
                        &cluster.name,
                        tag,
                        WorldLedgerEvent::InputMissing,
                    );
                }
                self.agenda
                    .add_event(now + length, site, AgendaEvent::PayloadEnd(tag));
                cluster.record_load(now);
                self.mark_touched(site);
            }
            Some((GateState::Voided, _)) => {
                attempt.stage = AttemptStage::Void;
                let job = attempt.lrm;
                self.leave_batch(site, tag, job);
                self.start_batch_jobs(site);
            }
            None => {}
        }
    }

    pub(super) fn on_payload_end(&mut self, site: SiteIndex, tag: AttemptTag) {
        let Some(attempt) = self.sites[site.0].attempts.get(&tag) else {
            return;
        };
        let AttemptStage::Running { since } = attempt.stage else {
            return;
        };
        let (_, cause) = attempt.natural_end();
        self.exit_attempt(
            site,
            tag,
            PayloadExit {
                cause,
                began_at: since,
                ended_at: self.now,
            },
        );
    }

    /// Makes a running payload exit now, with its code.
    pub fn finish_payload(&mut self, site: SiteIndex, tag: AttemptTag) {
        let Some(attempt) = self.sites[site.0].attempts.get(&tag) else {
            return;
        };
        let AttemptStage::Running { since } = attempt.stage else {
            return;
        };
        let cause = ExitCause::Code(attempt.payload.code);
        self.exit_attempt(
            site,
            tag,
            PayloadExit {
                cause,
                began_at: since,
                ended_at: self.now,
            },
        );
    }

    fn exit_attempt(&mut self, site: SiteIndex, tag: AttemptTag, exit: PayloadExit) {
        let now = self.now;
        let cluster = &mut self.sites[site.0];
        let Some(attempt) = cluster.attempts.get_mut(&tag) else {
            return;
        };
        let deed = match exit.cause {
            ExitCause::Code(code) => WorldLedgerEvent::Exited(code),
            ExitCause::WallTime => WorldLedgerEvent::WallTime,
            ExitCause::CouldNotStart(_) | ExitCause::TooLate => WorldLedgerEvent::NotStarted,
            _ => WorldLedgerEvent::Terminated,
        };
        attempt.stage = AttemptStage::Exited(exit);
        let job = attempt.lrm;
        self.ledger.record_event(now, &cluster.name, tag, deed);
        self.leave_batch(site, tag, job);
        self.start_batch_jobs(site);
    }

    /// Ends a batch job: its processors are free.
    pub(super) fn leave_batch(&mut self, site: SiteIndex, tag: AttemptTag, job: LrmJobId) {
        let cluster = &mut self.sites[site.0];
        cluster.end_batch_job(job, self.now);
        self.ledger
            .record_event(self.now, &cluster.name, tag, WorldLedgerEvent::Left);
    }
}
