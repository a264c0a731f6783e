//! Rules of actors.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, fail_if_any, is_comment, sources};

/// Actors and what they handle, each with the lines of its `impl`.
struct Handled<'a> {
    actor: &'a str,
    path: &'a str,
    lines: Vec<(usize, &'a str)>,
}

/// `ClusterActor` in `impl<T> Handler<Call<T>> for ClusterActor {`, of messages and of streams.
fn actor_of(line: &str) -> Option<&str> {
    let (before, actor) = line.strip_suffix(" {")?.split_once("> for ")?;
    (before.starts_with("impl") && before.contains("Handler<")).then_some(actor)
}

fn handled(source: &Source) -> Vec<Handled<'_>> {
    let lines = source.production();
    let mut found = Vec::new();
    for (at, (_, line)) in lines.iter().enumerate() {
        let Some(actor) = actor_of(line) else {
            continue;
        };
        let body = lines[at + 1..].iter().take_while(|(_, line)| *line != "}");
        found.push(Handled {
            actor,
            path: &source.path,
            lines: body.copied().collect(),
        });
    }
    found
}

/// A panic is planted in each of them by turns, except in the supervisor, which must not panic.
#[test]
fn every_handler_begins_where_chaos_can_strike() {
    let sources = sources();
    let actors = sources
        .iter()
        .filter(|source| source.path.starts_with("actors/src/"));
    let handled: Vec<Handled<'_>> = actors.flat_map(handled).collect();
    assert!(
        handled.len() > 20,
        "handlers are not found any more: {}",
        handled.len()
    );
    let mut problems = Vec::new();
    for Handled { actor, path, lines } in handled.iter().filter(|h| h.actor != "Supervisor") {
        let begin = lines
            .iter()
            .position(|(_, line)| line.trim_start().starts_with("fn handle("));
        let body = begin.and_then(|at| {
            let opens = lines[at..]
                .iter()
                .position(|(_, line)| line.ends_with('{'))?;
            lines.get(at + opens + 1)
        });
        let kind = actor.strip_suffix("Actor").unwrap_or(actor);
        let expected = format!("chaos::enter_handler(ActorKind::{kind});");
        match body {
            Some((_, line)) if line.trim() == expected => {}
            Some((number, _)) => problems.push(format!("{path}:{number}: begin with {expected}")),
            None => problems.push(format!("{path}: no handle in a Handler of {actor}")),
        }
    }
    fail_if_any(&problems);
}

/// Who asks whom, by the folders of the actors.
type Asks = BTreeMap<String, BTreeSet<String>>;

/// The folder of an actor: `job` of `actors/src/job/job_effects.rs`.
fn folder(source: &Source) -> Option<&str> {
    source
        .path
        .strip_prefix("actors/src/")?
        .split_once('/')
        .map(|(folder, _)| folder)
}

fn text(source: &Source) -> String {
    source
        .production()
        .iter()
        .map(|(_, line)| format!("{line}\n"))
        .collect()
}

/// Messages that are answered, by the folder that declares them: `result = "()"` is a tell.
fn answered(sources: &[Source]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for source in sources {
        let (Some(folder), text) = (folder(source), text(source)) else {
            continue;
        };
        for after in text.split("#[rtype(result = \"").skip(1) {
            let Some((result, rest)) = after.split_once("\")]") else {
                continue;
            };
            let name = rest.split("struct ").nth(1).unwrap_or_default();
            let name = name
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default();
            if result != "()" {
                found.insert((folder.to_owned(), name.to_owned()));
            }
        }
    }
    found
}

/// `(site, Call)` and `(site, Charge)` of `crate::site::{Call, Charge}`.
fn named(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for after in text.split("crate::").skip(1) {
        let Some((folder, rest)) = after.split_once("::") else {
            continue;
        };
        let names = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest
                .split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default(),
        };
        let names = names.split(',').map(str::trim);
        found.extend(names.map(|name| (folder.to_owned(), name.to_owned())));
    }
    found
}

fn asks(sources: &[Source]) -> Asks {
    let answered = answered(sources);
    let mut asks = Asks::new();
    for source in sources {
        // The interface is no actor: it asks from outside.
        let Some(from) = folder(source).filter(|folder| *folder != "api") else {
            continue;
        };
        let others = named(&text(source))
            .into_iter()
            .filter(|(to, _)| to != from);
        let to = others
            .filter(|named| answered.contains(named))
            .map(|(to, _)| to);
        asks.entry(from.to_owned()).or_default().extend(to);
    }
    asks
}

/// Takes away whoever asks nobody that is left, as long as there is one; who remains waits
/// for an answer that may wait for his own.
fn cycle(mut asks: Asks) -> Vec<String> {
    loop {
        let left: BTreeSet<String> = asks.keys().cloned().collect();
        asks.retain(|_, to| to.iter().any(|to| left.contains(to)));
        if asks.len() == left.len() {
            return left.into_iter().collect();
        }
    }
}

/// See "Who asks whom" in the chapter on the architecture.
#[test]
fn no_actor_waits_for_one_that_may_wait_for_it() {
    let sources = sources();
    let actors: Vec<Source> = sources
        .into_iter()
        .filter(|source| source.path.starts_with("actors/src/"))
        .collect();
    let asks = asks(&actors);
    for (from, to) in [
        ("intake", "job"),
        ("coallocator", "job"),
        ("job", "site"),
        ("job", "journal"),
    ] {
        assert!(
            asks[from].contains(to),
            "{from} asks {to}, which is not found: {asks:?}"
        );
    }
    assert_eq!(cycle(asks), Vec::<String>::new());
}

/// The rooms of `actors/src`, its folders and the files beside them, each with the rooms that it
/// names.
fn rooms(sources: &[Source]) -> Asks {
    let mut rooms = Asks::new();
    for source in sources {
        let Some(path) = source.path.strip_prefix("actors/src/") else {
            continue;
        };
        let room = path.split('/').next().unwrap_or_default();
        let room = room.trim_end_matches(".rs").to_owned();
        let lines = source.production();
        let code = lines.iter().filter(|(_, line)| !is_comment(line));
        let named = code.flat_map(|(_, line)| line.split("crate::").skip(1));
        let named = named.map(|after| {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
            after[..end.unwrap_or(after.len())].to_owned()
        });
        let named: Vec<String> = named.filter(|other| *other != room).collect();
        rooms.entry(room).or_default().extend(named);
    }
    rooms
}

/// Whoever wants to know one folder need not read them all.
#[test]
fn no_two_rooms_of_the_actors_need_each_other() {
    let rooms = rooms(&sources());
    assert!(rooms["wiring"].contains("reserver"), "{rooms:?}");
    assert!(rooms["job"].contains("site"), "{rooms:?}");
    assert_eq!(cycle(rooms), Vec::<String>::new());
}

#[test]
fn a_cycle_of_asks_is_found() {
    let asks = |pairs: &[(&str, &str)]| {
        let mut asks = Asks::new();
        for (from, to) in pairs {
            asks.entry((*from).into()).or_default().insert((*to).into());
        }
        asks
    };
    assert!(cycle(asks(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    assert_eq!(
        cycle(asks(&[("a", "b"), ("b", "c"), ("c", "b")])),
        ["a", "b", "c"]
    );
}
