//! The number of queries that a cluster receives.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::bench_clusters::{BenchComponent, BenchEnvironment};
use super::clusters::ALPHA;

/// Queries of alpha per minute while there are no jobs.
pub(super) fn idle_rate(ground: &BenchEnvironment, length: Duration) -> Result<f64> {
    crate::print_progress("queries while nothing runs");
    // Jobs that have just ended are still being tidied up.
    std::thread::sleep(length / 2);
    query_rate(ground, || {
        std::thread::sleep(length);
        Ok(())
    })
}

/// Queries of alpha per minute while jobs come and go.
pub(super) fn busy_rate(ground: &BenchEnvironment, length: Duration) -> Result<f64> {
    crate::print_progress("queries while jobs come and go");
    query_rate(ground, || {
        let begin = Instant::now();
        let part = BenchComponent {
            site: Some(ALPHA.name),
            processors: 2,
        };
        while begin.elapsed() < length {
            let jobs = [
                ground.submit(&[part], 5, "")?,
                ground.submit(&[part], 8, "")?,
            ];
            ground.await_ends(&jobs, &[])?;
        }
        Ok(())
    })
}

fn query_rate(ground: &BenchEnvironment, work: impl Fn() -> Result<()>) -> Result<f64> {
    let begin = Instant::now();
    let before = ground.count_queries()?;
    work()?;
    let queries = ground.count_queries()? - before;
    Ok(queries as f64 / begin.elapsed().as_secs_f64() * 60.0)
}
