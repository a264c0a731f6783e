//! Agents killed with -9 at any moment: what is in the store is always right.

use std::path::Path;
use std::time::{Duration, Instant};

use cospan_domain::content::Content;
use cospan_sites::port::{CopyBlame, CopyRequest, CopyStatus};
use rustix::process::Signal;

use crate::trees::{Snapshot, snapshot};
use crate::world::{DEADLINE, World, inspected, kill, noise, order, user};

const KILLS: usize = 100;

/// Something to copy, and what it must look like at the end.
struct Goods {
    content: Content,
    expected: Snapshot,
}

fn make_goods(world: &World, round: u64) -> Goods {
    let name = format!("x{round}");
    let path = world.path("a/files").join(&name);
    if round.is_multiple_of(2) {
        std::fs::write(&path, noise(round, 3_000_000)).unwrap();
    } else {
        std::fs::create_dir_all(path.join("d/e")).unwrap();
        for number in 0..40 {
            let place = if number % 2 == 0 { "d" } else { "d/e" };
            let bytes = noise(round + number, 60_000);
            std::fs::write(path.join(place).join(format!("f{number}")), bytes).unwrap();
        }
    }
    let content = inspected(&world.a, &user(&name)).content;
    Goods {
        content,
        expected: snapshot(&path),
    }
}

fn check_store(path: &Path, expected: &Snapshot) {
    if path.exists() {
        assert!(&snapshot(path) == expected, "what is in the store is wrong");
    }
}

/// Kills the agent after a while; `true` if that ended the copy.
fn kill_after(world: &World, order: &CopyRequest, wait: Duration) -> bool {
    std::thread::sleep(wait);
    let agents = world.agents_of(order);
    agents.iter().for_each(|pid| kill(*pid, Signal::KILL));
    match world.end_of(order) {
        CopyStatus::Complete => false,
        CopyStatus::Failed {
            blame: CopyBlame::Process,
            ..
        } => !agents.is_empty(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_hundred_kills_every_copy_is_right_and_none_was_ever_wrong() {
    let world = World::new();
    let mut struck = 0;
    let mut completed = 0;
    let mut seed = 0_u64;
    let started = Instant::now();
    while struck < KILLS {
        assert!(
            started.elapsed() < DEADLINE * 3,
            "only {struck} kills struck"
        );
        let goods = make_goods(&world, completed);
        let order = order(goods.content, &format!("x{completed}"));
        let path = world.in_store(goods.content.digest);
        loop {
            seed += 1;
            world.start(&order);
            let wait = Duration::from_micros(u64::from(noise(seed, 1)[0]) * 80);
            struck += usize::from(kill_after(&world, &order, wait));
            check_store(&path, &goods.expected);
            if world.status(&order) == CopyStatus::Complete || seed.is_multiple_of(16) {
                break;
            }
        }
        assert_eq!(world.copy(&order), CopyStatus::Complete);
        assert!(path.exists());
        check_store(&path, &goods.expected);
        assert!(
            !world.task(&order).exists(),
            "an agent's leavings are removed"
        );
        completed += 1;
    }
    println!("{struck} kills struck, {completed} copies completed");
}
