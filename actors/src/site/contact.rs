//! Silence of a site and its return: whose fault it is, and who is notified.

use cospan_domain::site::availability::{self, SiteState};
use cospan_domain::site::contact::SiteContact;
use cospan_domain::site::site_command::SiteCommand;
use cospan_domain::site::site_state::SiteNotificationKind;
use cospan_domain::units::Timestamp;
use tracing::{error, info, warn};

use super::ClusterActor;
use crate::live_state::SiteAvailabilityChange;
use crate::supervision::ActorKind;

impl ClusterActor {
    /// The site's state as operators see it.
    pub(super) fn current_state(&self, now: Timestamp) -> SiteState {
        let view = self.shared.view.load();
        let mut held = 0;
        let mut last = None;
        // In the order of jobs, so the components of one job follow each other.
        for (job, _) in view
            .holdings
            .get(&self.name)
            .into_iter()
            .flat_map(|held| held.keys())
        {
            held += u32::from(last.replace(*job) != Some(*job));
        }
        availability::site_state(self.record.state(), self.current_contact(), held, now)
    }

    /// Shows the site's state, and logs an error when no site is left that takes work: each site's
    /// administrator hears of that one site only.
    pub(super) fn publish_state(&self) {
        let state = self.current_state(self.now());
        self.gauges.set_state_gauges(self.report.state_text(state));
        let live = &self.shared.live;
        match live.note_site_state(&self.name, state, self.shared.sites.len()) {
            Some(SiteAvailabilityChange::None(states)) => {
                let states: Vec<String> = states
                    .iter()
                    .map(|(site, state)| format!("{site} {}", state.as_str()))
                    .collect();
                error!(
                    sites = states.join(", "),
                    "no usable site left: nothing is placed until one takes work again; \
                     mend one and `cospan site reset` it, or lift what keeps it closed"
                );
            }
            Some(SiteAvailabilityChange::Some) => {
                warn!(site = %self.name, "a site takes work again")
            }
            None => {}
        }
    }

    pub(super) fn handle_contact_change(&mut self, contact: SiteContact, now: Timestamp) {
        match contact {
            SiteContact::Answering { .. } => {
                info!(site = %self.name, "the site answers");
                self.note_answers_again();
                if std::mem::take(&mut self.told_away) {
                    let text = format!("site {} answers again", self.name);
                    self.push_notification(SiteNotificationKind::Answering, text);
                }
            }
            SiteContact::Unreachable { .. } => self.handle_silence(now),
            SiteContact::CredentialsExpired { .. } => {
                let told = self.report.trouble.as_deref().unwrap_or("renew them");
                let text = format!("site {} refuses our credentials: {told}", self.name);
                warn!(site = %self.name, "the site refuses our credentials: {told}");
                self.tell_away(SiteNotificationKind::CredentialsExpired, text);
            }
            SiteContact::NeverAnswered => {}
        }
    }

    pub(super) fn note_answers_again(&self) {
        if self.shared.live.note_site_answered(&self.name) {
            warn!("a site answers again; no longer isolated");
            self.announce_isolation(false);
        }
    }

    fn handle_silence(&mut self, now: Timestamp) {
        let error = self.report.trouble.as_deref().unwrap_or("no answer");
        if self.report.out_of_order {
            warn!(
                site = %self.name,
                error,
                "the site cannot be used: nothing new goes there until somebody mends it"
            );
            let text = format!("site {} cannot be used: {error}", self.name);
            return self.tell_away(SiteNotificationKind::Unreachable, text);
        }
        warn!(
            site = %self.name,
            error,
            "the site is unreachable: nothing new goes there, and what runs there is unknown, \
             not failed"
        );
        let newly_isolated = self.shared.live.note_site_lost(&self.name, now);
        if newly_isolated {
            error!(
                "so many sites are silent at once that the control plane takes itself to be \
                 isolated; nothing is charged or moved"
            );
            self.announce_isolation(true);
        }
        if !self.shared.live.is_isolated() {
            // Sites where no job of ours runs are not polled, and would seem well.
            self.shared.live.request_all_answers(now);
            self.shared.actors.request_look_of_all(ActorKind::Cluster);
            let text = format!("site {} does not answer", self.name);
            self.tell_away(SiteNotificationKind::Unreachable, text);
        }
    }

    fn announce_isolation(&self, isolated: bool) {
        self.shared.metrics.isolated.set(i64::from(isolated));
        self.shared.actors.request_look_of_all(ActorKind::Job);
        self.shared.request_planning();
    }

    /// Tells the site's administrator that it is away; its return is told then too.
    fn tell_away(&mut self, kind: SiteNotificationKind, text: String) {
        self.told_away = true;
        self.push_notification(kind, text);
    }

    fn push_notification(&mut self, kind: SiteNotificationKind, text: String) {
        let command = SiteCommand::Notify {
            kind,
            text: text.into(),
            details: Vec::new(),
        };
        self.record.push_command(command, None);
    }
}
