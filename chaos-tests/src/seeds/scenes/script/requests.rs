//! Requests of users and operators.

use anyhow::{Result, bail};
use cospan_actors::api::command::{ApiRequest, OperatorCommand};
use cospan_domain::ids::{JobId, SiteName};
use cospan_domain::reservation::StartWindow;
use cospan_domain::resources::Resources;
use cospan_domain::site::shared_reservation::SharedReservationTerms;
use cospan_domain::units::DurationMs;

use super::super::stage::BEGINS;
use super::script_jobs::{read_priority, read_reservation, read_submissions};
use super::script_words::ScriptWords;

/// A request, and the key that makes it.
pub(super) struct KeyedRequest {
    pub(super) key: String,
    pub(super) what: ApiRequest,
}

/// Reads a request of `alice`, or of whom the line says with `as bob`.
///
/// # Errors
/// The line is not understood.
pub(super) fn read_request(mut words: ScriptWords<'_>) -> Result<KeyedRequest> {
    let verb = words.next().unwrap_or_default();
    let key = if words.take("as") {
        words.read()?
    } else {
        "alice".to_owned()
    };
    if verb == "submit" {
        let what = ApiRequest::Submit(read_submissions(words)?);
        return Ok(KeyedRequest { key, what });
    }
    let what = match verb {
        "cancel" => ApiRequest::Cancel(words.read_jobs()),
        "abandon" => ApiRequest::Abandon(words.read_jobs()),
        "freeze" => ApiRequest::Freeze(words.read_jobs()),
        "thaw" => ApiRequest::Thaw(words.read_jobs()),
        "release" => ApiRequest::Release(words.read_jobs()),
        "priority" => ApiRequest::SetPriority {
            to: read_priority(&mut words)?,
            jobs: words.read_jobs(),
            uncapped: words.take("uncapped"),
        },
        "reservation" => ApiRequest::ChangeReservation {
            job: JobId(words.read()?),
            wish: Some(read_reservation(&mut words)?),
        },
        "order" => {
            let site: SiteName = words.read()?;
            ApiRequest::Site(site, read_order(&mut words)?)
        }
        "add" => {
            let name = words.read()?;
            anyhow::ensure!(words.take("at"), "it is where?");
            ApiRequest::AddFile {
                name,
                site: words.read()?,
                path: words.read()?,
                replace: words.take("replacing"),
                reaches_all: false,
            }
        }
        "remove" => ApiRequest::RemoveFile {
            name: words.read()?,
            site: words.take("at").then(|| words.read()).transpose()?,
            force: words.take("by force"),
            reaches_all: false,
        },
        other => bail!("nobody can ask for {other:?}"),
    };
    words.end()?;
    Ok(KeyedRequest { key, what })
}

fn read_order(words: &mut ScriptWords<'_>) -> Result<OperatorCommand> {
    Ok(match words.next().unwrap_or_default() {
        "drain" => OperatorCommand::Drain,
        "undrain" => OperatorCommand::Undrain,
        "freeze" => OperatorCommand::Freeze,
        "thaw" => OperatorCommand::Thaw,
        "unforce" => OperatorCommand::Unforce,
        "unusable" => {
            anyhow::ensure!(words.take("until"), "unusable until when?");
            OperatorCommand::Force {
                usable: false,
                until: BEGINS + words.read_time()?,
            }
        }
        "window" => {
            anyhow::ensure!(words.take("from"), "from when on?");
            let from = BEGINS + words.read_time()?;
            anyhow::ensure!(words.take("to"), "until when?");
            OperatorCommand::SetWindow {
                from,
                until: BEGINS + words.read_time()?,
                reason: "cleaning".into(),
            }
        }
        "reserve" => OperatorCommand::Reserve(Box::new(read_shared_terms(words)?)),
        "no" if words.take("window from") => OperatorCommand::RemoveWindow {
            from: BEGINS + words.read_time()?,
        },
        other => bail!("no order is called {other:?}"),
    })
}

/// Reads `course processors 8 from 10s for 1h`: a shared reservation for everybody.
fn read_shared_terms(words: &mut ScriptWords<'_>) -> Result<SharedReservationTerms> {
    let name = words.read()?;
    anyhow::ensure!(words.take("processors"), "how many processors?");
    let resources = Resources::processors(words.read()?);
    anyhow::ensure!(words.take("from"), "from when on?");
    let from = BEGINS + words.read_time()?;
    anyhow::ensure!(words.take("for"), "for how long?");
    Ok(SharedReservationTerms {
        name,
        allowed: Default::default(),
        resources,
        window: StartWindow::new(from, from),
        lead: DurationMs::ZERO,
        length: words.read_time()?,
        margin: DurationMs::ZERO,
        parts: Default::default(),
        tolerance: DurationMs::ZERO,
    })
}
