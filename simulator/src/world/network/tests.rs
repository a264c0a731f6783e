use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::{
    BitsPerSecond, Bytes, DurationMs, FlowId, MILLI, NetworkError, SimulatedNetwork, SiteName,
    Timestamp,
};

const SITES: [&str; 4] = ["a", "b", "c", "d"];

fn site(at: usize) -> SiteName {
    SiteName::new(SITES[at]).unwrap()
}

#[derive(Debug, Clone)]
enum NetworkChange {
    Start {
        from: usize,
        to: usize,
        bytes: u64,
        limit: Option<u64>,
    },
    Stop {
        id: u64,
    },
    SetCapacity {
        from: usize,
        to: usize,
        capacity: u64,
    },
    SetUpLink {
        at: usize,
        capacity: u64,
    },
}

fn any_changes() -> impl Strategy<Value = Vec<(u64, NetworkChange)>> {
    let at = || 0..SITES.len();
    let start = (
        at(),
        at(),
        0..9_000_000_u64,
        proptest::option::of(1..99_999_u64),
    );
    let change = prop_oneof![
        6 => start.prop_map(|(from, to, bytes, limit)| NetworkChange::Start { from, to, bytes, limit }),
        1 => (0..40_u64).prop_map(|id| NetworkChange::Stop { id }),
        1 => (at(), at(), 0..999_999_u64)
            .prop_map(|(from, to, capacity)| NetworkChange::SetCapacity { from, to, capacity }),
        1 => (at(), 0..999_999_u64).prop_map(|(at, capacity)| NetworkChange::SetUpLink { at, capacity }),
    ];
    vec((0..99_999_u64, change), 1..60)
}

/// All pairs of sites linked; two sites with an up-link, two with a down-link.
fn linked_network() -> SimulatedNetwork {
    let mut network = SimulatedNetwork::new();
    let now = Timestamp(0);
    for from in 0..SITES.len() {
        for to in 0..SITES.len() {
            let capacity = BitsPerSecond(100_003 * (1 + from as u64) + 7 * to as u64);
            network.set_link(&site(from), &site(to), capacity, DurationMs(13), now);
        }
    }
    network.set_up_link(&site(0), BitsPerSecond(150_001), now);
    network.set_up_link(&site(1), BitsPerSecond(90_001), now);
    network.set_down_link(&site(1), BitsPerSecond(200_003), now);
    network.set_down_link(&site(2), BitsPerSecond(50_021), now);
    network
}

fn apply_change(network: &mut SimulatedNetwork, id: u64, change: &NetworkChange, now: Timestamp) {
    match *change {
        NetworkChange::Start {
            from,
            to,
            bytes,
            limit,
        } => network
            .start_flow(
                FlowId(id),
                &site(from),
                &site(to),
                Bytes(bytes),
                limit.map(BitsPerSecond),
                now,
            )
            .unwrap(),
        NetworkChange::Stop { id } => drop(network.stop_flow(FlowId(id), now)),
        NetworkChange::SetCapacity { from, to, capacity } => {
            network
                .set_capacity(&site(from), &site(to), BitsPerSecond(capacity), now)
                .unwrap();
        }
        NetworkChange::SetUpLink { at, capacity } => {
            network.set_up_link(&site(at), BitsPerSecond(capacity), now);
        }
    }
}

/// Plays the changes; `look` sees the network after each.
fn play_changes(
    changes: &[(u64, NetworkChange)],
    mut look: impl FnMut(&mut SimulatedNetwork, Timestamp),
) -> SimulatedNetwork {
    let mut network = linked_network();
    let mut now = Timestamp(0);
    for (id, (gap, change)) in changes.iter().enumerate() {
        now = now + DurationMs(*gap);
        apply_change(&mut network, id as u64, change, now);
        look(&mut network, now);
    }
    network
}

fn used_rate(network: &SimulatedNetwork, channel: usize) -> u128 {
    network.channels[channel]
        .flows
        .iter()
        .map(|id| network.flows[id].rate)
        .sum()
}

proptest! {
    #[test]
    fn no_channel_and_no_flow_goes_beyond_its_limit(changes in any_changes()) {
        play_changes(&changes, |network, _| {
            for (id, sharer) in &network.sharers {
                assert!(sharer.limit.is_none_or(|limit| network.flows[id].rate <= limit));
            }
            for (at, channel) in network.channels.iter().enumerate() {
                assert!(used_rate(network, at) <= channel.capacity);
            }
        });
    }

    /// The definition of max-min fairness by bottlenecks: each flow is at its
    /// limit, or crosses a full channel on which no flow has more. A rate is
    /// rounded down by less than one unit for each flow of the channel.
    #[test]
    fn no_flow_can_get_more_but_from_one_that_has_no_more_than_it(changes in any_changes()) {
        play_changes(&changes, |network, _| {
            for (id, sharer) in &network.sharers {
                let rate = network.flows[id].rate;
                let held_back = sharer.crosses.iter().any(|at| {
                    let channel = &network.channels[*at];
                    let slack = channel.flows.len() as u128;
                    let most = channel.flows.iter().map(|id| network.flows[id].rate).max();
                    used_rate(network, *at) + slack > channel.capacity
                        && most.is_some_and(|most| most <= rate + slack)
                });
                assert!(held_back || sharer.limit == Some(rate), "flow {id} could have more");
            }
        });
    }

    #[test]
    fn rates_of_the_affected_flows_alone_are_the_rates_of_all_shared_anew(changes in any_changes()) {
        play_changes(&changes, |network, _| {
            let all: Vec<usize> = (0..network.channels.len()).collect();
            let anew = super::fairness::fair_rates(&network.channels, &network.sharers, &all);
            let anew: BTreeMap<FlowId, u128> = anew.into_iter().collect();
            let kept: BTreeMap<_, _> = network.flows.iter().map(|(id, f)| (*id, f.rate)).collect();
            assert_eq!(anew, kept);
        });
    }

    #[test]
    fn bytes_arrive_once_and_never_faster_than_the_rates(changes in any_changes()) {
        let mut before: BTreeMap<FlowId, (Timestamp, u64, u128)> = BTreeMap::new();
        play_changes(&changes, |network, now| {
            for (id, flow) in &network.flows {
                let done = flow.bytes_done_at(now).0;
                assert!(done <= flow.bytes.0);
                if let Some((at, earlier, fastest)) = before.get(id).copied() {
                    let most = fastest * u128::from(now.since(at).0) / (8000 * MILLI) + 1;
                    assert!(done >= earlier && u128::from(done - earlier) <= most);
                }
                before.insert(*id, (now, done, 1_000_000 * MILLI));
            }
        });
    }

    #[test]
    fn every_flow_completes_at_the_time_foretold_once_all_links_are_up(changes in any_changes()) {
        let started = |(_, change): &&(u64, NetworkChange)| matches!(change, NetworkChange::Start { .. });
        let mut gone: Vec<FlowId> = Vec::new();
        let mut network = play_changes(&changes, |network, now| gone.extend(network.take_completed(now)));
        let now = network.latest;
        for at in 0..SITES.len() {
            network.set_up_link(&site(at), BitsPerSecond(1_000_000), now);
            for to in 0..SITES.len() {
                let capacity = BitsPerSecond(1_000);
                network.set_capacity(&site(at), &site(to), capacity, now).unwrap();
            }
        }
        while let Some((at, id)) = network.next_completion() {
            prop_assert!(network.take_completed(at - DurationMs(1)).is_empty());
            let now_gone = network.take_completed(at);
            prop_assert_eq!(now_gone.first(), Some(&id));
            gone.extend(now_gone);
        }
        prop_assert_eq!(network.flow_count(), 0);
        let count = gone.len();
        gone.sort_unstable();
        gone.dedup();
        prop_assert_eq!(gone.len(), count, "completed twice");
        prop_assert!(count <= changes.iter().filter(started).count());
    }

    #[test]
    fn a_flow_alone_takes_the_latency_and_the_time_of_its_bytes(
        bytes in 0..u64::MAX, capacity in 1..u64::MAX, latency in 0..9999_u64,
    ) {
        let mut network = SimulatedNetwork::new();
        let capacity = BitsPerSecond(capacity);
        let latency = DurationMs(latency);
        network.set_link(&site(0), &site(1), capacity, latency, Timestamp(0));
        network.start_flow(FlowId(1), &site(0), &site(1), Bytes(bytes), None, Timestamp(5)).unwrap();
        let time = latency + Bytes(bytes).transfer_time(capacity).unwrap();
        prop_assert_eq!(network.next_completion(), Some((Timestamp(5) + time, FlowId(1))));
    }
}

fn one_link(capacity: u64) -> SimulatedNetwork {
    let mut network = SimulatedNetwork::new();
    network.set_link(
        &site(0),
        &site(1),
        BitsPerSecond(capacity),
        DurationMs(0),
        Timestamp(0),
    );
    network
}

fn start_flow(network: &mut SimulatedNetwork, id: u64, bytes: u64, limit: Option<u64>, now: u64) {
    let limit = limit.map(BitsPerSecond);
    let from = site(0);
    let to = site(1);
    network
        .start_flow(FlowId(id), &from, &to, Bytes(bytes), limit, Timestamp(now))
        .unwrap();
}

#[test]
fn a_cut_link_keeps_what_has_arrived_and_goes_on_when_restored() {
    let mut network = one_link(8000);
    start_flow(&mut network, 1, 10_000, None, 0);
    let set = |network: &mut SimulatedNetwork, capacity, now| {
        network
            .set_capacity(&site(0), &site(1), BitsPerSecond(capacity), Timestamp(now))
            .unwrap();
    };
    set(&mut network, 0, 4000);
    assert_eq!(network.next_completion(), None);
    assert_eq!(
        network.bytes_arrived(FlowId(1), Timestamp(900_000)),
        Some(Bytes(4000))
    );
    set(&mut network, 8000, 1_000_000);
    assert_eq!(
        network.next_completion(),
        Some((Timestamp(1_006_000), FlowId(1)))
    );
}

#[test]
fn what_a_limited_flow_leaves_goes_to_the_others() {
    let mut network = one_link(9000);
    start_flow(&mut network, 1, 10_000, Some(1000), 0);
    start_flow(&mut network, 2, 10_000, None, 0);
    start_flow(&mut network, 3, 10_000, None, 0);
    let rates = [1, 2, 3].map(|id| network.flow_rate(FlowId(id)).unwrap().0);
    assert_eq!(rates, [1000, 4000, 4000]);
}

#[test]
fn the_end_of_a_flow_speeds_up_the_others_even_if_it_is_fetched_late() {
    let mut network = one_link(8000);
    start_flow(&mut network, 1, 1000, None, 0);
    start_flow(&mut network, 2, 3000, None, 0);
    assert_eq!(
        network.next_completion(),
        Some((Timestamp(2000), FlowId(1)))
    );
    assert_eq!(
        network.take_completed(Timestamp(4000)),
        [FlowId(1), FlowId(2)]
    );
}

#[test]
fn a_stopped_flow_returns_its_bytes_and_is_forgotten() {
    let mut network = one_link(8000);
    start_flow(&mut network, 1, 10_000, None, 0);
    assert_eq!(
        network.stop_flow(FlowId(1), Timestamp(2500)),
        Some(Bytes(2500))
    );
    assert_eq!(network.stop_flow(FlowId(1), Timestamp(2500)), None);
    assert_eq!(network.next_completion(), None);
}

#[test]
fn a_flow_over_no_link_or_with_a_known_number_is_refused() {
    let mut network = one_link(8000);
    start_flow(&mut network, 1, 10_000, None, 0);
    let mut again = |from, to| {
        network.start_flow(
            FlowId(1),
            &site(from),
            &site(to),
            Bytes(1),
            None,
            Timestamp(0),
        )
    };
    assert_eq!(
        again(0, 1),
        Err(NetworkError::AlreadyKnown { id: FlowId(1) })
    );
    let mut other = one_link(8000);
    assert_eq!(
        other.start_flow(FlowId(2), &site(1), &site(0), Bytes(1), None, Timestamp(0)),
        Err(NetworkError::NoLink {
            from: site(1),
            to: site(0)
        })
    );
}
