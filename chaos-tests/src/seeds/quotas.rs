//! Draws and judges the most of a site that a user may reserve, and how far ahead: for some of the
//! runs that have reservations, by the reservations at sites.

use std::collections::BTreeMap;

use cospan_actors::api::CommittedView;
use cospan_actors::api::command::ApiRefusal;
use cospan_actors::journal::JournalChange;
use cospan_domain::ids::{InstanceId, KeyName, SiteName};
use cospan_domain::job::job_event::JobEventKind;
use cospan_domain::job::job_state::{Job, JobPhase, JobReservations};
use cospan_domain::reservation::{Reservation, ReservationSearch, ReservationTag};
use cospan_domain::units::{DurationMs, PerMillion, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rare_options::USERS;
use super::seed_scenario::{HOUR, SeedScenario};
use cospan_simulator::control_plane_run::ControlPlaneRun;
use cospan_simulator::world::SimulatedWorld;

/// Number of the random stream.
const QUOTAS: u64 = 0x6d6f_7374_7368;
/// Share of the runs with reservations that have quotas.
const SHARE: f64 = 0.5;
/// Settings that a refusal names.
const SETTINGS: [&str; 2] = ["reservations.most_share", "reservations.most_ahead"];

/// The reservation quota of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationQuota {
    /// Share of a site, at a time.
    pub share: PerMillion,
    /// Most time from now to the latest start.
    pub ahead: Option<DurationMs>,
}

impl Default for ReservationQuota {
    fn default() -> Self {
        Self {
            share: PerMillion::ONE,
            ahead: None,
        }
    }
}

/// Gives some runs a quota. One user has most of the jobs, so that it binds.
pub(super) fn draw_reservation_quota(scenario: &mut SeedScenario) {
    let mut chance = StdRng::seed_from_u64(scenario.seed ^ QUOTAS);
    let promises = scenario
        .jobs
        .iter()
        .any(|job| job.rare_options.promised.is_some());
    if !promises || !chance.random_bool(SHARE) {
        return;
    }
    let share = [100_000, 250_000, 500_000, 1_000_000][chance.random_range(0..4)];
    let ahead = DurationMs(chance.random_range(HOUR..4 * HOUR));
    let ahead = chance.random_bool(0.5).then_some(ahead);
    scenario.reservation_quota = ReservationQuota {
        share: PerMillion(share),
        ahead,
    };
    for job in &mut scenario.jobs {
        job.rare_options.user = USERS[0];
        if chance.random_bool(0.3) {
            job.rare_options.user = USERS[chance.random_range(0..USERS.len())];
        }
    }
}

/// Returns true if a submission was refused because of its user's quota, and says so.
pub(super) fn is_quota_refusal(refusal: &ApiRefusal) -> bool {
    let ApiRefusal::Invalid { problem, .. } = refusal else {
        return false;
    };
    SETTINGS.iter().any(|setting| problem.contains(setting))
}

/// Lists where users exceed their quota after this change of one of their jobs.
pub(super) fn exceeded_quotas(
    plane_run: &ControlPlaneRun,
    quota: ReservationQuota,
    change: &JournalChange,
) -> Vec<String> {
    let JournalChange::Job { new, events, .. } = change else {
        return Vec::new();
    };
    let view = plane_run.plane.view();
    let instance = plane_run.plane.shared().instance;
    let asks = events.iter().any(|event| {
        matches!(
            event.what,
            JobEventKind::ReservationAnswered { .. } | JobEventKind::ReservationMoved
        )
    });
    let untold = events
        .iter()
        .find_map(|event| hidden_quota_failure(new, &event.what));
    if !asks || quota == ReservationQuota::default() {
        return untold.into_iter().collect();
    }
    let held = plane_run.world.read(|world| {
        let held = reserved_by(world, &view, instance, &new.owner);
        let far = starts_too_late(&held, quota.ahead, world.now());
        far.into_iter()
            .chain(over_share(world, &held, quota.share))
            .collect::<Vec<_>>()
    });
    untold
        .into_iter()
        .chain(
            held.into_iter()
                .map(|text: String| format!("{} {text}", new.owner)),
        )
        .collect()
}

/// Returns a failure after a site was not asked because of the quota, which does not say so.
fn hidden_quota_failure(job: &Job, what: &JobEventKind) -> Option<String> {
    let JobEventKind::JobFailed { reason } = what else {
        return None;
    };
    let failed = matches!(job.phase, JobPhase::Failed { .. });
    (failed && hides_bound(job.reservation.as_deref(), reason))
        .then(|| format!("job {} was not told of its user's bound: {reason}", job.id))
}

/// Returns true if a job with this reservation fails for a reason that does not name the quota,
/// although a site was not asked because of it. A search that ended some time ago, well or not, has
/// no part in why its job fails later.
fn hides_bound(reservation: Option<&JobReservations>, reason: &str) -> bool {
    let reservation = reservation.filter(|reservation| !reservation.spent);
    let withheld = reservation.is_some_and(|reservation| reservation.withheld);
    let of_sites = ["no site ", "its sites ", "no common start "];
    let refused = of_sites.iter().any(|begin| reason.starts_with(begin));
    withheld && refused && !SETTINGS.iter().any(|setting| reason.contains(setting))
}

type HeldLeases<'w> = BTreeMap<SiteName, Vec<(ReservationTag, &'w Reservation)>>;

/// Returns the reservations at sites for jobs of a user, as far as these count on them: one that
/// belongs to nobody any more is being cancelled.
fn reserved_by<'w>(
    world: &'w SimulatedWorld,
    view: &CommittedView,
    instance: InstanceId,
    owner: &KeyName,
) -> HeldLeases<'w> {
    let each = world.sites().iter().map(|site| {
        let leases = site
            .current_reservations()
            .filter(|(tag, _)| tag.instance == instance && is_held_for(view, owner, tag));
        (
            site.name().clone(),
            leases.map(|(tag, lease)| (*tag, lease)).collect(),
        )
    });
    each.collect()
}

fn is_held_for(view: &CommittedView, owner: &KeyName, tag: &ReservationTag) -> bool {
    let job = view.jobs.get(&tag.job).filter(|job| job.owner == *owner);
    let reservation = job.and_then(|job| job.reservation.as_deref());
    let mut searches = reservation.into_iter().flat_map(searches);
    searches.any(|search: &ReservationSearch| {
        search
            .part_reservations()
            .iter()
            .flatten()
            .any(|held| held.serial == tag.serial)
    })
}

fn searches(reservation: &JobReservations) -> impl Iterator<Item = &ReservationSearch> {
    let other = reservation.other.as_ref().map(|other| &other.search);
    [&reservation.search].into_iter().chain(other)
}

/// Lists where more than the share is reserved, at the moment at which some of it begins.
fn over_share(world: &SimulatedWorld, held: &HeldLeases<'_>, share: PerMillion) -> Vec<String> {
    let mut found = Vec::new();
    for site in world.sites() {
        let Some(leases) = held.get(site.name()) else {
            continue;
        };
        let most = u64::from(site.processors()) * u64::from(share.0) / 1_000_000;
        for (_, first) in leases {
            let then = leases.iter().filter(|(_, lease)| {
                lease.span.from <= first.span.from && first.span.from < lease.span.to
            });
            let all: u64 = then
                .map(|(_, l)| u64::from(l.amounts.whole_processors()))
                .sum();
            if all > most {
                found.push(format!(
                    "holds {all} of {most} at {}: {leases:?}",
                    site.name()
                ));
                break;
            }
        }
    }
    found
}

/// Returns a start later than may be asked for now; what was asked for before is nearer by now.
fn starts_too_late(
    held: &HeldLeases<'_>,
    ahead: Option<DurationMs>,
    now: Timestamp,
) -> Option<String> {
    let latest = now + ahead?;
    let mut leases = held.values().flatten();
    let far = leases.find(|(_, lease)| lease.span.from > latest)?;
    Some(format!("holds what begins after {}: {far:?}", latest.0))
}

#[cfg(test)]
mod tests {
    use cospan_domain::ids::ComponentIndex;
    use cospan_domain::reservation::{Coallocation, CoallocationPart, StartWindow};
    use cospan_domain::resources::Resources;

    use super::*;

    const REFUSED: &str = "no site grants a start within its window";

    /// A reservation for which a site was not asked, as its user holds too much there.
    fn withheld(spent: bool) -> JobReservations {
        let resources = Resources::processors(2);
        let length = DurationMs(1_000);
        let sites = vec![SiteName::new("delft").unwrap()];
        let component = ComponentIndex(0);
        let offset = DurationMs::ZERO;
        let part = CoallocationPart {
            component,
            resources,
            length,
            sites,
            offset,
        };
        let wanted = Coallocation {
            parts: vec![part],
            window: StartWindow::single_start(Timestamp(1_000)),
            tolerance: DurationMs::ZERO,
            unit: DurationMs(1_000),
            windows_max: 1,
            rankings: Vec::new(),
        };
        JobReservations {
            search: ReservationSearch::new(wanted),
            placements: Vec::new(),
            lead: DurationMs::ZERO,
            answers: 1,
            asked_since: Timestamp(0),
            spent,
            other: None,
            claimed: Vec::new(),
            withheld: true,
            notices: Default::default(),
            split: None,
            refusals: 0,
        }
    }

    fn is_untold(spent: bool, reason: &str) -> bool {
        hides_bound(Some(&withheld(spent)), reason)
    }

    #[test]
    fn a_bound_that_keeps_a_search_from_its_end_is_told() {
        assert!(is_untold(false, REFUSED));
        assert!(!is_untold(
            false,
            &format!("{REFUSED}; see `{}`", SETTINGS[0])
        ));
        assert!(!is_untold(false, "exit code 1"));
    }

    #[test]
    fn a_bound_that_a_later_failure_has_nothing_to_do_with_is_not() {
        assert!(
            !is_untold(true, REFUSED),
            "what it was promised then has been lost since"
        );
    }
}
