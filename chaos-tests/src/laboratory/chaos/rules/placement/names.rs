//! Policies by their names, the rules that they place by, the network between sites, and what a
//! plan says of itself.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::{ComponentIndex, PolicyName, Seq, SiteName};
use cospan_domain::job::spec::{Flexible, Request};
use cospan_domain::placed::{DominantRefusal, PlacedBy, Placement, ReasonCode, Rule};
use cospan_domain::placement::policy::POLICIES;
use cospan_domain::placement::{
    Board, ComponentRequest, DefaultPolicies, History, Link, Network, PlacementRequest, Plan,
    Reason, Recorder, Refusal, Remaining, UnknownPolicy, find_policy, place, policy_for,
};
use cospan_domain::resources::Resources;
use cospan_domain::transfer::links::Links;
use cospan_domain::units::{BitsPerSecond, DurationMs, DurationUs, Timestamp};
use rand::Rng;
use rand::rngs::StdRng;

use super::ground_draws::{component, ground, site_name};

/// All of them in the order of the guide, and whether they split.
const POLICY_NAMES: [(&str, bool); 6] = [
    ("worst-fit", false),
    ("close-to-files", false),
    ("cluster-minimization", false),
    ("flexible-cluster-minimization", true),
    ("connected-cluster-minimization", false),
    ("connected-flexible-cluster-minimization", true),
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let checks =
        [policies(chance), unsuited(chance), network(chance), plans(chance), table(chance)];
    checks.into_iter().flatten().chain(rules()).collect()
}

/// How requests may be put on sites, and what that is called.
fn kinds() -> [(Request, &'static str); 3] {
    let flexible = Request::Flexible(Flexible::default());
    [(Request::Fixed, "fixed"), (Request::NonFixed, "non-fixed"), (flexible, "flexible")]
}

fn policies(chance: &mut StdRng) -> Option<String> {
    let mut told: Vec<&str> = POLICIES.iter().map(|policy| policy.name()).collect();
    let mut known: Vec<&str> = POLICY_NAMES.iter().map(|(name, _)| *name).collect();
    told.sort_unstable();
    known.sort_unstable();
    if told != known {
        return Some(format!("policies are called {told:?}"));
    }
    let (name, splits) = POLICY_NAMES[chance.random_range(0..6)];
    let (kind, word) = &kinds()[chance.random_range(0..3)];
    let named = PolicyName::new(name).ok()?;
    let serves = splits == matches!(kind, Request::Flexible(_));
    let others: Vec<&str> = (POLICIES.iter().map(|policy| policy.name()))
        .filter(|other| POLICY_NAMES.contains(&(*other, !splits)))
        .collect();
    let policy = find_policy(&named).ok()?;
    let right = match policy_for(&named, kind) {
        Ok(found) => serves && found.name() == name && found.serves(kind),
        Err(UnknownPolicy::WrongRequest { name: told, request, others: list }) => {
            let text = policy_for(&named, kind).err().map(|e| e.to_string()).unwrap_or_default();
            let all = [name, *word].iter().all(|word| text.contains(word));
            !serves && all && (told, request, list) == (name, *word, others.join(", "))
        }
        Err(UnknownPolicy::NoSuchName { .. }) => false,
    };
    let part = ComponentRequest::of_resources(Resources::processors(2));
    let parts = vec![part; chance.random_range(1..=3)];
    let many = parts.len() > 1;
    let request = PlacementRequest::new(named, kind.clone(), true, parts);
    let searches = name.starts_with("connected") && (splits || many);
    let effort = policy.effort(&request);
    let known = if searches { effort > 1 } else { effort == 1 };
    let keeps = policy.keeps_to_history() == (name == "close-to-files");
    let defaults = DefaultPolicies::default();
    let default = defaults.for_request(kind).as_str();
    let usual = match kind {
        Request::Flexible(_) => "flexible-cluster-minimization",
        Request::Fixed | Request::NonFixed => "worst-fit",
    };
    let right = right && known && keeps && default == usual;
    (!right).then(|| format!("{name} for {word} requests: {effort}, {default}"))
}

/// A policy that is gone, or cannot place such requests, places nothing and says so.
fn unsuited(chance: &mut StdRng) -> Option<String> {
    let ground = ground(chance);
    let (grid, part) = (ground.snapshot(), component(chance, &ground, 3));
    let gone = chance.random_bool(0.5);
    let (name, splits) = POLICY_NAMES[chance.random_range(0..6)];
    let (kind, word) =
        kinds().into_iter().find(|(kind, _)| matches!(kind, Request::Flexible(_)) != splits)?;
    let policy = PolicyName::new(if gone { "best-fit" } else { name }).ok()?;
    let request = PlacementRequest::new(policy.clone(), kind, true, vec![part]);
    let (mut remaining, mut recorder) = (Remaining::of(&grid), Recorder::default());
    let before = remaining.clone();
    let told = place(
        &request,
        &mut Board {
            grid: &grid,
            remaining: &mut remaining,
            history: &mut History::All,
            observer: &mut recorder,
        },
    );
    let reason = match gone {
        true => Reason::PolicyUnknown(policy.clone()),
        false => Reason::PolicyUnsuited { policy: policy.clone(), request: word },
    };
    let ought = Err(Refusal { component: ComponentIndex(0), site: None, reason });
    let unknown = find_policy(&policy).err().map(|e| (e.to_string(), e));
    let says = match unknown {
        None => !gone,
        Some((text, UnknownPolicy::NoSuchName { name, known })) => {
            let all = POLICY_NAMES.iter().all(|(name, _)| {
                known.split(", ").any(|known| known == *name) && text.contains(name)
            });
            gone && all && name == "best-fit" && text.contains("best-fit")
        }
        Some((_, UnknownPolicy::WrongRequest { .. })) => false,
    };
    let right = told == ought && remaining == before && recorder.verdicts.is_empty() && says;
    (!right).then(|| format!("{request:?} by {policy} comes to {told:?}"))
}

/// The last that is said of a link counts; what is not known carries nothing.
fn network(chance: &mut StdRng) -> Option<String> {
    let names: Vec<SiteName> = (0..4).filter_map(site_name).collect();
    let mut known: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    let mut said: Vec<(usize, usize, u64)> = Vec::new();
    for _ in 0..chance.random_range(0..6) {
        let (from, to) = (chance.random_range(0..4), chance.random_range(0..4));
        let bits = [0, 5, 7, 1_000_000][chance.random_range(0..4)];
        known.insert((from, to), bits);
        said.push((from, to, bits));
    }
    let named = |(from, to, bits): &(usize, usize, u64)| {
        (names[*from].clone(), names[*to].clone(), BitsPerSecond(*bits))
    };
    let mut links = Links::default();
    said.iter().map(named).for_each(|(from, to, rate)| links.set(from, to, rate));
    let mut network = Network::from_links(said.iter().map(named));
    let of_links = Network::of(&links);
    let carries = |network: &Network, known: &BTreeMap<(usize, usize), u64>| {
        (0..4).all(|from| {
            (0..4).all(|to| {
                let rate = known.get(&(from, to)).copied().unwrap_or(0);
                network.bandwidth(&names[from], &names[to]) == BitsPerSecond(rate)
            })
        })
    };
    let same = network == of_links && carries(&network, &known) && carries(&of_links, &known);
    let empty = Network::default() == Network::from_links([]);
    // A link is set where both of its ends have links.
    let (from, to) = (chance.random_range(0..4), chance.random_range(0..4));
    let rate = BitsPerSecond(9);
    let (one, other) = (names[from].clone(), names[to].clone());
    network.set(&Link { from: one, to: other, bandwidth: rate, latency: DurationUs(3) });
    let ends: BTreeSet<usize> = known.keys().flat_map(|(from, to)| [*from, *to]).collect();
    if ends.contains(&from) && ends.contains(&to) {
        known.insert((from, to), 9);
    }
    let right = same && empty && carries(&network, &known);
    (!right).then(|| format!("{said:?} make {network:?} or {of_links:?}"))
}

/// When a job starts, how many sites it combines, and what is kept of it.
fn plans(chance: &mut StdRng) -> Option<String> {
    let sites: Vec<SiteName> = (0..chance.random_range(0..5))
        .filter_map(|_| site_name(chance.random_range(0..3)))
        .collect();
    let transfer_time = DurationMs(chance.random_range(0..1_000));
    let placement = |site: &SiteName| Placement {
        site: site.clone(),
        sources: Vec::new(),
        transfer_time,
        share: None,
    };
    let policy = PolicyName::new("worst-fit").ok()?;
    let rule = Rule::ALL[chance.random_range(0..8)];
    let placements = sites.iter().map(placement).collect();
    let plan = Plan { seq: Seq(1), policy: policy.clone(), rule, placements, transfer_time };
    let at = Timestamp(chance.random_range(1..1_000));
    let refused = chance.random_bool(0.5).then_some(DominantRefusal {
        code: ReasonCode::ALL[chance.random_range(0..28)],
        sites: chance.random_range(1..5),
    });
    let right = plan.start_time(at) == Timestamp(at.0 + transfer_time.0)
        && plan.sites_combined() == sites.iter().collect::<BTreeSet<_>>().len()
        && plan.placed_by(refused) == PlacedBy { policy, rule, refused };
    (!right).then(|| format!("{plan:?} at {at:?}"))
}

/// The history table: every pair, or those that were put in.
fn table(chance: &mut StdRng) -> Option<String> {
    let names: Vec<SiteName> = (0..3).filter_map(site_name).collect();
    let (mut all, mut some) = (History::default(), History::Pairs(BTreeSet::new()));
    let mut known: BTreeSet<(usize, usize)> = BTreeSet::new();
    for _ in 0..5 {
        let pair = (chance.random_range(0..3), chance.random_range(0..3));
        let (at, from) = (&names[pair.0], &names[pair.1]);
        let had = known.contains(&pair);
        let asked = (some.has(at, from), all.has(at, from));
        let is_new = known.insert(pair);
        let put = (some.insert(at.clone(), from.clone()), all.insert(at.clone(), from.clone()));
        if asked != (had, true) || put != (is_new, false) || all != History::All {
            return Some(format!("{pair:?} of {known:?}: {asked:?}, {put:?}"));
        }
    }
    None
}

/// Names and words of rules are all different, and the one that counts for a job is the last.
fn rules() -> Option<String> {
    let names: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    let words: BTreeSet<String> = Rule::ALL.iter().map(Rule::to_string).collect();
    let is_word =
        |text: &str| text.len() > 5 && text.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let right = names.len() == 8
        && words.len() == 8
        && names.iter().all(|name| is_word(name))
        && words.iter().all(|text| text.contains(' '))
        && Rule::ALL.is_sorted();
    (!right).then(|| format!("rules are called {names:?}: {words:?}"))
}
