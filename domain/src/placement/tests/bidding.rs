//! A round of bids in messages comes to what the policy comes to on a snapshot.

use std::sync::Arc;

use proptest::prelude::*;

use super::drawn::{DrawnScene, any_scene};
use crate::bid::{
    BidRefusal, BidRound, BidTerms, DimensionWeight, DimensionWeights, JobAnnouncements,
};
use crate::deduction::{DeductedAmounts, DeductionKey, DeductionLedger};
use crate::ids::{JobId, SiteName};
use crate::placement::placement_by_bids::{
    AnnouncedNeed, BidRoundBasis, BidWithResources, is_placed_by_bids,
};
use crate::placement::policies::MultipleResources;
use crate::placement::testing::*;
use crate::placement::*;
use crate::resources::Resources;
use crate::units::{BitsPerSecond, DurationMs, Mflops, Timestamp};

/// What is drawn beside sites, files and links.
#[derive(Debug, Clone)]
struct BiddingScene {
    drawn: DrawnScene,
    powers: Vec<Option<u32>>,
    gflops: u64,
    weights: Vec<u32>,
    run_time: u64,
    local_rate: Option<u64>,
    /// Promised to others, by site.
    promised: Vec<u32>,
    /// In which order the answers come, and after which of them the time is over.
    arrival: Vec<usize>,
}

fn any_bidding_scene() -> impl Strategy<Value = BiddingScene> {
    let powers = prop::collection::vec(
        prop_oneof![1 => Just(None), 4 => (1..9u32).prop_map(Some)],
        5,
    );
    let gflops = prop_oneof![3 => Just(0u64), 1 => 1..20u64];
    let weights = prop::collection::vec(0..3_000u32, 5);
    let promised = prop::collection::vec(prop_oneof![2 => Just(0u32), 1 => 1..9u32], 5);
    let arrival = Just((0..5usize).collect::<Vec<_>>()).prop_shuffle();
    let local_rate = prop_oneof![Just(None), (1..9u64).prop_map(Some)];
    let terms = (weights, 1..10_000u64, local_rate);
    (
        any_scene(1..4),
        any::<bool>(),
        powers,
        gflops,
        terms,
        promised,
        arrival,
    )
        .prop_map(
            |(drawn, flexible, powers, gflops, terms, promised, arrival)| {
                let drawn = if flexible {
                    drawn.with_split_policy(&FlexiblePolicyStub, 1)
                } else {
                    drawn.with_policy(&MultipleResources)
                };
                let (weights, run_time, local_rate) = terms;
                BiddingScene {
                    drawn,
                    powers,
                    gflops,
                    weights,
                    run_time,
                    local_rate,
                    promised,
                    arrival,
                }
            },
        )
}

/// Draws flexible requests for the policy.
struct FlexiblePolicyStub;

impl Policy for FlexiblePolicyStub {
    fn name(&self) -> &'static str {
        MultipleResources::NAME
    }

    fn serves(&self, request: &crate::job::spec::RequestType) -> bool {
        matches!(request, crate::job::spec::RequestType::Flexible(_))
    }

    fn place(
        &self,
        _: &PlacementRequest,
        _: &mut PlacementContext<'_>,
    ) -> Result<PlacementPlan, PlacementRefusal> {
        unreachable!("it only lends its name")
    }
}

impl BiddingScene {
    fn request(&self) -> Arc<PlacementRequest> {
        let drawn = &self.drawn.request;
        let mut parts = drawn.components().to_vec();
        if let (Some(total), [whole]) = (drawn.total_resources(), parts.as_mut_slice()) {
            whole.resources = total.clone();
        }
        parts[0].gflops = self.gflops;
        let weights = self
            .weights
            .iter()
            .map(|w| DimensionWeight::from_thousandths(*w).unwrap());
        let names = ["compute", "memory", "disk", "potential", "data"];
        let weights =
            DimensionWeights::from_named(names.into_iter().zip(weights)).unwrap_or_default();
        let terms = BidTerms {
            run_time: DurationMs::from_secs(self.run_time),
            weights,
            local_rate: self.local_rate.map(|rate| BitsPerSecond(rate * MBIT)),
        };
        let policy = drawn.policy().clone();
        let kind = drawn.request_type().clone();
        Arc::new(PlacementRequest::new(policy, kind, true, parts).with_bid_terms(terms))
    }

    fn sites_with_power(&self) -> Vec<GridSite> {
        let sites = self.drawn.sites.iter().zip(&self.powers);
        let power = |power: &Option<u32>| power.map(|gflops| Mflops(u64::from(gflops) * 1_000));
        sites
            .map(|(site, p)| GridSite {
                power_per_processor: power(p),
                ..site.clone()
            })
            .collect()
    }

    /// With what is promised to others.
    fn ledger_with_promises(&self, sites: &[GridSite]) -> DeductionLedger {
        let mut ledgers = DeductionLedger::default();
        let other = ledgers.register_holder();
        let key = ledgers.open_plan(JobId(99), crate::ids::Round(0), other, Timestamp(u64::MAX));
        for (site, promised) in sites.iter().zip(&self.promised) {
            let at = ledgers.ledger_number(&site.name);
            ledgers.deduct(
                &key,
                at,
                DeductedAmounts::for_proposal(Resources::processors(*promised)),
            );
        }
        ledgers
    }
}

/// One site: all that it knows is its own.
struct SiteActor {
    site: GridSite,
    desk: JobAnnouncements<AnnouncedNeed>,
}

impl SiteActor {
    fn answer_announcement(
        &mut self,
        (job, asked): (JobId, Option<AnnouncedNeed>),
        ground: &BidRoundBasis,
        ledgers: &mut DeductionLedger,
        key: &DeductionKey,
    ) -> Result<BidWithResources, BidRefusal> {
        let index = ground.grid().index_of(&self.site.name).unwrap();
        let asked = self.desk.record_announcement(job, asked.as_ref()).unwrap();
        let mut free = self.site.usable_resources();
        if let Some(promised) = ledgers.total_deducted_at(&self.site.name) {
            free.subtract(&promised.placing);
        }
        if let Some(own) = ledgers.deducted_for_plan(key, &self.site.name) {
            free.add(&own.placing);
        }
        let given = asked.answer_for_site(ground, index, &free)?;
        let at = ledgers.ledger_number(&self.site.name);
        ledgers.deduct(
            key,
            at,
            DeductedAmounts::for_proposal(given.resources.clone()),
        );
        Ok(given)
    }
}

fn without_promised(sites: &[GridSite], ledgers: &DeductionLedger) -> Vec<GridSite> {
    sites
        .iter()
        .map(|site: &GridSite| {
            let mut site = site.clone();
            if let Some(promised) = ledgers.total_deducted_at(&site.name) {
                site.pending.add(&promised.placing);
            }
            site
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn a_round_of_messages_comes_to_what_the_policy_finds_on_a_snapshot(scene in any_bidding_scene()) {
        let request = scene.request();
        let sites = scene.sites_with_power();
        let mut ledgers = scene.ledger_with_promises(&sites);
        let before = ledgers.clone();
        prop_assert!(is_placed_by_bids(&request));
        let snapshot = scene.drawn.grid_of(without_promised(&sites, &ledgers));
        let expected = place_on_grid(&request, &snapshot);

        let ground = BidRoundBasis::new(&request, Arc::new(scene.drawn.grid_of(sites.clone())));
        let holder = ledgers.register_holder();
        let job = JobId(1);
        let key = ledgers.open_plan(job, crate::ids::Round(0), holder, Timestamp(5_000));
        let mut actors: Vec<SiteActor> =
            sites.iter().map(|site| SiteActor { site: site.clone(), desk: JobAnnouncements::new(9) }).collect();
        let count = actors.len();
        for (turn, by_id_alone) in [false, true].into_iter().enumerate() {
            let mut round = BidRound::new(count);
            for &index in scene.arrival.iter().filter(|index| **index < count) {
                let asked = (!by_id_alone).then(|| AnnouncedNeed::new(request.clone()));
                let name = &actors[index].site.name;
                let at = ground.grid().index_of(name).unwrap();
                let answer = actors[index].answer_announcement((job, asked), &ground, &mut ledgers, &key);
                round.record_answer(at, answer);
            }
            prop_assert!(round.is_complete());
            prop_assert_eq!(round.messages(), 2 * count as u64);
            let answers = round.close_bid_round();
            let left = RemainingResources::of_grid(ground.grid());
            let decided = AnnouncedNeed::new(request.clone()).place_by_answers(&ground, &answers, &left);
            let decided = decided.map(|(plan, _)| plan);
            prop_assert_eq!(&decided.as_ref().ok(), &expected.as_ref().ok(), "turn {}", turn);
            prop_assert_eq!(decided.is_err(), expected.is_err());
        }
        // The round is over: what was free is free again.
        ledgers.end_plan(&key);
        for site in &sites {
            prop_assert_eq!(free_processors(&ledgers, &site.name), free_processors(&before, &site.name));
        }
    }
}

fn free_processors(ledgers: &DeductionLedger, site: &SiteName) -> u32 {
    ledgers
        .total_deducted_at(site)
        .map_or(0, |sum| sum.placing.processors)
}

/// Two jobs at a site of ten (vector MRS-6).
#[test]
fn what_is_deducted_for_one_job_is_not_free_for_the_next() {
    let one = [open_site("S", 10)];
    let request = |processors| Arc::new(with_policy("mrs", &request(vec![component(processors)])));
    let job_a = AnnouncedNeed::new(request(6));
    let job_b = AnnouncedNeed::new(request(6));
    let ground = BidRoundBasis::new(job_a.request(), Arc::new(grid(one.clone())));
    let mut ledgers = DeductionLedger::default();
    let holder = ledgers.register_holder();
    let open = |ledgers: &mut DeductionLedger, job| {
        ledgers.open_plan(JobId(job), Default::default(), holder, Timestamp(9))
    };
    let a = open(&mut ledgers, 1);
    let b = open(&mut ledgers, 2);
    let mut actor = SiteActor {
        site: one[0].clone(),
        desk: JobAnnouncements::new(9),
    };
    let mut hears = |job, asked: &AnnouncedNeed, ledgers: &mut DeductionLedger, key| {
        let given = actor
            .answer_announcement((JobId(job), Some(asked.clone())), &ground, ledgers, key)
            .unwrap();
        let promised = free_processors(ledgers, &site_name("S"));
        ((given.bid.distance * 1e6).round() / 1e6, 10 - promised)
    };
    assert_eq!(hears(1, &job_a, &mut ledgers, &a), (0.0, 4));
    assert_eq!(
        hears(1, &job_a, &mut ledgers, &a),
        (0.0, 4),
        "again: nothing is deducted twice"
    );
    assert_eq!(hears(2, &job_b, &mut ledgers, &b), (0.333_333, 0));
    let free = |ledgers: &DeductionLedger| 10 - free_processors(ledgers, &site_name("S"));
    ledgers.end_plan(&a);
    assert_eq!(free(&ledgers), 6);
    ledgers.end_plan(&b);
    assert_eq!(free(&ledgers), 10);
}

#[test]
fn a_site_that_does_not_answer_is_passed_over_and_the_next_is_taken() {
    let sites = [open_site("A", 10), open_site("B", 8), open_site("C", 6)];
    let job = AnnouncedNeed::new(Arc::new(with_policy("mrs", &request(vec![component(6)]))));
    let ground = BidRoundBasis::new(job.request(), Arc::new(grid(sites.clone())));
    let answer =
        |index: usize| job.answer_for_site(&ground, index, &sites[index].usable_resources());
    let mut round = BidRound::new(3);
    round.record_answer(1, answer(1));
    round.record_answer(2, answer(2));
    let left = RemainingResources::of_grid(ground.grid());
    let (plan, by) = job
        .place_by_answers(&ground, &round.close_bid_round(), &left)
        .unwrap();
    assert_eq!((sites_of(&plan), by.policy.as_str()), (vec!["B"], "mrs"));
    let nobody = [
        Err(BidRefusal::Silent),
        Err(BidRefusal::NothingFree),
        Err(BidRefusal::Silent),
    ];
    assert!(job.place_by_answers(&ground, &nobody, &left).is_err());
}
