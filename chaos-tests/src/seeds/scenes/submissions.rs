//! A submission that cannot be accepted is refused with the reason that is its own, at once, as a
//! whole, and leaves nothing behind; one that can is placed at the same moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cospan_actors::api::command::{
    ApiAnswer, ApiRefusal, ApiRequest, JobSubmission, OperatorCommand,
};
use cospan_domain::ids::{JobId, KeyName, LogicalName, PolicyName, SiteName, TargetName};
use cospan_domain::job::job_state::JobPhase;
use cospan_domain::job::spec::{InputPortion, JobSpec, Priority, RequestType};
use cospan_domain::queue::{ClassLimitError, ClassRequest, JobClassRule};
use cospan_domain::units::DurationMs;
use rand::Rng;
use rand::rngs::StdRng;

use super::stage::{SceneStage, StagedScene, site_name, with_input};
use super::tidy::check_at_rest;
use cospan_simulator::jobs::build_job;

/// Longest age of the shapes of sites that refusals use.
const SHAPES: DurationMs = DurationMs(1_000);

pub(super) fn play_submissions(chance: &mut StdRng) -> Result<Vec<String>> {
    let sizes: Vec<u32> = (0..3).map(|_| chance.random_range(4..=12)).collect();
    let before = chance.random_range(0..=3);
    let limit = chance.random_range(2..=5);
    let mut stage = SceneStage::with_processors(&sizes, chance.random())?;
    stage.add_file(chance.random_range(1..=1_000_000), &[0])?;
    stage.settings.limits.max_components = limit;
    stage.settings.targets = BTreeMap::from([
        (TargetName::new("desk")?, Arc::from("desk")),
        (TargetName::new("mail")?, Arc::from("mail")),
    ]);
    let bob = JobClassRule {
        owner: Some(key("bob")?),
        ..JobClassRule::default()
    };
    stage.settings.classes = vec![
        JobClassRule {
            highest: Some(Priority::SuperLow),
            ..bob
        },
        JobClassRule {
            max_wall_time: Some(DurationMs::from_secs(60)),
            class: Some(Priority::High),
            ..JobClassRule::default()
        },
    ];
    let largest = sizes.iter().copied().max().unwrap_or_default();
    stage.play_scene(move |scene| async move {
        scene.pass(SHAPES).await;
        let front = Front {
            scene: &scene,
            before,
        };
        front.check_malformed(limit).await?;
        front.check_missing(largest).await?;
        front.check_priorities().await?;
        check_closed_sites(&scene).await?;
        check_at_rest(&scene).await;
        Ok(())
    })
}

fn key(name: &str) -> Result<KeyName> {
    Ok(KeyName::new(name)?)
}

fn small() -> Result<JobSpec> {
    build_job(&[1], DurationMs(1_000), DurationMs(100_000), 0)
}

/// A submitter that puts so many good submissions before the one to be refused.
struct Front<'a> {
    scene: &'a StagedScene,
    before: usize,
}

impl Front<'_> {
    async fn answer(&self, key: &str, submission: JobSubmission) -> Result<ApiRefusal> {
        // Of the lowest priority, which no rule forbids anybody.
        let good = JobSpec {
            priority: Priority::SuperLow,
            ..small()?
        };
        let good = JobSubmission::from_spec(Arc::new(good));
        let mut all = vec![good.clone(); self.before];
        all.extend([submission, good]);
        let scene = self.scene;
        let at = scene.now();
        let jobs = scene.plane_run.plane.view().jobs.len();
        let changes = scene.changes().len();
        let answer = scene.ask_as(key, ApiRequest::Submit(all)).await;
        scene.check_same("when it was refused", scene.now(), at);
        scene.pass(DurationMs::ZERO).await;
        scene.check_same(
            "jobs of what was refused",
            scene.plane_run.plane.view().jobs.len(),
            jobs,
        );
        scene.check_same(
            "changes of what was refused",
            scene.changes().len(),
            changes,
        );
        match answer {
            Err(refusal) => Ok(refusal),
            Ok(answer) => Ok(ApiRefusal::Conflict(format!("accepted: {answer:?}"))),
        }
    }

    async fn check_invalid(&self, spec: JobSpec, problem: String) -> Result<()> {
        let refusal = self
            .answer("alice", JobSubmission::from_spec(Arc::new(spec)))
            .await?;
        let should = ApiRefusal::Invalid {
            index: self.before,
            problem,
        };
        self.scene.check_same("an invalid job", refusal, should);
        Ok(())
    }

    /// Checks what is wrong wherever it would run.
    async fn check_malformed(&self, limit: u32) -> Result<()> {
        let text = "the job has no components; give it at least one [[component]]";
        self.check_invalid(
            JobSpec {
                components: Vec::new(),
                ..small()?
            },
            text.into(),
        )
        .await?;
        let count = limit as usize + 1;
        let many = build_job(&vec![1; count], DurationMs(1), DurationMs(1), 0)?;
        let text =
            format!("the job has {count} components; at most {limit} are allowed (max_components)");
        self.check_invalid(many, text).await?;
        let mut spec = small()?;
        spec.run.notify.insert(TargetName::new("mail")?);
        spec.run.notify.insert(TargetName::new("nobody")?);
        let text = "notify names nobody, which is no target that the operator configured; there \
                    are: desk, mail (notify.targets)";
        self.check_invalid(spec, text.into()).await?;
        let policy = Some(PolicyName::new("best-guess")?);
        let refused = self.answer(
            "alice",
            JobSubmission::from_spec(Arc::new(JobSpec { policy, ..small()? })),
        );
        let refused = refused.await?.to_string();
        let begins = format!(
            "job {} of the request: no policy is called \"best-guess\"",
            self.before
        );
        self.scene.check(refused.starts_with(&begins), || refused);
        Ok(())
    }

    /// Checks requests for what does not exist: room, a file, a site.
    async fn check_missing(&self, largest: u32) -> Result<()> {
        let spec = build_job(&[1, largest + 1], DurationMs(1), DurationMs(100_000), 0)?;
        let huge = JobSubmission::from_spec(Arc::new(spec));
        let refusal = self.answer("alice", huge.clone()).await?;
        let right = matches!(&refusal, ApiRefusal::Unplaceable { index, problem }
            if *index == self.before && problem.contains("component part-1 "));
        self.scene
            .check(right, || format!("a job that is too large: {refusal:?}"));
        let name = LogicalName::new("file-9")?;
        let unknown = JobSubmission::from_spec(Arc::new(with_input(small()?, 9)?));
        let refusal = self.answer("alice", unknown).await?;
        let should = ApiRefusal::UnknownFile {
            index: self.before,
            name,
        };
        self.scene
            .check_same("a file that is not registered", refusal, should);
        let mut spec = with_input(small()?, 0)?;
        spec.components[0].inputs[0].feed = InputPortion::Chunk;
        self.scene.submit(spec).await?;
        let waits = JobSubmission {
            allow_unplaceable: true,
            ..huge
        };
        let answer = self.scene.ask(ApiRequest::Submit(vec![waits])).await?;
        let ApiAnswer::Submitted(jobs) = answer else {
            anyhow::bail!("{answer:?}")
        };
        self.scene.pass(DurationMs(60_000)).await;
        let job = self.scene.job_record(jobs[0].id)?;
        self.scene
            .check(matches!(job.phase, JobPhase::Queued { .. }), || {
                format!("{:?}", job.phase)
            });
        check_at_rest(self.scene).await;
        self.scene.ask(ApiRequest::Cancel(vec![job.id])).await?;
        Ok(())
    }

    /// Checks that the priority is the one that is asked for, if a rule allows it, or the one that
    /// is given.
    async fn check_priorities(&self) -> Result<()> {
        let low = JobSpec {
            priority: Priority::Low,
            ..small()?
        };
        let refusal = self
            .answer("bob", JobSubmission::from_spec(Arc::new(low)))
            .await?;
        let asked = Priority::Low;
        let highest = Priority::SuperLow;
        let above = ClassLimitError {
            asked,
            highest,
            rule: 1,
        };
        let should = ApiRefusal::AboveHighest {
            index: self.before,
            above,
        };
        self.scene
            .check_same("a class above the highest", refusal, should);
        let uncapped = ClassRequest {
            names_none: false,
            uncapped: true,
        };
        let none = ClassRequest {
            names_none: true,
            uncapped: false,
        };
        let short = JobSpec {
            wall_time: DurationMs(60_000),
            ..small()?
        };
        let cases = [
            ("bob", small()?, uncapped, Priority::Low),
            ("bob", small()?, none, Priority::SuperLow),
            ("carol", short, none, Priority::High),
            ("carol", small()?, none, Priority::Low),
            (
                "carol",
                JobSpec {
                    priority: Priority::SuperHigh,
                    ..small()?
                },
                none,
                Priority::Low,
            ),
        ];
        for (name, spec, asking, class) in cases {
            let submission = JobSubmission {
                asking,
                ..JobSubmission::from_spec(Arc::new(spec))
            };
            let previewed = self
                .scene
                .plane_run
                .plane
                .preview_job(&key(name)?, submission.clone())?;
            let shown = previewed.class.map(|shown| (shown.class, shown.given));
            self.scene.check_same(
                "class in a preview",
                shown,
                Some((class, asking.names_none)),
            );
            let answer = self
                .scene
                .ask_as(name, ApiRequest::Submit(vec![submission]))
                .await?;
            let ApiAnswer::Submitted(jobs) = answer else {
                anyhow::bail!("{answer:?}")
            };
            let job = self.scene.job_record(jobs[0].id)?;
            self.scene.check_same("class of a job", job.priority, class);
            self.scene
                .check_same("class of a specification", job.spec.priority, class);
            self.scene.check_same(
                "owner",
                self.scene.plane_run.plane.job_owner(job.id),
                Some(key(name)?),
            );
        }
        self.scene.check_same(
            "owner of no job",
            self.scene.plane_run.plane.job_owner(JobId(77_777)),
            None,
        );
        Ok(())
    }
}

/// Checks that a fixed job for a site that takes nothing now waits, unless its user does not want
/// that; the state of sites for that is a second old at most, and is worked out once a second at
/// most.
async fn check_closed_sites(scene: &StagedScene) -> Result<()> {
    scene.pass(DurationMs(120_000)).await;
    let site = site_name(1)?;
    let mut spec = JobSpec {
        request: RequestType::Fixed,
        ..small()?
    };
    spec.components[0].site = Some(site.clone());
    let waits = JobSubmission::from_spec(Arc::new(spec));
    let leaves = JobSubmission {
        refuse_closed: true,
        ..waits.clone()
    };
    let alice = key("alice")?;
    let plane = &scene.plane_run.plane;
    let is_open = plane.preview_job(&alice, leaves.clone()).is_ok();
    scene.check(is_open, || "a site that is open refuses a preview".into());
    command_site(scene, &site, OperatorCommand::Freeze).await?;
    scene.pass(DurationMs(SHAPES.0 - 1)).await;
    let is_open = plane.preview_job(&alice, leaves.clone()).is_ok();
    scene.check(is_open, || {
        "shapes are worked out anew within a second".into()
    });
    scene.pass(DurationMs(1)).await;
    let refusal = scene
        .ask(ApiRequest::Submit(vec![waits.clone(), leaves.clone()]))
        .await;
    let why = "frozen";
    let right = matches!(&refusal, Err(ApiRefusal::ClosedSite { index: 1, component, site: at, why: said })
        if component == "part-0" && *at == site && said.contains(why));
    scene.check(right, || format!("a site that takes nothing: {refusal:?}"));
    let waiting = scene.ask(ApiRequest::Submit(vec![waits])).await?;
    let ApiAnswer::Submitted(jobs) = waiting else {
        anyhow::bail!("{waiting:?}")
    };
    scene.pass(DurationMs(5_000)).await;
    check_at_rest(scene).await;
    let job = scene.job_record(jobs[0].id)?;
    scene.check(matches!(job.phase, JobPhase::Queued { .. }), || {
        format!("{:?}", job.phase)
    });
    command_site(scene, &site, OperatorCommand::Thaw).await?;
    let at = scene.now();
    let placed_at = scene
        .wait_until(DurationMs(60_000), |scene: &StagedScene| {
            scene
                .job_record(jobs[0].id)
                .is_ok_and(|job| job.instants.placed.is_some())
        })
        .await?;
    scene.check_same("when a job is placed whose site is thawed", placed_at, at);
    scene.pass(DurationMs(60_000)).await;
    Ok(())
}

async fn command_site(scene: &StagedScene, site: &SiteName, order: OperatorCommand) -> Result<()> {
    let answer = scene.ask(ApiRequest::Site(site.clone(), order)).await?;
    scene.check_same("an order about a site", answer, ApiAnswer::Done);
    Ok(())
}
