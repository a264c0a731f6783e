//! Crashes at every step of a shared reservation: it is made at two sites, a job runs within it, it
//! is extended, and cancelled, all by a user who asks until there is an answer.
//!
//! The judgement uses the files that sites keep: their reservations, and what runs under them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cospan_domain::site::shared_reservation::SharedReservationCall;
use serde_json::{Value, json};

use crate::api::{Api, ApiReply};
use crate::evidence::{ForeignAttempt, names};
use crate::load::ClientPromises;
use crate::oracle::{OracleRule, OracleVerdict};
use crate::points::{ABORTED, AROUND, Strike, StruckPoint};
use crate::server::{Chaos, ServerProcess};
use crate::settle;
use crate::test_environment::{EnvironmentSite, Layout, TestEnvironment};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(90);
const COURSE: &str = "/v1/shared-reservations/course";
/// The point at which a command is about to be answered; no site is asked there.
const ORDER: &str = "Site";

/// Lists crashes around each call, at the first site and at the second; and before each command is
/// answered.
pub fn list_crashes() -> Vec<Strike> {
    let asked = SharedReservationCall::NAMES.into_iter();
    let mut strikes: Vec<Strike> = asked
        .flat_map(|effect| {
            [1, 2].map(|passage| AROUND.map(|point| crash_at(point, effect, passage)))
        })
        .flatten()
        .collect();
    strikes.extend((1..=3).map(|passage| crash_at("before-answer", ORDER, passage)));
    strikes
}

fn crash_at(point: &'static str, effect: &'static str, passage: u64) -> Strike {
    Strike {
        kind: "crash",
        point,
        effect,
        passage,
        load: 0,
        times: 1,
    }
}

/// Returns true if a strike is one of [`list_crashes`].
pub fn is_shared_strike(what: &Strike) -> bool {
    let at_order = (what.point, what.effect) == ("before-answer", ORDER);
    at_order || SharedReservationCall::NAMES.contains(&what.effect)
}

/// Fails the server once, in an environment of its own.
///
/// # Errors
/// The harness cannot work, or what was asked for does not come about.
pub fn fail_server(binary: &Path, base: &Path, what: &Strike) -> Result<StruckPoint> {
    let begun = Instant::now();
    let layout = Layout {
        sites: 2,
        processors: 2,
        ..Layout::default()
    };
    let mut environment = TestEnvironment::new(base, &layout)?;
    let mut server = ServerProcess::new(binary, &environment);
    let played = play_course(&environment, &mut server, what);
    server.kill()?;
    let struck = played.map(|(ended, verdict)| StruckPoint {
        name: what.full_name(),
        reached: ended == Some(ABORTED),
        in_flight: None,
        wrong_end: ended
            .filter(|code| *code != ABORTED)
            .map(|code| format!("the server ended with {code}")),
        verdict,
        took: begun.elapsed(),
        directory: environment.path().into(),
    });
    if !struck.as_ref().is_ok_and(StruckPoint::is_good) {
        environment.keep();
    }
    struck.with_context(|| format!("{}: see {}", what.full_name(), environment.path().display()))
}

fn play_course(
    environment: &TestEnvironment,
    server: &mut ServerProcess,
    what: &Strike,
) -> Result<(Option<i32>, OracleVerdict)> {
    let quiet = Chaos {
        plan: String::new(),
        coverage: environment.coverage(),
    };
    server.chaos = Some(Chaos {
        plan: what.plan(),
        ..quiet.clone()
    });
    server.start()?;
    let api = server.api()?;
    let mut foreign = vec![ForeignAttempt::plant(&environment.sites[0])?];
    let ended = None;
    let watch = SitesWatch::new(&environment.sites);
    let mut scene = PointScene {
        environment,
        server,
        quiet,
        api,
        ended,
        watch,
    };
    let promises = scene.play_all()?;
    let PointScene {
        api, ended, watch, ..
    } = scene;
    let settled = settle::settle_and_judge(environment, &api, &promises, &mut foreign, PATIENCE)?;
    let (mut verdict, evidence) = settled;
    for run in &evidence.ledger.runs {
        if !watch.under.contains_key(&run.tag) {
            verdict.blame(
                OracleRule::RunsWithin,
                format!("{} ran under none", run.tag),
            );
        }
    }
    verdict.violations.extend(watch.verdict.violations);
    Ok((ended, verdict))
}

/// The progress of the requests so far, and so what must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointStage {
    /// It is being made.
    Making,
    /// It was reported as confirmed, and nobody has cancelled it yet.
    Kept,
    /// It is being cancelled.
    Over,
}

/// The reservations of sites, looked at again and again.
struct SitesWatch<'a> {
    sites: &'a [EnvironmentSite],
    stage: PointStage,
    /// The reservation under which each attempt used its processors.
    under: BTreeMap<String, String>,
    verdict: OracleVerdict,
}

impl<'a> SitesWatch<'a> {
    fn new(sites: &'a [EnvironmentSite]) -> Self {
        Self {
            sites,
            stage: PointStage::Making,
            under: BTreeMap::new(),
            verdict: OracleVerdict::default(),
        }
    }

    /// Looks once; the first site first, which is asked first and confirms first.
    fn look_once(&mut self) -> Result<()> {
        let mut before_keeps = false;
        for site in self.sites {
            let held = reservations_at(site)?;
            let confirmed = held
                .values()
                .filter(|lease| lease["expires"].is_null())
                .count();
            let all = held.len();
            let wrong = match self.stage {
                _ if all > 1 => Some("there is more than one"),
                PointStage::Making if all == 0 && before_keeps => {
                    Some("another site keeps its part, and it has granted none")
                }
                PointStage::Kept if confirmed != 1 => Some("what was confirmed is not kept"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                let what = format!("at {}: {wrong}: {held:?}", site.name);
                self.verdict.blame(OracleRule::ReservationKept, what);
            }
            before_keeps = confirmed > 0;
            self.under.extend(running_under(site));
        }
        Ok(())
    }

    fn is_empty(&self) -> Result<bool> {
        let each: Vec<bool> = self
            .sites
            .iter()
            .map(|site| Ok(reservations_at(site)?.is_empty()))
            .collect::<Result<_>>()?;
        Ok(each.into_iter().all(|empty| empty))
    }
}

/// Lists the reservations of a site, by tag.
fn reservations_at(site: &EnvironmentSite) -> Result<BTreeMap<String, Value>> {
    match fs::read(site.root.join("leases.json")) {
        Ok(text) => Ok(serde_json::from_slice(&text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}

/// Lists attempts that use processors of a site, each with the shared reservation that it uses.
fn running_under(site: &EnvironmentSite) -> Vec<(String, String)> {
    let live = site.root.join("live");
    names(&live)
        .into_iter()
        .filter_map(|tag: String| {
            // Gone by now, if it cannot be read.
            let entry = fs::read_to_string(live.join(&tag)).ok()?;
            let lease = entry
                .lines()
                .find_map(|line| line.strip_prefix("reservation "))?;
            lease.contains("-0-r").then(|| (tag, lease.to_owned()))
        })
        .collect()
}

struct PointScene<'a> {
    environment: &'a TestEnvironment,
    server: &'a mut ServerProcess,
    quiet: Chaos,
    api: Api,
    /// The server's exit, once it has ended.
    ended: Option<i32>,
    watch: SitesWatch<'a>,
}

impl PointScene<'_> {
    /// Makes all requests, one after the other, and returns what was acknowledged.
    fn play_all(&mut self) -> Result<ClientPromises> {
        self.keep_trying_until("all sites usable", |scene| {
            let ApiReply::Answered(200, sites) = scene.api.get("/v1/sites") else {
                return Ok(false);
            };
            let list = sites["sites"].as_array().context("no sites")?;
            Ok(list.iter().all(|site| site["state"] == "usable"))
        })?;
        self.make_reservation()?;
        let id = self.submit()?;
        self.extend()?;
        self.keep_trying_until("the job has ended", |scene| {
            let state = scene.state(&format!("/v1/jobs/{id}"), |job| &job["phase"]["state"])?;
            ensure!(
                !matches!(state.as_str(), "failed" | "cancelled"),
                "the job has {state}"
            );
            Ok(state == "finished")
        })?;
        self.cancel_reservation()?;
        let acknowledged = [("within".to_owned(), vec![id])].into();
        Ok(ClientPromises {
            acknowledged,
            ..ClientPromises::default()
        })
    }

    fn make_reservation(&mut self) -> Result<()> {
        let [first, second] = self.environment.sites.as_slice() else {
            bail!("not two sites")
        };
        let wanted = json!({
            "name": "course", "site": first.name, "processors": 2, "for": "30m",
            "also": [{ "site": second.name, "processors": 2 }],
        });
        // A user without an answer looks whether it is there before it asks again.
        self.keep_trying_until("it is taken", |scene| {
            let taken = scene.is_done("/v1/shared-reservations", &wanted);
            Ok(taken || matches!(scene.api.get(COURSE), ApiReply::Answered(200, _)))
        })?;
        self.await_state("confirmed")?;
        self.watch.stage = PointStage::Kept;
        Ok(())
    }

    fn submit(&mut self) -> Result<u64> {
        let payload = self.environment.payload();
        let ledger = self.environment.ledger();
        let components = ["a", "b"].map(|name| {
            json!({
                "name": name, "processors": 2, "executable": "/bin/sh",
                "arguments": [payload, ledger, "2", "0", "polite", "-", "0"],
            })
        });
        let job = json!({
            "name": "within", "wall_time": "60s", "reservation": { "use": "course" },
            "component": components,
        });
        let mut id = None;
        self.keep_trying_until("the job is taken", |scene| {
            if let ApiReply::Answered(200 | 201, taken) =
                scene.api.post("/v1/jobs", Some("a"), &job)
            {
                id = taken["jobs"][0]["id"].as_u64();
            }
            Ok(id.is_some())
        })?;
        let id = id.context("no number")?;
        self.keep_trying_until("the job runs", |scene| {
            let state = scene.state(&format!("/v1/jobs/{id}"), |job| &job["phase"]["state"])?;
            Ok(matches!(state.as_str(), "running" | "finished"))
        })?;
        Ok(id)
    }

    fn extend(&mut self) -> Result<()> {
        let before = self.state(COURSE, |course| &course["until"])?;
        let mut taken = false;
        self.keep_trying_until("it lasts longer", |scene| {
            let ApiReply::Answered(200, course) = scene.api.get(COURSE) else {
                return Ok(false);
            };
            let is_same = course["until"] == before.as_str();
            let state = &course["state"];
            if state != "confirmed" || !is_same {
                return Ok(state == "confirmed");
            }
            ensure!(
                !taken,
                "an extension was acknowledged, and is not: {course}"
            );
            taken = scene.is_done(&format!("{COURSE}/extend"), &json!({ "for": "30m" }));
            Ok(false)
        })
    }

    fn cancel_reservation(&mut self) -> Result<()> {
        self.watch.stage = PointStage::Over;
        let mut taken = false;
        self.keep_trying_until("it is given back", |scene| {
            let state = scene.state(COURSE, |course| &course["state"])?;
            if matches!(state.as_str(), "releasing" | "cancelled") {
                return Ok(state == "cancelled");
            }
            ensure!(
                !taken || state.is_empty(),
                "it was acknowledged to go back, and is {state}"
            );
            taken |= scene.is_done(&format!("{COURSE}/cancel"), &json!({}));
            Ok(false)
        })?;
        self.keep_trying_until("no site holds anything", |scene| scene.watch.is_empty())
    }

    fn await_state(&mut self, wanted: &str) -> Result<()> {
        self.keep_trying_until(wanted, |scene| {
            let state = scene.state(COURSE, |course| &course["state"])?;
            ensure!(
                state.is_empty() || state == "asking" || state == wanted,
                "it is {state}"
            );
            Ok(state == wanted)
        })
    }

    /// Returns a member of what is shown; empty while nobody answers.
    ///
    /// # Errors
    /// It is not there, though it was acknowledged.
    fn state(&self, path: &str, member: impl Fn(&Value) -> &Value) -> Result<String> {
        match self.api.get(path) {
            ApiReply::Answered(200, shown) => {
                Ok(member(&shown).as_str().unwrap_or_default().into())
            }
            ApiReply::Answered(404, told) => bail!("{path} was acknowledged, and is gone: {told}"),
            ApiReply::Answered(..) | ApiReply::Silent(_) => Ok(String::new()),
        }
    }

    fn is_done(&self, path: &str, body: &Value) -> bool {
        matches!(
            self.api.post(path, None, body),
            ApiReply::Answered(200 | 201, _)
        )
    }

    /// Goes on until a condition holds; whenever the server has ended, it is started again.
    fn keep_trying_until(
        &mut self,
        what: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            self.restart_server()?;
            self.watch.look_once()?;
            if holds(self)? {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn restart_server(&mut self) -> Result<()> {
        use std::os::unix::process::ExitStatusExt;
        let Some(status) = self.server.exit_status()? else {
            return Ok(());
        };
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        ensure!(
            self.ended.is_none(),
            "the server ended a second time, with {code:?}"
        );
        self.ended = code;
        self.server.kill()?;
        self.server.chaos = Some(self.quiet.clone());
        self.server.start()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points;

    fn site(base: &Path, name: &str) -> EnvironmentSite {
        let root = base.join(name);
        fs::create_dir_all(root.join("live")).unwrap();
        EnvironmentSite {
            name: name.into(),
            root,
            processors: 2,
        }
    }

    fn keep(site: &EnvironmentSite, leases: Value) {
        fs::write(site.root.join("leases.json"), leases.to_string()).unwrap();
    }

    #[test]
    fn what_sites_keep_twice_too_early_or_no_more_is_blamed() {
        let base = tempfile::tempdir().unwrap();
        let sites = ["s1", "s2"].map(|name| site(base.path(), name));
        let granted = json!({ "expires": 1 });
        let kept = json!({});
        let blamed = |stage, leases: [Value; 2]| {
            sites
                .iter()
                .zip(leases)
                .for_each(|(site, leases)| keep(site, leases));
            let mut watch = SitesWatch {
                stage,
                ..SitesWatch::new(&sites)
            };
            watch.look_once().unwrap();
            watch.verdict.violations.len()
        };
        let both = |lease: &Value| [json!({ "a": lease }), json!({ "a": lease })];
        assert_eq!(blamed(PointStage::Making, both(&granted)), 0);
        assert_eq!(
            blamed(
                PointStage::Making,
                [json!({ "a": kept }), json!({ "a": granted })]
            ),
            0
        );
        assert_eq!(
            blamed(PointStage::Making, [json!({ "a": kept }), json!({})]),
            1,
            "too early"
        );
        assert_eq!(
            blamed(
                PointStage::Making,
                [json!({ "a": granted, "b": granted }), json!({})]
            ),
            1
        );
        assert_eq!(blamed(PointStage::Kept, both(&kept)), 0);
        assert_eq!(
            blamed(PointStage::Kept, [json!({ "a": kept }), json!({})]),
            1,
            "no more"
        );
        assert_eq!(
            blamed(PointStage::Over, [json!({ "a": kept }), json!({})]),
            0
        );
    }

    #[test]
    fn an_attempt_runs_within_what_its_site_says_that_it_uses() {
        let base = tempfile::tempdir().unwrap();
        let site = site(base.path(), "s1");
        let live =
            |tag: &str, text: &str| fs::write(site.root.join("live").join(tag), text).unwrap();
        live("alone", "processors 2\n");
        live("within", "processors 2\nreservation cabc-0-r1\n");
        live("own", "processors 2\nreservation cabc-7-r1\n");
        assert_eq!(
            running_under(&site),
            [("within".to_owned(), "cabc-0-r1".to_owned())]
        );
    }

    #[test]
    fn every_question_has_a_crash_on_each_side_of_journal_and_site() {
        let strikes = list_crashes();
        for effect in SharedReservationCall::NAMES {
            for (point, passage) in AROUND
                .into_iter()
                .flat_map(|point| [(point, 1), (point, 2)])
            {
                assert_eq!(
                    strikes
                        .iter()
                        .filter(|s: &&Strike| (s.point, s.effect, s.passage)
                            == (point, effect, passage))
                        .count(),
                    1,
                    "{point}:{effect}:{passage}"
                );
            }
        }
        assert!(
            strikes.iter().all(is_shared_strike)
                && !points::list_crashes().iter().any(is_shared_strike)
        );
    }
}
