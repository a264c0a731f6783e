//! How reasons are told: each by a name of its own, in the order of how lasting it is, and with
//! everything that it is about.

use std::collections::BTreeSet;
use std::sync::Arc;

use cospan_domain::ids::{ComponentIndex, Digest, PolicyName, SiteName};
use cospan_domain::labels::{Constraint, Rule};
use cospan_domain::placed::ReasonCode;
use cospan_domain::placement::{Hindrance, Observer, Outcome, Reason, Recorder};
use cospan_domain::placement::{Refusal, Silent, SiteVerdict, Unplaceable};
use cospan_domain::resources::Shortage;
use cospan_domain::units::Bytes;
use rand::Rng;
use rand::rngs::StdRng;

use super::ground_draws::{HINDRANCES, site_name};

/// What may pass by itself first, then what needs an operator, then what never changes.
const CODES: [&str; 28] = [
    "not-enough-idle",
    "quota-reached",
    "site-full",
    "staging-full",
    "avoided-after-error",
    "no-split",
    "not-in-history",
    "no-bandwidth",
    "replica-unreachable",
    "no-replica",
    "probing",
    "isolated",
    "site-unreachable",
    "site-unknown",
    "maintenance",
    "frozen",
    "draining",
    "drained",
    "credentials-expired",
    "site-unusable",
    "quota-too-small",
    "too-small",
    "label-mismatch",
    "no-such-site",
    "not-the-named-site",
    "no-sites",
    "policy-unsuited",
    "policy-unknown",
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found = Vec::new();
    if chance.random_bool(0.7) {
        // There is not much to be drawn here.
        return found;
    }
    let Some(reasons) = drawn(chance) else { return found };
    let texts: BTreeSet<String> = reasons.iter().map(|told| told.reason.to_string()).collect();
    let codes = ReasonCode::ALL.iter().map(|code| code.as_str());
    if texts.len() != reasons.len() || !codes.eq(CODES) || !ReasonCode::ALL.is_sorted() {
        found.push(format!("two of {reasons:?} are told alike"));
    }
    found.extend(reasons.iter().filter_map(Told::wrong));
    let at = chance.random_range(0..reasons.len());
    found.extend(refusal(chance, &reasons[at].reason));
    found.extend(unplaceable(chance, &reasons[at].reason));
    found.extend(observers(chance, &reasons[at].reason));
    found
}

/// A reason, its name, and what is said of it.
#[derive(Debug)]
struct Told {
    reason: Reason,
    code: &'static str,
    says: Vec<String>,
}

impl Told {
    fn wrong(&self) -> Option<String> {
        let text = self.reason.to_string();
        let right = self.says.iter().all(|word| text.contains(word))
            && text.len() > 10
            && self.reason.code().as_str() == self.code;
        (!right).then(|| format!("{self:?} is {:?}: {text}", self.reason.code()))
    }
}

/// One of each kind, with numbers that are told apart.
fn drawn(chance: &mut StdRng) -> Option<Vec<Told>> {
    let mut numbers = (100_u64..).step_by(chance.random_range(1..90));
    let mut number = || numbers.next().unwrap_or(0);
    let [needed, second, third, fourth, fifth] = [(); 5].map(|()| number());
    let resource: Arc<str> = ["processors", "gpus"][chance.random_range(0..2)].into();
    let (one, other) = (site_name(chance.random_range(0..4))?, site_name(7)?);
    let (digest, policy) =
        (Digest([chance.random_range(1..9); 32]), PolicyName::new("my-own").ok()?);
    let constraint = Constraint { key: "arch".into(), rule: Rule::Is("arm64".into()) };
    let (total, min, sites) = (second as u32, third as u32, fourth as u32);
    let kind = &resource;
    let word = |word: &dyn ToString| word.to_string();
    let three = |last: u64| vec![word(&needed), word(kind), word(&last)];
    let resource = || resource.clone();
    let of_idle = |made_up: u64| Reason::NotEnoughIdle {
        resource: resource(),
        needed,
        idle: second,
        made_up,
        pending: third,
        missing: fourth,
    };
    let idle = || vec![word(&needed), word(kind), word(&second), word(&third), word(&fourth)];
    let bytes = (Bytes(needed * 1_000), Bytes(second * 1_000));
    let mut all = vec![
        (of_idle(0), 0, idle()),
        (of_idle(fifth), 0, [idle(), vec![word(&fifth)]].concat()),
        (Reason::QuotaReached { resource: resource(), needed, usable: second }, 1, three(second)),
        (Reason::SiteFull, 2, vec![]),
        (
            Reason::StagingFull { needed: bytes.0, left: bytes.1 },
            3,
            vec![word(&bytes.0), word(&bytes.1)],
        ),
        (Reason::Avoided, 4, vec![]),
        (
            Reason::NoSplit { total, min, sites, usable: fifth },
            5,
            vec![word(&total), word(&min), word(&sites), word(&fifth)],
        ),
        (Reason::NotInHistory, 6, vec!["history_seed".to_owned()]),
        (
            Reason::NoBandwidth { from: one.clone(), to: other.clone() },
            7,
            vec![format!("from {one}"), format!("to {other}")],
        ),
        (
            Reason::ReplicaUnreachable { digest, at: one.clone() },
            8,
            vec![word(&digest), word(&one)],
        ),
        (Reason::NoReplica { digest }, 9, vec![word(&digest)]),
        (Reason::QuotaTooSmall { resource: resource(), needed, quota: third }, 20, three(third)),
        (Reason::TooSmall { resource: resource(), needed, largest: fourth }, 21, three(fourth)),
        (Reason::LabelMismatch(constraint), 22, vec!["arch".to_owned(), "arm64".to_owned()]),
        (Reason::NoSuchSite(one.clone()), 23, vec![word(&one)]),
        (Reason::NotTheNamedSite(one.clone()), 24, vec![word(&one)]),
        (Reason::NoSites, 25, vec![]),
        (
            Reason::PolicyUnsuited { policy: policy.clone(), request: "flexible" },
            26,
            vec![word(&policy), "flexible".to_owned()],
        ),
        (Reason::PolicyUnknown(policy.clone()), 27, vec![word(&policy)]),
    ];
    let closed = HINDRANCES.iter().map(|why| (Reason::Closed(*why), place(*why), vec![word(why)]));
    all.extend(closed);
    let told = all.into_iter();
    Some(told.map(|(reason, at, says)| Told { reason, code: CODES[at], says }).collect())
}

/// Where it stands among all codes.
fn place(hindrance: Hindrance) -> usize {
    match hindrance {
        Hindrance::Probing => 10,
        Hindrance::Isolated => 11,
        Hindrance::Unreachable => 12,
        Hindrance::Unknown => 13,
        Hindrance::Maintenance => 14,
        Hindrance::Frozen => 15,
        Hindrance::Draining => 16,
        Hindrance::Drained => 17,
        Hindrance::CredentialsExpired => 18,
        Hindrance::Unusable => 19,
    }
}

/// A refusal names its component, by its name if it has one, its site and its reason.
fn refusal(chance: &mut StdRng, reason: &Reason) -> Option<String> {
    let number = chance.random_range(0..4_u32);
    let site = site_name(5).filter(|_| chance.random_bool(0.5));
    let is_at = site.is_some();
    let refusal = Refusal { component: ComponentIndex(number), site, reason: reason.clone() };
    let names = ["north".to_owned(), "south".to_owned()];
    let (plain, named) = (refusal.to_string(), refusal.naming(&names));
    let called = names.get(number as usize).cloned().unwrap_or(number.to_string());
    let says = |text: &str, name: &str| {
        text.contains(&format!("component {name}"))
            && text.contains(&reason.to_string())
            && text.contains("site-5") == is_at
    };
    let right = says(&plain, &number.to_string()) && says(&named, &called);
    (!right).then(|| format!("{refusal:?} is told as {plain:?} and {named:?}"))
}

/// What is refused at submission says the same, with numbers or with names.
fn unplaceable(chance: &mut StdRng, reason: &Reason) -> Option<String> {
    let component = ComponentIndex(chance.random_range(2..5));
    let site: SiteName = site_name(chance.random_range(0..4))?;
    let known = "site-8, site-9".to_owned();
    let shortage = Shortage { resource: "gpus".into(), needed: 77, available: 66 };
    let all = [
        (Unplaceable::NoSites, vec![]),
        (
            Unplaceable::NoSuchSite { component, site: site.clone(), known: known.clone() },
            vec![site.to_string(), known],
        ),
        (
            Unplaceable::ComponentTooLarge {
                component,
                site: site.clone(),
                reason: reason.clone(),
            },
            vec![site.to_string(), reason.to_string()],
        ),
        (
            Unplaceable::NoSplit { total: 91, min: 82, sites: 73, usable: 64 },
            ["91", "82", "73", "64"].map(str::to_owned).to_vec(),
        ),
        (Unplaceable::TogetherTooLarge(shortage), ["gpus", "77", "66"].map(str::to_owned).to_vec()),
    ];
    let mut texts = BTreeSet::new();
    let name = |index: ComponentIndex| (index == component).then(|| "north".to_owned());
    for (told, says) in &all {
        let (plain, named) = (told.to_string(), told.naming(name));
        let numbered = told.naming(|_| None);
        let of_one =
            matches!(told, Unplaceable::NoSuchSite { .. } | Unplaceable::ComponentTooLarge { .. });
        let begins =
            |text: &str, name: &str| text.contains(&format!("component {name} ")) == of_one;
        let right = begins(&plain, &component.to_string())
            && begins(&named, "north")
            && numbered == plain
            && (of_one || named == plain)
            && plain.len() > 10
            && says.iter().all(|word| plain.contains(word) && named.contains(word));
        if !right {
            return Some(format!("{told:?} is told as {plain:?} and {named:?}"));
        }
        texts.insert(plain);
    }
    (texts.len() != all.len()).then(|| format!("two of {all:?} are told alike"))
}

/// Who listens keeps what is told in its order; who does not, keeps nothing and is not asked.
fn observers(chance: &mut StdRng, reason: &Reason) -> Option<String> {
    let verdict = |number: u32| {
        Some(SiteVerdict {
            component: ComponentIndex(number),
            site: site_name(number as usize)?,
            remaining_processors: number,
            transfer_time: None,
            outcome: Outcome::Refused(vec![reason.clone()]),
        })
    };
    let told: Vec<SiteVerdict> = (0..chance.random_range(0..4)).filter_map(verdict).collect();
    let (mut recorder, mut silent) = (Recorder::default(), Silent);
    for verdict in &told {
        recorder.verdict(verdict.clone());
        silent.verdict(verdict.clone());
    }
    let right = recorder.is_listening() && !silent.is_listening() && recorder.verdicts == told;
    (!right).then(|| format!("{told:?} are kept as {recorder:?}"))
}
