//! Scenes as texts: a script in plain words, and below each of its lines what happened then. The
//! folder `chaos-tests/scenes` has them, and the book's chapter on testing says how they are written.

mod change_texts;
mod conditions;
mod requests;
mod script_jobs;
mod script_player;
mod script_setup;
mod script_words;
mod shown_facts;
mod transcript;
mod world_events;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result};
use cospan_domain::ids::TargetName;
use cospan_domain::units::{DurationMs, Timestamp};
use cospan_simulator::control_plane_run::{RunEnd, RunPlan};
use cospan_simulator::kill_switch::KillPoint;

use self::script_player::{ScriptPlayer, WRONG};
use self::script_setup::ScriptSetup;
use self::script_words::ScriptWords;
pub(super) use self::transcript::SceneTranscript;
use super::stage::{BEGINS, Set};

/// Begins a line of a transcript.
const INDENT: &str = "  ";
/// Begins the title of a scene; a file may have several.
const TITLE: &str = "== ";

/// Plays all scenes of a file, and returns its text with the transcripts as they are now.
///
/// # Errors
/// A line of a script is not understood, or cannot be played, or something is in disorder.
pub(super) fn play_file(text: &str) -> Result<String> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(INDENT))
        .collect();
    let mut written = String::new();
    let mut shared: Vec<&str> = Vec::new();
    for scene in lines.chunk_by(|_, next| !next.starts_with(TITLE)) {
        let has_title = scene.first().is_some_and(|line| line.starts_with(TITLE));
        let told = if has_title || !text.contains(TITLE) {
            play_script(&shared, scene)?
        } else {
            shared.extend(scene.iter().filter(|line| line.starts_with("given ")));
            ToldLines::new()
        };
        for (number, line) in scene.iter().enumerate() {
            written.push_str(line);
            written.push('\n');
            for told in told.get(&number).into_iter().flatten() {
                written.push_str(told);
                written.push('\n');
            }
        }
    }
    let mut wrong = written.lines().filter(|line| line.contains(WRONG));
    if let Some(line) = wrong.next() {
        anyhow::bail!("{line}");
    }
    Ok(written)
}

/// Says whether a file needs actors that can be made to panic, as only builds for chaos have.
pub(super) fn needs_panics(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("panic "))
}

/// The lines of a transcript, by the number of the line of the script above them.
type ToldLines = BTreeMap<usize, Vec<String>>;

/// Lines of a script with their numbers.
type NumberedLines<'a> = Vec<(usize, &'a str)>;

fn play_script(shared: &[&str], lines: &[&str]) -> Result<ToldLines> {
    let mut setup = ScriptSetup::of_nothing()?;
    for line in shared {
        let mut words = ScriptWords::of_line(line);
        words.take("given");
        setup.read_line(words).with_context(|| (*line).to_owned())?;
    }
    let mut lives: Vec<NumberedLines<'_>> = vec![Vec::new()];
    for (number, line) in lines.iter().enumerate() {
        if line.is_empty() || line.starts_with('#') || line.starts_with(TITLE) {
            continue;
        }
        let mut words = ScriptWords::of_line(line);
        if words.take("given") {
            setup.read_line(words).with_context(|| (*line).to_owned())?;
            continue;
        }
        if words.take("start") && !lives.iter().all(Vec::is_empty) {
            lives.push(Vec::new());
        }
        if let Some(life) = lives.last_mut() {
            life.push((number, *line));
        }
    }
    let mut set = setup.stage.set_up();
    let environment = set.environment.clone();
    let play = ScriptPlay {
        transcript: Rc::new(SceneTranscript::of_environment(
            environment,
            setup.shown_calls,
        )),
        told: Rc::default(),
    };
    let mut over = BEGINS;
    for (count, life) in lives.into_iter().enumerate() {
        if count > 0 {
            set.forget_files();
        }
        over = play.play_life(&mut set, count == 0, over, &life)?;
    }
    Ok(play.told.take())
}

/// A script that is being played.
struct ScriptPlay {
    transcript: Rc<SceneTranscript>,
    told: Rc<RefCell<ToldLines>>,
}

impl ScriptPlay {
    /// Plays one run of the control plane; returns when it was over.
    fn play_life(
        &self,
        set: &mut Set,
        first: bool,
        over: Timestamp,
        lines: &[(usize, &str)],
    ) -> Result<Timestamp> {
        let mut plan = set.plan(over);
        let mut lines = lines.to_vec();
        if let Some((number, line)) = lines.first().copied() {
            let mut words = ScriptWords::of_line(line);
            if words.take("start") {
                lines.remove(0);
                read_start(&mut words, &mut plan, set).with_context(|| line.to_owned())?;
                self.transcript
                    .add_line(plan.begins, "the control plane starts");
                self.told
                    .borrow_mut()
                    .insert(number, self.transcript.take_lines());
            }
        }
        let lines: Vec<(usize, String)> = lines
            .into_iter()
            .map(|(number, line)| (number, line.to_owned()))
            .collect();
        let last = lines.last().map(|(number, _)| *number);
        let transcript = self.transcript.clone();
        let told = self.told.clone();
        let end = set.run_planned(plan, move |scene| async move {
            let player = ScriptPlayer { scene, transcript };
            player.begin(first);
            for (number, line) in lines {
                player
                    .perform_line(&line)
                    .await
                    .with_context(|| line.clone())?;
                told.borrow_mut()
                    .entry(number)
                    .or_default()
                    .extend(player.take_lines());
            }
            player.check_rest().await;
            told.borrow_mut()
                .entry(last.unwrap_or_default())
                .or_default()
                .extend(player.take_lines());
            Ok(())
        })?;
        Ok(match end {
            RunEnd::Done(at, _) => at,
            RunEnd::Killed(at) => {
                self.transcript.catch_up();
                self.transcript.add_line(at, "the control plane is dead");
                self.told
                    .borrow_mut()
                    .entry(last.unwrap_or_default())
                    .or_default()
                    .extend(self.transcript.take_lines());
                at
            }
        })
    }
}

/// Reads `after 5s, clock ahead 1h, dying between gates`, and `setting NAME VALUE`.
fn read_start(words: &mut ScriptWords<'_>, plan: &mut RunPlan, set: &mut Set) -> Result<()> {
    while !words.is_empty() {
        match words.next().unwrap_or_default() {
            "after" => plan.begins = plan.begins + words.read_time()?,
            "clock" => {
                let behind = words.next() == Some("behind");
                let DurationMs(ms) = words.read_time()?;
                let ms = i64::try_from(ms)?;
                plan.clock_ahead_ms = if behind { -ms } else { ms };
            }
            "dying" if words.take("between gates") => {
                plan.moment = Some(KillPoint::BetweenGates(1))
            }
            "without" if words.take("target") => {
                let name: TargetName = words.read()?;
                set.settings().targets.remove(&name);
            }
            other => anyhow::bail!("no control plane starts {other:?}"),
        }
    }
    Ok(())
}
