//! Reservations at several sites: all for the same time, or none.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::ids::{KeyName, ReservationName, SiteName};
use crate::reservation::{ReservationOutcome, ReservationSerial, StartWindow};
use crate::resources::Resources;
use crate::site::joint_reservation::{self, JointReservation, JointReservationState};
use crate::site::reservation_names::{newly_taken_names, other_site_with_name};
use crate::site::shared_reservation::{
    SharedReservation, SharedReservationCall, SharedReservationEnd, SharedReservationStage,
    SharedReservationTerms,
};
use crate::site::shared_reservation_access::ReservationAccessChange;
use crate::site::site_command::{OperatorCommand, SiteCommand, SiteRejection};
use crate::site::site_parameters::SiteParameters;
use crate::site::site_state::SiteRecord;
use crate::site::{site_decide, site_evolve};
use crate::units::{DurationMs, Timestamp};

const HOUR: DurationMs = DurationMs::from_secs(3_600);
const MINUTE: DurationMs = DurationMs::from_secs(60);
const NOW: Timestamp = Timestamp(1_000_000_000);

fn site(index: usize) -> SiteName {
    SiteName::new(["delft", "leiden", "utrecht"][index]).unwrap()
}

fn course_reservation() -> ReservationName {
    ReservationName::new("course").unwrap()
}

fn key(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

/// What a site does.
#[derive(Debug, Clone, Default)]
struct SiteBehaviour {
    /// It has room from then on.
    free: Timestamp,
    /// Its leases: when they begin, how long they are, and whether they are confirmed.
    leases: BTreeMap<ReservationSerial, (Timestamp, DurationMs, bool)>,
    /// It lets none last longer.
    is_strict: bool,
}

/// Records of sites, and the sites.
#[derive(Debug, Clone)]
struct RecordsAndSites {
    records: BTreeMap<SiteName, SiteRecord>,
    sites: BTreeMap<SiteName, SiteBehaviour>,
}

impl RecordsAndSites {
    /// Sites that have room from so many minutes after now on.
    fn new(free: &[u64]) -> Self {
        let names = || (0..free.len()).map(site);
        let free = free
            .iter()
            .map(|minutes| NOW + DurationMs(minutes * MINUTE.0));
        Self {
            records: names()
                .map(|name| (name.clone(), SiteRecord::new(name)))
                .collect(),
            sites: names()
                .zip(free.map(|free| SiteBehaviour {
                    free,
                    ..SiteBehaviour::default()
                }))
                .collect(),
        }
    }

    /// Wants it at all sites, within so many minutes from now.
    fn request_everywhere(&mut self, minutes: u64) {
        let parts: BTreeMap<SiteName, Resources> = self
            .records
            .keys()
            .map(|site| (site.clone(), Resources::processors(4)))
            .collect();
        let wish = SharedReservationTerms {
            name: course_reservation(),
            allowed: [key("alice")].into(),
            resources: Resources::processors(4),
            window: StartWindow::new(NOW, NOW + DurationMs(minutes * MINUTE.0)),
            lead: DurationMs::ZERO,
            length: HOUR,
            margin: MINUTE,
            parts,
            tolerance: MINUTE,
        };
        self.apply_operation(0, OperatorCommand::Reserve(Box::new(wish)))
            .unwrap();
    }

    fn apply_operation(&mut self, at: usize, what: OperatorCommand) -> Result<(), SiteRejection> {
        self.apply_command(
            &site(at),
            SiteCommand::Operate {
                by: key("ops"),
                what,
            },
        )
    }

    fn apply_command(
        &mut self,
        site: &SiteName,
        command: SiteCommand,
    ) -> Result<(), SiteRejection> {
        let is_step = matches!(command, SiteCommand::SharedStep(_));
        let record = self.records.get_mut(site).unwrap();
        let events = site_decide::decide(record, &SiteParameters::default(), command, NOW)?;
        let before = record.clone();
        events
            .iter()
            .for_each(|event| site_evolve::evolve(record, event));
        let taken = newly_taken_names(Some(&before), record).count();
        assert!(
            taken == 0 || !is_step,
            "it has its name already: {record:?}"
        );
        Ok(())
    }

    /// What is due at a site by the records.
    fn step_site(&mut self, site: &SiteName) -> bool {
        let step = joint_reservation::next_step(
            &self.records[site],
            self.records.values(),
            &|site: &SiteName| self.records.get(site),
            NOW,
        );
        let Some(step) = step else { return false };
        self.apply_command(site, SiteCommand::SharedStep(step))
            .unwrap();
        true
    }

    /// A site answers what it is asked; it may have lost what it should keep.
    fn answer_due_call(&mut self, site: &SiteName, loses: bool) -> bool {
        let Some((shared, asked)) = self.records[site].next_shared_call() else {
            return false;
        };
        let serial = shared.serial;
        let window = shared.build_request(shared.wish.length).window;
        let at = self.sites.get_mut(site).unwrap();
        if loses && asked != SharedReservationCall::Request {
            at.leases.remove(&serial);
        }
        let outcome = match asked {
            SharedReservationCall::Request => {
                let start = window.earliest.max(at.free);
                if window.contains(start) {
                    at.leases.insert(serial, (start, shared.wish.length, false));
                    ReservationOutcome::Granted { start }
                } else {
                    ReservationOutcome::Refused {
                        next: Some(at.free),
                    }
                }
            }
            SharedReservationCall::Confirm => match at.leases.get_mut(&serial) {
                Some(lease) => {
                    lease.2 = true;
                    ReservationOutcome::Done
                }
                None => ReservationOutcome::Lost { next: None },
            },
            SharedReservationCall::Extend(length) => match at.leases.get_mut(&serial) {
                Some(lease) if !at.is_strict || length <= lease.1 => {
                    lease.1 = length;
                    ReservationOutcome::Granted { start: lease.0 }
                }
                Some(_) => ReservationOutcome::Refused { next: None },
                None => ReservationOutcome::Lost { next: None },
            },
            SharedReservationCall::Release => {
                at.leases.remove(&serial);
                ReservationOutcome::Done
            }
        };
        self.apply_command(
            site,
            SiteCommand::SharedAnswered {
                serial,
                asked,
                outcome,
            },
        )
        .unwrap();
        true
    }

    /// All that is due, until nothing is.
    fn settle_all(&mut self) {
        let names: Vec<SiteName> = self.records.keys().cloned().collect();
        for _ in 0..1_000 {
            let moved = names
                .iter()
                .filter(|name| self.step_site(name) | self.answer_due_call(name, false));
            if moved.count() == 0 {
                return;
            }
        }
        panic!("it goes on for ever: {self:?}");
    }

    fn part_at(&self, at: usize) -> &SharedReservation {
        self.records[&site(at)]
            .shared_reservation_named(&course_reservation())
            .unwrap()
    }

    fn inspect_joint<T>(&self, look: impl Fn(&JointReservation<'_>) -> T) -> T {
        let (name, record) = self.records.first_key_value().unwrap();
        look(&JointReservation::around_part(
            name,
            record
                .shared_reservation_named(&course_reservation())
                .unwrap(),
            &|site: &SiteName| self.records.get(site),
        ))
    }

    fn stages(&self) -> Vec<SharedReservationStage> {
        (0..self.records.len())
            .map(|at| self.part_at(at).stage.clone())
            .collect()
    }

    fn count_held(&self) -> usize {
        self.sites.values().map(|site| site.leases.len()).sum()
    }

    /// What may never be once nothing is due.
    fn check_settled(&self) {
        let root = self.part_at(0);
        for (name, record) in &self.records {
            for part in &record.shared {
                let held = self.sites[name].leases.get(&part.serial);
                assert_eq!(held.is_some(), part.may_exist_at_site(), "{name}: {part:?}");
                assert!(held.is_none_or(|lease| lease.2 && lease.1 == part.wish.length));
                if part.may_exist_at_site() {
                    assert_eq!(
                        part.joint_state() == JointReservationState::Kept,
                        root.joint_state() == JointReservationState::Kept
                    );
                }
                let is_same = part.together.map(|it| it.root) == root.together.map(|it| it.root);
                if is_same && root.is_kept(NOW) {
                    let lost =
                        part.stage == SharedReservationStage::Ended(SharedReservationEnd::Lost);
                    assert!(part.is_kept(NOW) || lost, "{part:?}");
                }
            }
        }
    }
}

#[test]
fn all_sites_reserve_for_the_earliest_time_that_all_have() {
    let mut grid = RecordsAndSites::new(&[5, 90, 30]);
    grid.request_everywhere(120);
    assert_eq!(
        grid.part_at(0).due_call(),
        Some(SharedReservationCall::Request)
    );
    assert!(
        grid.records[&site(1)].shared.is_empty(),
        "one after the other"
    );
    grid.settle_all();
    assert_eq!(
        grid.stages(),
        [const { SharedReservationStage::Confirmed }; 3]
    );
    let starts: BTreeSet<_> = (0..3).map(|at| grid.part_at(at).start()).collect();
    let latest = NOW + DurationMs(90 * MINUTE.0);
    assert_eq!(starts.last(), Some(&latest), "as early as the last can");
    assert!(
        starts.last().unwrap().since(*starts.first().unwrap()) <= MINUTE,
        "{starts:?}"
    );
    assert_eq!(grid.inspect_joint(|group| group.start(NOW)), latest);
    assert_eq!(grid.inspect_joint(|group| group.end(NOW)), latest + HOUR);
    grid.check_settled();
}

#[test]
fn a_name_is_taken_once_for_all_parts_and_starts_until_the_last_is_over() {
    let mut grid = RecordsAndSites::new(&[5, 90]);
    let holder = |grid: &RecordsAndSites, at: usize| {
        let name = course_reservation();
        other_site_with_name(&name, &site(at), grid.records.values(), NOW).cloned()
    };
    let empty = SiteRecord::new(site(0));
    assert_eq!((holder(&grid, 0), holder(&grid, 1)), (None, None));
    grid.request_everywhere(120);
    let record = &grid.records[&site(0)];
    let name = course_reservation();
    let taken = [Some(&empty), None].map(|old| newly_taken_names(old, record).collect::<Vec<_>>());
    assert_eq!(taken, [[&name], [&name]]);
    assert_eq!((holder(&grid, 0), holder(&grid, 1)), (None, Some(site(0))));
    grid.settle_all();
    let tries = grid.part_at(0).together.map(|it| it.tries);
    assert_eq!(tries, Some(1), "the second site is free later");
    assert_eq!(holder(&grid, 0), Some(site(1)));
    let name = course_reservation();
    let cancel = OperatorCommand::CancelReservation { name };
    grid.apply_operation(0, cancel).unwrap();
    assert_eq!(
        holder(&grid, 1),
        Some(site(0)),
        "it is still to be released"
    );
    grid.settle_all();
    assert_eq!((holder(&grid, 0), holder(&grid, 1)), (None, None));
}

#[test]
fn one_site_that_cannot_within_the_window_has_none_reserve() {
    let mut grid = RecordsAndSites::new(&[5, 10, 300]);
    grid.request_everywhere(120);
    grid.settle_all();
    let next = Some(NOW + DurationMs(300 * MINUTE.0));
    assert_eq!(
        grid.stages(),
        [const { SharedReservationEnd::Refused { next: None } }; 3]
            .map(|_| { SharedReservationStage::Ended(SharedReservationEnd::Refused { next }) })
    );
    assert_eq!(grid.count_held(), 0);
    grid.check_settled();
}

#[test]
fn nobody_confirms_before_all_have_granted() {
    let mut grid = RecordsAndSites::new(&[0, 0]);
    grid.request_everywhere(10);
    assert!(grid.answer_due_call(&site(0), false));
    assert_eq!(grid.part_at(0).due_call(), None, "leiden was not asked yet");
    assert!(grid.step_site(&site(1)) && grid.answer_due_call(&site(1), false));
    assert_eq!(
        (grid.part_at(0).due_call(), grid.part_at(1).due_call()),
        (None, None)
    );
    assert!(grid.step_site(&site(0)) && !grid.part_at(0).is_kept(NOW));
    assert_eq!(
        grid.part_at(0).due_call(),
        Some(SharedReservationCall::Confirm)
    );
}

#[test]
fn a_part_that_is_lost_before_all_keep_theirs_ends_all_and_later_only_itself() {
    let mut grid = RecordsAndSites::new(&[0, 0]);
    grid.request_everywhere(10);
    let names = [site(0), site(1)];
    while grid.part_at(0).joint_state() == JointReservationState::Looking {
        names.iter().for_each(|name| {
            let _ = grid.step_site(name) || grid.answer_due_call(name, false);
        });
    }
    let mut unlucky = grid.clone();
    while unlucky.part_at(1).due_call() != Some(SharedReservationCall::Confirm) {
        assert!(unlucky.step_site(&site(1)));
    }
    unlucky.answer_due_call(&site(1), true);
    unlucky.settle_all();
    assert_eq!(unlucky.count_held(), 0);
    unlucky.check_settled();
    grid.settle_all();
    let gone = [grid.part_at(0).serial].into();
    grid.apply_command(
        &site(0),
        SiteCommand::SharedMissing {
            gone,
            changed: [].into(),
        },
    )
    .unwrap();
    grid.sites.get_mut(&site(0)).unwrap().leases.clear();
    grid.settle_all();
    assert_eq!(
        grid.part_at(0).stage,
        SharedReservationStage::Ended(SharedReservationEnd::Lost)
    );
    assert!(grid.part_at(1).is_kept(NOW), "the rest stays");
    assert_eq!(
        grid.inspect_joint(|group| group.leading_part(NOW).map(|(at, _)| at.clone())),
        Some(site(1))
    );
    grid.check_settled();
}

#[test]
fn it_lasts_longer_at_all_sites_or_at_none() {
    for is_strict in [false, true] {
        let mut grid = RecordsAndSites::new(&[0, 0, 0]);
        grid.request_everywhere(10);
        grid.settle_all();
        grid.sites.get_mut(&site(1)).unwrap().is_strict = is_strict;
        for _ in 0..2 {
            let until = grid.inspect_joint(|group| group.end(NOW));
            let name = course_reservation();
            grid.apply_operation(
                0,
                OperatorCommand::ExtendReservation {
                    name,
                    until: until + HOUR,
                },
            )
            .unwrap();
            assert!(grid.inspect_joint(|group| group.is_extending(NOW)));
            grid.settle_all();
            assert!(!grid.inspect_joint(|group| group.is_extending(NOW)));
            let after = if is_strict { until } else { until + HOUR };
            assert_eq!(grid.inspect_joint(|group| group.end(NOW)), after);
            grid.check_settled();
        }
    }
}

#[test]
fn what_is_ordered_of_one_site_holds_at_all() {
    let mut grid = RecordsAndSites::new(&[0, 0, 0]);
    grid.request_everywhere(10);
    grid.settle_all();
    let access = ReservationAccessChange::Change {
        add: [key("carol")].into(),
        remove: [key("alice")].into(),
    };
    grid.apply_operation(
        0,
        OperatorCommand::AllowReservation {
            name: course_reservation(),
            access,
        },
    )
    .unwrap();
    grid.settle_all();
    assert!((0..3).all(|at| grid.part_at(at).allows_key(&key("carol"))
        && !grid.part_at(at).allows_key(&key("alice"))));
    grid.apply_operation(
        1,
        OperatorCommand::CancelReservation {
            name: course_reservation(),
        },
    )
    .unwrap();
    grid.settle_all();
    let cancelled =
        SharedReservationStage::Ended(SharedReservationEnd::Cancelled { by: key("ops") });
    assert_eq!(
        grid.stages(),
        [const { SharedReservationStage::Asked }; 3].map(|_| cancelled.clone())
    );
    assert_eq!(grid.count_held(), 0);
}

#[test]
fn a_change_of_who_may_use_it_never_leaves_nobody_nor_shuts_others_out_unsaid() {
    let mut grid = RecordsAndSites::new(&[0, 0]);
    grid.request_everywhere(10);
    let mut allow = |access: ReservationAccessChange| {
        grid.apply_operation(
            0,
            OperatorCommand::AllowReservation {
                name: course_reservation(),
                access,
            },
        )
    };
    let change = |add: &[&str], remove: &[&str]| {
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        ReservationAccessChange::Change {
            add: keys(add),
            remove: keys(remove),
        }
    };
    assert_eq!(
        allow(change(&[], &["alice"])),
        Err(SiteRejection::NobodyLeft)
    );
    assert_eq!(
        allow(change(&[], &["bob"])),
        Err(SiteRejection::NotAllowed { key: key("bob") })
    );
    assert_eq!(
        allow(change(&["alice"], &[])),
        Err(SiteRejection::AlreadySo)
    );
    assert_eq!(allow(ReservationAccessChange::Everybody), Ok(()));
    assert_eq!(
        allow(change(&["bob"], &[])),
        Err(SiteRejection::OpenToEverybody)
    );
    assert_eq!(
        allow(ReservationAccessChange::Only([key("bob")].into())),
        Ok(())
    );
    assert!(grid.part_at(0).allows_key(&key("bob")) && !grid.part_at(0).allows_key(&key("alice")));
}

proptest! {
    /// Whatever happens in whatever order: all keep theirs for about the same time, or nothing is
    /// left at any site; what was kept once and not lost is still there.
    #[test]
    fn in_any_order_all_reserve_or_none(
        free in prop::collection::vec(0_u64..200, 3),
        acts in prop::collection::vec((0_usize..3, 0_u8..20), 0..80),
    ) {
        let mut grid = RecordsAndSites::new(&free);
        grid.request_everywhere(100);
        let mut disturbed = false;
        for (at, act) in acts {
            let name = course_reservation();
            match act {
                0 => disturbed |= grid.answer_due_call(&site(at), true),
                1 if at == 0 => {
                    disturbed |= grid.apply_operation(0, OperatorCommand::CancelReservation { name }).is_ok();
                }
                2 if at == 0 => {
                    let until = grid.inspect_joint(|group| group.end(NOW)) + HOUR;
                    let _ = grid.apply_operation(0, OperatorCommand::ExtendReservation { name, until });
                }
                3 => {
                    let site = grid.sites.get_mut(&site(at)).unwrap();
                    site.is_strict = !site.is_strict;
                }
                _ if act % 2 == 0 => {
                    let _ = grid.step_site(&site(at));
                }
                _ => {
                    let _ = grid.answer_due_call(&site(at), false);
                }
            }
        }
        grid.settle_all();
        grid.check_settled();
        let kept = grid.part_at(0).joint_state() == JointReservationState::Kept;
        if !disturbed {
            prop_assert_eq!(kept, free.iter().all(|minutes| *minutes <= 100), "{:?}", grid);
        }
        if kept {
            let starts: BTreeSet<_> = (0..3).map(|at| grid.part_at(at).start()).collect();
            prop_assert!(starts.last().unwrap().since(*starts.first().unwrap()) <= MINUTE);
        }
    }
}
