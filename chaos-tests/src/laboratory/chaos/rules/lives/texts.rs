//! Compares what happened with what ought to have: everything word for word, but texts for
//! people by what they must name, and must not where that comes after [`NOT`].

use std::sync::Arc;

use cospan_domain::job::event::Happened;
use cospan_domain::job::state::{AbortCause, AfterAbort, Ending};

use super::story::{AND, NOT};

pub(super) fn alike(is: &Happened, ought: &Happened) -> bool {
    let (mut is, mut ought) = (is.clone(), ought.clone());
    let (said, needed) = (taken(&mut is), taken(&mut ought));
    let fits = |said: &str, name: &str| match name.strip_prefix(NOT) {
        Some(name) => !said.contains(name),
        None => said.contains(name),
    };
    let names = |(said, needed): (&Arc<str>, &Arc<str>)| {
        !said.is_empty() && needed.split(AND).all(|name| fits(said, name))
    };
    is == ought && said.len() == needed.len() && said.iter().zip(&needed).all(names)
}

/// Takes the texts out of an event.
fn taken(what: &mut Happened) -> Vec<Arc<str>> {
    texts(what).into_iter().map(std::mem::take).collect()
}

fn texts(what: &mut Happened) -> Vec<&mut Arc<str>> {
    match what {
        Happened::ClaimMissed { detail, .. } => vec![detail],
        Happened::ComponentFailed { why, .. } => of_cause(why),
        Happened::AttemptEnded { how, .. } => match how {
            Ending::Failed(detail) | Ending::NeverRan(detail) | Ending::Lost(detail) => {
                vec![detail]
            }
            Ending::Succeeded | Ending::Killed | Ending::Abandoned => vec![],
        },
        Happened::SiteCharged { charge, .. } => vec![&mut charge.detail],
        Happened::RoundAborted { why, then } => {
            let mut all = of_cause(why);
            all.extend(of_rest(then));
            all
        }
        Happened::AbortRedirected { then } => of_rest(then),
        Happened::JobFailed { reason } => vec![reason],
        _ => vec![],
    }
}

fn of_cause(why: &mut AbortCause) -> Vec<&mut Arc<str>> {
    match why {
        AbortCause::ClaimLost { detail, .. }
        | AbortCause::InputLost { detail }
        | AbortCause::SiteError { detail, .. }
        | AbortCause::Application { detail, .. } => vec![detail],
        AbortCause::StartMissed { .. }
        | AbortCause::Unreachable { .. }
        | AbortCause::Cancelled
        | AbortCause::Preempted { .. }
        | AbortCause::Drained { .. } => vec![],
    }
}

fn of_rest(then: &mut AfterAbort) -> Vec<&mut Arc<str>> {
    match then {
        AfterAbort::Fail { reason } => vec![reason],
        AfterAbort::Requeue { .. } | AfterAbort::Cancel { .. } => vec![],
    }
}
