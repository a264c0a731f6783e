//! Placement by every policy on whole grids: the plan or the refusal, what is told of every site,
//! what is left, and what the history table has learned.

use std::collections::BTreeSet;

use cospan_domain::content::Content;
use cospan_domain::ids::SiteName;
use cospan_domain::placement::{
    Board, GridSnapshot, History, PlacementRequest, Plan, Recorder, Refusal, Remaining, Silent,
    can_ever_be_placed, dominant_refusal, may_try_out, place,
};
use rand::Rng;
use rand::rngs::StdRng;

use super::asked::{Asked, share};
use super::ground::Ground;
use super::ground_draws::{files, flexible as draw_flexible, ground, rigid as draw_rigid};
use super::judge::{Judge, Table};
use super::placing::{Came, dominant, rigid};
use super::settings::{connected, lacking, remote};
use super::splitting::flexible;
use super::submissions::{ever, is_waited_for};

const POLICIES: [&str; 6] = [
    "worst-fit",
    "close-to-files",
    "cluster-minimization",
    "connected-cluster-minimization",
    "flexible-cluster-minimization",
    "connected-flexible-cluster-minimization",
];

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let (mut ground, mut next) = match chance.random_range(0..10) {
        0..2 => told_apart(connected(chance)),
        2..4 => told_apart(remote(chance)),
        4 => told_apart(lacking(chance)),
        _ => (ground(chance), None),
    };
    let grid = ground.snapshot();
    let mut remaining = Remaining::of(&grid);
    let mut table = draw_table(chance, &ground);
    let mut found = Vec::new();
    for job in 0..2 {
        let asked = next.take().unwrap_or_else(|| draw_any(chance, &ground));
        let Some(request) = asked.request() else { return found };
        let mut history = told_table(&table, &ground);
        let case = Case { asked: &asked, request: &request, grid: &grid };
        found.extend(case.submission(&ground));
        let (came, more) = case.compared(&ground, &mut remaining, &table, &mut history, job);
        found.extend(more);
        found.extend(case.kept(&came, &ground, &mut remaining, &mut history, job));
        (ground, table) = (came.ground, came.table);
    }
    found
}

fn told_apart((ground, asked): (Ground, Asked)) -> (Ground, Option<Asked>) {
    (ground, Some(asked))
}

fn draw_any(chance: &mut StdRng, ground: &Ground) -> Asked {
    let policy = POLICIES[chance.random_range(0..POLICIES.len())];
    match policy.contains("flexible") {
        true => draw_flexible(chance, ground, policy),
        false => draw_rigid(chance, ground, policy),
    }
}

fn draw_table(chance: &mut StdRng, ground: &Ground) -> Table {
    if chance.random_bool(0.5) {
        return Table::All;
    }
    let share = [0.0, 0.3, 0.7][chance.random_range(0..3)];
    let count = ground.sites.len();
    let pairs = (0..count).flat_map(|at| (0..count).map(move |from| (at, from)));
    Table::Pairs(pairs.filter(|_| chance.random_bool(share)).collect())
}

fn told_table(table: &Table, ground: &Ground) -> History {
    let name = |at: usize| ground.sites[at].name.clone();
    match table {
        Table::All => History::All,
        Table::Pairs(pairs) => {
            let pairs: BTreeSet<(SiteName, SiteName)> =
                pairs.iter().map(|(at, from)| (name(*at), name(*from))).collect();
            History::Pairs(pairs)
        }
    }
}

struct Case<'a> {
    asked: &'a Asked,
    request: &'a PlacementRequest,
    grid: &'a GridSnapshot,
}

impl Case<'_> {
    /// What comes of it by the rules, and where the domain differs.
    fn compared(
        &self,
        ground: &Ground,
        remaining: &mut Remaining,
        table: &Table,
        history: &mut History,
        job: u32,
    ) -> (Came, Vec<String>) {
        let mut recorder = Recorder::default();
        let told = place(
            self.request,
            &mut Board {
                grid: self.grid,
                remaining: &mut remaining.clone(),
                history: &mut history.clone(),
                observer: &mut recorder,
            },
        );
        let board = Board { grid: self.grid, remaining, history, observer: &mut Silent };
        let silent = place(self.request, &mut { board });
        let (before, known) = (ground.clone(), table.clone());
        let came = match self.asked.bounds() {
            None => rigid(self.asked, before, known, job),
            Some(_) => flexible(self.asked, before, known, job, told.as_ref().ok()),
        };
        let Some(came) = came else {
            return (unknown(ground, table, told), vec![self.text("cannot be", &"so")]);
        };
        let mut found = Vec::new();
        if told != came.outcome {
            found.push(self.text(&format!("{told:?}"), &came.outcome));
        }
        if silent != told {
            found.push(self.text(&format!("in silence {silent:?}"), &told));
        }
        if recorder.verdicts != came.verdicts && found.is_empty() {
            let pairs = recorder.verdicts.iter().zip(&came.verdicts);
            let first = pairs.clone().find(|(is, ought)| is != ought);
            found.push(self.text(&format!("verdicts {first:?}"), &came.verdicts.len()));
        }
        if *history != told_table(&came.table, ground) {
            found.push(self.text(&format!("the table {history:?}"), &came.table));
        }
        let contents: Vec<Content> = files();
        found.extend(came.ground.differs(remaining, &contents));
        (came, found)
    }

    fn text(&self, told: &str, ought: &impl std::fmt::Debug) -> String {
        format!("{:?} on {:?}: {told}, not {ought:?}", self.asked, self.grid)
    }

    /// What is kept with the job: what kept most sites from it; and what it uses.
    fn kept(
        &self,
        came: &Came,
        before: &Ground,
        remaining: &mut Remaining,
        history: &mut History,
        job: u32,
    ) -> Vec<String> {
        let Ok(plan) = &came.outcome else { return Vec::new() };
        let mut found = Vec::new();
        let paired = (self.asked.policy == "close-to-files").then_some(&came.table);
        let parts = self.asked.components().into();
        let judge = Judge { ground: before.clone(), whole: self.asked, parts, job, table: paired };
        let left = remaining.clone();
        let mut board = Board { grid: self.grid, remaining, history, observer: &mut Silent };
        let told = dominant_refusal(self.request, plan, &mut board);
        let told = told.map(|told| (told.code as u32, told.sites));
        let ought = dominant(&judge, plan);
        if told != ought || left != *remaining {
            found.push(self.text(&format!("kept from {told:?}"), &ought));
        }
        let placed = plan.placements.iter().enumerate();
        let uses = placed.map(|(part, placement)| {
            let own = match placement.share {
                Some(own) => share(&self.asked.parts[0].resources, own),
                None => self.asked.parts[part].resources.clone(),
            };
            (placement.site.clone(), own)
        });
        if !self.request.uses(plan).eq(uses) {
            found.push(self.text("uses something else", plan));
        }
        found
    }

    /// Whether it could ever be placed, and whether it may try out a site.
    fn submission(&self, ground: &Ground) -> Vec<String> {
        let mut found = Vec::new();
        let told = can_ever_be_placed(self.request, self.grid);
        let sites: Vec<_> = ground.sites.iter().collect();
        let ought = ever(self.asked, &sites);
        if told != ought {
            found.push(self.text(&format!("ever {told:?}"), &ought));
        }
        let waited_for: Vec<_> =
            sites.into_iter().filter(|site| is_waited_for(site.acceptance)).collect();
        let tries = self.asked.may_probe() || ever(self.asked, &waited_for).is_err();
        if may_try_out(self.request, &ground.sites) != tries {
            found.push(self.text("may try out a site or not", &tries));
        }
        found
    }
}

fn unknown(ground: &Ground, table: &Table, outcome: Result<Plan, Refusal>) -> Came {
    Came { outcome, verdicts: Vec::new(), ground: ground.clone(), table: table.clone() }
}
