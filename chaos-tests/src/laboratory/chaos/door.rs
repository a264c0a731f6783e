//! What users and administrators get wrong is refused at the door, and what only looks
//! odd is taken. The rules are those of the guide and the reference, written down anew.

use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::ControlPlane;
use cospan_actors::api::command::{ApiRefusal, Submission};
use cospan_domain::ids::{
    ComponentName, Digest, IdempotencyKey, KeyName, LogicalName, LrmId, PolicyName, RelPath,
    SiteName, Tag,
};
use cospan_domain::job::spec::{
    ComponentSpec, Executable, Flexible, JobSpec, Override, Request, Where,
};
use cospan_domain::runner::RestartScope;
use cospan_domain::site::command::Operation;
use cospan_domain::units::{DurationMs, Timestamp};

use crate::laboratory::jobs::job;

/// Longest wall time, and most components, that a server takes if it is told nothing else.
const WALL_TIME_MAX: DurationMs = DurationMs::from_secs(366 * 86_400);
const COMPONENTS_MAX: usize = 1_000;

/// A job with one thing about it that is as its name says.
type Case = (&'static str, fn(&mut JobSpec));
type CaseAtASite = (&'static str, fn(&mut Override));

/// No server may take one of these.
const WRONG: [Case; 23] = [
    ("restarts by component of what must not run twice", |job| {
        (job.rerunnable, job.run.restart_scope) = (false, RestartScope::Component);
    }),
    ("another way to begin anew for what must not run twice", |job| {
        job.rerunnable = false;
        job.components[0].restart = Some(Override::default());
    }),
    ("no components", |job| job.components.clear()),
    ("too many components", |job| components(job, COMPONENTS_MAX + 1)),
    ("no wall time", |job| job.wall_time = DurationMs::ZERO),
    ("too long a wall time", |job| job.wall_time = DurationMs(WALL_TIME_MAX.0 + 1)),
    ("two components of one name", |job| job.components.push(job.components[0].clone())),
    ("no processors", |job| job.components[1].resources.processors = 0),
    ("fixed without a site", |job| job.request = Request::Fixed),
    ("a site although it is not fixed", |job| job.components[0].site = site("delft")),
    ("a site although it is flexible", |job| {
        flexible(job, Flexible::default());
        job.components[0].site = site("delft");
    }),
    ("flexible with two components", |job| {
        job.request = Request::Flexible(Flexible::default());
    }),
    ("flexible below its least", |job| {
        flexible(job, Flexible { min_component_size: 5, ..Flexible::default() });
    }),
    ("flexible with a least of none", |job| {
        flexible(job, Flexible { min_component_size: 0, ..Flexible::default() });
    }),
    ("flexible into none", |job| {
        flexible(job, Flexible { max_components: Some(0), ..Flexible::default() });
    }),
    ("a split that is too large", |job| flexible(job, split(&[3, 2]))),
    ("a split with an empty part", |job| flexible(job, split(&[4, 0]))),
    ("an empty executable", |job| executable(job, "")),
    ("a NUL in the executable", |job| executable(job, "a\0b")),
    ("a NUL in an argument", |job| job.components[0].program.arguments = vec!["\0".into()]),
    ("a variable without a name", |job| variable(job, "", "1")),
    ("a variable with a bad name", |job| variable(job, "A-B", "1")),
    ("a NUL in a variable", |job| variable(job, "A", "\0")),
];

/// The same where only one site is concerned.
const WRONG_AT_A_SITE: [CaseAtASite; 4] = [
    ("an empty executable", |at| at.executable = Some(Executable::AtSite("".into()))),
    ("a NUL in the executable", |at| at.executable = Some(Executable::AtSite("\0".into()))),
    ("a NUL in an argument", |at| at.arguments = Some(vec!["\0".into()])),
    ("a variable that begins with a digit", |at| {
        at.environment.insert("1A".into(), "1".into());
    }),
];

/// Every server must take these.
const RIGHT: [Case; 9] = [
    ("as many components as may be", |job| components(job, COMPONENTS_MAX)),
    ("the shortest wall time", |job| job.wall_time = DurationMs(1)),
    ("the longest wall time", |job| job.wall_time = WALL_TIME_MAX),
    ("fixed to sites", |job| {
        job.request = Request::Fixed;
        job.components.iter_mut().for_each(|component| component.site = site("delft"));
    }),
    ("flexible with just its least", |job| {
        flexible(job, Flexible { min_component_size: 4, ..Flexible::default() });
    }),
    ("flexible into one", |job| {
        flexible(job, Flexible { max_components: Some(1), ..Flexible::default() });
    }),
    ("a split that adds up", |job| flexible(job, split(&[3, 1]))),
    ("a variable with a digit", |job| variable(job, "_A1", "")),
    ("an odd argument", |job| job.components[0].program.arguments = vec!["$(x) \n".into()]),
];

fn site(name: &str) -> Option<SiteName> {
    SiteName::new(name).ok()
}

fn components(job: &mut JobSpec, count: usize) {
    let first = job.components[0].clone();
    let named = |number: usize| {
        let name = ComponentName::new(&format!("part-{number}")).ok()?;
        Some(ComponentSpec { name, ..first.clone() })
    };
    job.components = (0..count).filter_map(named).collect();
}

fn flexible(job: &mut JobSpec, bounds: Flexible) {
    job.components.truncate(1);
    job.components[0].resources.processors = 4;
    job.request = Request::Flexible(bounds);
}

fn split(parts: &[u32]) -> Flexible {
    Flexible { splits: vec![parts.to_vec()], ..Flexible::default() }
}

fn executable(job: &mut JobSpec, path: &str) {
    job.components[1].program.executable = Executable::AtSite(path.into());
}

fn variable(job: &mut JobSpec, name: &str, value: &str) {
    job.components[0].program.environment.insert(name.into(), value.into());
}

/// Jobs that a control plane takes and must not, or the other way round.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn wrongly_judged(plane: &ControlPlane) -> Result<Vec<String>> {
    let plain = job(&[2, 1], DurationMs(1_000), DurationMs(60_000), 0)?;
    let carol = KeyName::new("carol")?;
    let is_taken = |spec: JobSpec| {
        let (spec, idempotency) = (Arc::new(spec), None);
        let asked = Submission {
            spec,
            idempotency,
            allow_unplaceable: true,
            refuse_closed: false,
            asking: Default::default(),
        };
        !matches!(plane.preview(&carol, asked), Err(ApiRefusal::Invalid { .. }))
    };
    let changed = |(_, change): &Case| {
        let mut spec = plain.clone();
        change(&mut spec);
        spec
    };
    let at_a_site = |(_, change): &CaseAtASite| {
        let (mut spec, mut at) = (plain.clone(), Override::default());
        change(&mut at);
        site("delft").into_iter().for_each(|delft| {
            spec.components[0].at.insert(Where::Site(delft), at.clone());
        });
        spec
    };
    let wrong = WRONG.iter().filter(|case| is_taken(changed(case))).map(|(name, _)| *name);
    let there = WRONG_AT_A_SITE.iter().filter(|case| is_taken(at_a_site(case)));
    let taken = wrong.chain(there.map(|(name, _)| *name));
    let taken = taken.map(|name| format!("a job with {name} was taken"));
    let right = RIGHT.iter().filter(|case| !is_taken(changed(case)));
    Ok(taken.chain(right.map(|(name, _)| format!("a job with {name} was not taken"))).collect())
}

/// Who asks for a policy that there is not, or that does not serve, is told which do.
///
/// # Errors
/// Never: all names are valid.
pub(super) fn untold_policies(plane: &ControlPlane) -> Result<Vec<String>> {
    let carol = KeyName::new("carol")?;
    let told = |policy: &str, spec: JobSpec| -> Result<String> {
        let spec = Arc::new(JobSpec { policy: Some(PolicyName::new(policy)?), ..spec });
        let asked = Submission {
            spec,
            idempotency: None,
            allow_unplaceable: true,
            refuse_closed: false,
            asking: Default::default(),
        };
        Ok(plane
            .preview(&carol, asked)
            .err()
            .map(|refusal| refusal.to_string())
            .unwrap_or_default())
    };
    let plain = job(&[4], DurationMs(1_000), DurationMs(60_000), 0)?;
    let mut split = plain.clone();
    flexible(&mut split, Flexible::default());
    let unknown = told("no-such", plain)?;
    let unsuited = told("worst-fit", split)?;
    let expected = [
        (&unknown, "close-to-files"),
        (&unknown, "worst-fit"),
        (&unsuited, "flexible-cluster-minimization"),
    ];
    let missing = expected.iter().filter(|(text, name)| !text.contains(name));
    Ok(missing.map(|(text, name)| format!("{text:?} does not name {name}")).collect())
}

/// What no operator may order, whatever a site is like.
pub(super) fn senseless_orders(now: Timestamp) -> Vec<Operation> {
    let (before, after) = (now - DurationMs(3_600_000), now + DurationMs(3_600_000));
    let window = |from, until| Operation::SetWindow { from, until, reason: "drawn".into() };
    vec![
        window(after, after),
        window(after, now),
        window(before, before + DurationMs(1_000)),
        Operation::RemoveWindow { from: Timestamp(1) },
        Operation::Force { usable: true, until: before },
        Operation::Force { usable: false, until: now },
    ]
}

/// Whether a text is such a name.
type IsName = fn(&str) -> bool;

/// Kinds of names, with texts that are one, and texts that are none.
const NAMES: [(&str, IsName, &[&str], &[&str]); 9] = [
    ("site", |t| SiteName::new(t).is_ok(), &["a", "Delft-2_x.y"], &["", "2a", "-a", "a b", "a/b"]),
    (
        "component",
        |t| ComponentName::new(t).is_ok(),
        &["a", "2a", "a-b_c.d"],
        &["", "-a", ".a", "a b", "a@b"],
    ),
    ("file", |t| LogicalName::new(t).is_ok(), &["a b", "a/-", "\u{e9}"], &["", "/a", "-a", "a\\b"]),
    ("key", |t| KeyName::new(t).is_ok(), &["a@b.c", "1"], &["", "@a", "a b", "a/b"]),
    ("policy", |t| PolicyName::new(t).is_ok(), &["worst-fit"], &["", "Worst", "a1", "a_b"]),
    ("batch job", |t| LrmId::new(t).is_ok(), &["1", "1.a[2]"], &["", "1 2", "1\n"]),
    ("request", |t| IdempotencyKey::new(t).is_ok(), &["a~!"], &["", "a b", "\u{e9}"]),
    (
        "path",
        |t| RelPath::new(t).is_ok(),
        &["a/b..c", ".a"],
        &["", "/a", "a/../b", "a//b", "./a", "a\0"],
    ),
    (
        "tag",
        |t| t.parse::<Tag>().is_ok(),
        &["cabcdef27-1-0-1"],
        &[
            "",
            "cabcdef27-1-0",
            "cabcdef27-1-0-1-1",
            "cabcdef27-01-0-1",
            "xabcdef27-1-0-1",
            "cABCDEF27-1-0-1",
        ],
    ),
];

/// Names that are taken for none, and texts that are taken for one.
pub(super) fn misread_names() -> Vec<String> {
    let told = NAMES.iter().flat_map(|(kind, is_name, names, others)| {
        let refused = names.iter().filter(|text| !is_name(text));
        let taken = others.iter().filter(|text| is_name(text));
        let refused = refused.map(move |text| format!("{text:?} is a {kind} name"));
        refused.chain(taken.map(move |text| format!("{text:?} is no {kind} name")))
    });
    let digest = Digest(std::array::from_fn(|at| u8::try_from(at * 7).unwrap_or(0)));
    let same = digest.to_string().parse() == Ok(digest);
    let other = (!same).then(|| format!("{digest} is read as another digest"));
    told.chain(other).collect()
}
