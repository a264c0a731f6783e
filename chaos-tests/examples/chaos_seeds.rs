//! Seeds of chaos under virtual time.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example for people")]
use cospan_chaos_tests::laboratory::chaos::campaign::{Size, seed, seeds};
use cospan_domain::units::DurationMs;

fn main() {
    let arg = |n: usize| std::env::args().nth(n).and_then(|a| a.parse::<u64>().ok());
    let (first, count) = (arg(1).unwrap_or(1), arg(2).unwrap_or(10));
    let size = Size {
        jobs: arg(3).unwrap_or(200) as usize,
        sites: 5,
        length: DurationMs(arg(4).unwrap_or(86_400) * 1_000),
    };
    if let Some(job) = arg(5) {
        let verdict = seed(first, size).unwrap();
        for (at, id, what) in verdict.timeline.iter().filter(|(_, id, _)| id.0 == job) {
            println!("{:>12} {id} {what}", at.0 - 1_000_000_000);
        }
        return;
    }
    let begun = std::time::Instant::now();
    seeds(first, count, 2, size, &|number, verdict| match verdict {
        Err(problem) => println!("seed {number}: ERROR {problem:#}"),
        Ok(v) => {
            let mark = if v.holds() { "ok  " } else { "FAIL" };
            println!(
                "{mark} {number} jobs {:?} reigns {} changes {} hash {} faults {}",
                v.jobs,
                v.reigns,
                v.changes,
                v.hash,
                v.struck.values().sum::<u64>()
            );
            if !v.holds() {
                println!("  {}", v.drawn);
                v.unsafe_.iter().take(6).for_each(|u| println!("  unsafe: {u}"));
                v.not_live.iter().for_each(|u| println!("  not live: {u}"));
            }
        }
    });
    println!("{:.1} s", begun.elapsed().as_secs_f64());
}
