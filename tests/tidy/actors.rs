//! Rules of actors.

use super::{Source, fail_if_any, sources};

/// Actors and what they handle, each with the lines of its `impl`.
struct Handled<'a> {
    actor: &'a str,
    path: &'a str,
    lines: Vec<(usize, &'a str)>,
}

/// `Cluster` in `impl<T> Handler<Call<T>> for Cluster {`, of messages and of streams.
fn actor_of(line: &str) -> Option<&str> {
    let (before, actor) = line.strip_suffix(" {")?.split_once("> for ")?;
    (before.starts_with("impl") && before.contains("Handler<")).then_some(actor)
}

fn handled(source: &Source) -> Vec<Handled<'_>> {
    let lines = source.production();
    let mut found = Vec::new();
    for (at, (_, line)) in lines.iter().enumerate() {
        let Some(actor) = actor_of(line) else { continue };
        let body = lines[at + 1..].iter().take_while(|(_, line)| *line != "}");
        found.push(Handled { actor, path: &source.path, lines: body.copied().collect() });
    }
    found
}

/// A panic is planted in each of them by turns, except in the supervisor, which must not panic.
#[test]
fn every_handler_begins_where_chaos_can_strike() {
    let sources = sources();
    let actors = sources.iter().filter(|source| source.path.starts_with("actors/src/"));
    let handled: Vec<Handled<'_>> = actors.flat_map(handled).collect();
    assert!(handled.len() > 20, "handlers are not found any more: {}", handled.len());
    let mut problems = Vec::new();
    for Handled { actor, path, lines } in handled.iter().filter(|h| h.actor != "Supervisor") {
        let begin = lines.iter().position(|(_, line)| line.trim_start().starts_with("fn handle("));
        let body = begin.and_then(|at| {
            let opens = lines[at..].iter().position(|(_, line)| line.ends_with('{'))?;
            lines.get(at + opens + 1)
        });
        let kind = if *actor == "JobActor" { "Job" } else { actor };
        let expected = format!("chaos::enter(ActorKind::{kind});");
        match body {
            Some((_, line)) if line.trim() == expected => {}
            Some((number, _)) => problems.push(format!("{path}:{number}: begin with {expected}")),
            None => problems.push(format!("{path}: no handle in a Handler of {actor}")),
        }
    }
    fail_if_any(&problems);
}
