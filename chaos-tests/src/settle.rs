//! Waits until everything has come to rest.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::api::Api;
use crate::evidence::{self, ForeignAttempt, RunEvidence};
use crate::load::ClientPromises;
use crate::oracle::{self, OracleRule, OracleVerdict};
use crate::test_environment::TestEnvironment;

/// Time between two looks, which cost the server more than it has to do meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// Waits until every acknowledged job is final or the time is over, then judges
/// until what needs a moment (copies, idle counts) is in order or the time is over.
///
/// # Errors
/// The server does not answer.
pub fn settle_and_judge(
    environment: &TestEnvironment,
    api: &Api,
    promises: &ClientPromises,
    foreign: &mut [ForeignAttempt],
    patience: Duration,
) -> Result<(OracleVerdict, RunEvidence)> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        let rows = api.jobs()?;
        let open = rows.iter().filter(|row| {
            !matches!(
                row["state"].as_str(),
                Some("finished" | "failed" | "cancelled")
            )
        });
        if open.count() == 0 {
            break;
        }
        std::thread::sleep(LOOK);
    }
    loop {
        while begun.elapsed() < patience && !is_at_rest(environment, api)? {
            std::thread::sleep(LOOK);
        }
        let evidence = evidence::gather_evidence(environment, api, promises, foreign)?;
        let verdict = oracle::judge_evidence(&evidence);
        // A copy that nobody needs may go between a look at the catalogue and one at the disk.
        if !can_still_settle(&verdict) || begun.elapsed() >= patience {
            return Ok((verdict, evidence));
        }
    }
}

fn is_at_rest(environment: &TestEnvironment, api: &Api) -> Result<bool> {
    Ok(!can_still_settle(&oracle::judge_evidence(
        &evidence::gather_places(environment, api)?,
    )))
}

/// Returns true if something is wrong that is in order after a while: copies that nobody needs,
/// idle counts, processes.
fn can_still_settle(verdict: &OracleVerdict) -> bool {
    let waits = [
        OracleRule::NothingHeld,
        OracleRule::NothingRuns,
        OracleRule::NothingStaged,
        OracleRule::NothingLost,
    ];
    verdict
        .violations
        .iter()
        .any(|violation| waits.contains(&violation.rule))
}
