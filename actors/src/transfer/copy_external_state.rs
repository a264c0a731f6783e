//! The state outside that a transfer sees: the progress of its copy, and its possible sources.

use cospan_domain::ids::SiteName;
use cospan_domain::site::availability::can_serve_files;
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::site_state::SiteRecord;
use cospan_domain::transfer::copy_command::{CopyCommand, CopySighting};
use cospan_domain::transfer::copy_parameters::CopyParameters;
use cospan_domain::transfer::copy_state::{CopyPhase, CopyRecord, CopyTry, TryNonce};
use cospan_domain::transfer::link_bandwidth::LinkBandwidths;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_sites::port::CopyStatus;

use super::TransferActor;
use super::copy_effects;
use super::copy_watch::CopyTryWatch;
use super::source_choice::{self, SourceChoice, SourceReadiness};
use super::staging::copy_retention_time;
use crate::live_state::CopyProgressForecast;
use crate::seeded_random::RandomPurpose;

impl TransferActor {
    /// Begins to watch a try, unless it is watched.
    pub(super) fn begin_watching_try(&mut self, order: &CopyTry, now: Timestamp) {
        if !self
            .watch
            .is_some_and(|watch| watch.is_for_try(order.nonce))
        {
            self.watch = Some(CopyTryWatch::new(order.nonce, now));
        }
        if self.promised.is_none() {
            let bandwidth = self
                .shared
                .links
                .link_bandwidth(&order.source.site, &self.key.1);
            let time = bandwidth.and_then(|b| self.record().content.size.transfer_time(b));
            self.promised = Some(now + time.unwrap_or_default());
        }
    }

    /// Translates the site's report on the copy into a command, and returns when to ask again.
    pub(super) fn observe_status(
        &mut self,
        nonce: TryNonce,
        status: CopyStatus,
    ) -> (CopyCommand, DurationMs) {
        let now = self.now();
        let seen = match (copy_effects::seen_copy_of_status(status), &mut self.watch) {
            (Ok(seen), _) => seen,
            (Err(done), Some(watch)) => CopySighting::Running {
                unchanged_for: watch.note_bytes_done(done, now),
            },
            (Err(_), None) => CopySighting::Running {
                unchanged_for: DurationMs::ZERO,
            },
        };
        let expected = self.expected_end(now);
        let pause = self.watch.map_or(CopyTryWatch::POLL_MIN, |watch| {
            watch.pause_until_look(expected, now)
        });
        (CopyCommand::Observed { nonce, seen }, pause)
    }

    /// Returns when all is expected to be there: by the pace seen, else as the link promises.
    fn expected_end(&self, now: Timestamp) -> Option<Timestamp> {
        let size = self.record().content.size;
        self.watch
            .and_then(|watch| watch.expected_end_by_pace(size, now))
            .or(self.promised)
    }

    /// Publishes the progress of the copy while it is being made.
    pub(super) fn show_progress(&mut self) {
        let (digest, site) = &self.key;
        let now = self.shared.clock.now();
        let progress = match &self.record().phase {
            CopyPhase::Copying { .. } => {
                self.expected_end(now).map(|expected| CopyProgressForecast {
                    done: self
                        .watch
                        .map(|watch| watch.bytes_done())
                        .unwrap_or_default(),
                    at: now,
                    expected: expected.max(now),
                })
            }
            _ => None,
        };
        self.shared.live.note_progress(*digest, site, progress);
        if !matches!(self.record().phase, CopyPhase::Copying { .. }) {
            self.watch = None;
            self.promised = None;
        }
    }

    /// Measures the link by a whole copy: by what its last try moved while it was watched. Not by a
    /// chunk: reading the file that it is cut from takes time that no link would save.
    pub(super) fn measure_link(&self, completed: &CopyRecord) {
        if completed.chunk.is_some() {
            return;
        }
        let CopyPhase::Copying { order, .. } = &completed.phase else {
            return;
        };
        let watch = self.watch.filter(|watch| watch.is_for_try(order.nonce));
        let now = self.now();
        if let Some((moved, time)) = watch.and_then(|w| w.bytes_moved(completed.content.size, now))
        {
            let pair = (order.source.site.clone(), self.key.1.clone());
            if self.shared.links.record_transfer(pair, moved, time, now) {
                self.shared.request_planning();
            }
        }
    }

    /// The settings of copies. Where room for them is bounded, or some are kept as replicas, age is
    /// not all that matters.
    pub(super) fn copy_parameters(&self) -> CopyParameters {
        let mut parameters = self.shared.settings.transfer.clone();
        if let Some(staging) = self.shared.settings.staging.get(&self.key.1) {
            let aged = parameters.ready_keep;
            parameters.ready_keep =
                copy_retention_time(&self.shared.view.load(), self.record(), *staging, aged);
        }
        parameters
    }

    /// Chooses a source; `None` while a site that has the content is yet to answer.
    pub(super) fn choose_source(&mut self) -> Option<CopyCommand> {
        let record = self.record().clone();
        let (_, to) = &self.key;
        let view = self.shared.view.load();
        let replicas =
            source_choice::known_replicas(&view, &self.key, record.chunk, self.shared.instance);
        let links: LinkBandwidths = replicas
            .iter()
            .filter_map(|(from, _): &source_choice::SourceReplica| {
                Some((
                    from.clone(),
                    to.clone(),
                    self.shared.links.link_bandwidth(from, to)?,
                ))
            })
            .collect();
        let now = self.now();
        let excluded = &record.trouble.excluded;
        match source_choice::choose_replica(
            &replicas,
            to,
            record.content,
            &links,
            excluded,
            |site: &SiteName| self.source_readiness(site, now),
        ) {
            SourceChoice::NotYet => None,
            SourceChoice::Nothing { hopeless, detail } => Some(CopyCommand::NoSource {
                hopeless,
                detail: detail.into(),
            }),
            SourceChoice::Source(chosen) => {
                self.promised = Some(now + chosen.time);
                let nonce = TryNonce(self.shared.chance.draw_bits(RandomPurpose::Nonce));
                Some(CopyCommand::Begin {
                    source: chosen.source,
                    nonce,
                })
            }
        }
    }

    fn source_readiness(&self, site: &SiteName, now: Timestamp) -> SourceReadiness {
        if !self.shared.sites.contains_key(site) {
            return SourceReadiness::No;
        }
        let contact = self
            .shared
            .live
            .site_report(site)
            .map(|report| report.contact);
        let contact = contact.unwrap_or(SiteContact::NeverAnswered);
        let view = self.shared.view.load();
        let fresh = SiteRecord::new(site.clone());
        let record = view
            .sites
            .get(site)
            .map_or(&fresh, |record| record.as_ref());
        match contact {
            _ if can_serve_files(record, contact, now) => SourceReadiness::Yes,
            SiteContact::NeverAnswered => SourceReadiness::Unknown,
            // So many are silent that the fault is ours: it passes.
            _ if self.shared.live.is_isolated() => SourceReadiness::Unknown,
            _ => SourceReadiness::No,
        }
    }
}
