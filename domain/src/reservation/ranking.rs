//! Ranking of sites by predicted times (the broker's paper, section 3.1).
//!
//! TTS, the total time to start, is stage-in and then waiting; under a reservation the two overlap.
//! TTD, the total time to delivery, adds the execution and stage-out.

use crate::acquisition::RankingObjective;
use crate::ids::SiteName;
use crate::units::{DurationMs, PerMillion, Timestamp};

/// The default factor by which the time of a missing benchmark counts: twice.
pub const MISSING_BENCHMARK_FACTOR: PerMillion = PerMillion(2_000_000);

/// The wait of a job at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartWait {
    /// It waits in the queue for an estimated time.
    Queue(DurationMs),
    /// A reservation was granted for this start.
    Reserved(Timestamp),
}

/// The predicted times of a job at a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SitePrediction {
    pub site: SiteName,
    /// TTS.
    pub to_start: DurationMs,
    /// TTD; `None` if nothing is known of its execution.
    pub to_delivery: Option<DurationMs>,
}

/// Returns the earliest start to request: when the input is there.
pub fn earliest_start_with_input(now: Timestamp, stage_in: DurationMs) -> Timestamp {
    now + stage_in
}

/// Predicts the times of a job at a site.
pub fn predict_times(
    site: SiteName,
    now: Timestamp,
    wait: StartWait,
    staging: (DurationMs, DurationMs),
    execution: Option<DurationMs>,
) -> SitePrediction {
    let (stage_in, stage_out) = staging;
    let to_start = match wait {
        StartWait::Queue(wait) => stage_in + wait,
        StartWait::Reserved(start) => start.since(now).max(stage_in),
    };
    let to_delivery = execution.map(|execution| to_start + execution + stage_out);
    SitePrediction {
        site,
        to_start,
        to_delivery,
    }
}

/// Sorts the best site first; equal ones by name. Returns what they were compared by: if the
/// execution is not known at every site, they can compare by starts only.
pub fn rank_sites(
    predictions: &mut [SitePrediction],
    wanted: RankingObjective,
) -> RankingObjective {
    let is_known = predictions
        .iter()
        .all(|prediction| prediction.to_delivery.is_some());
    let by = if is_known {
        wanted
    } else {
        RankingObjective::EarliestStart
    };
    predictions.sort_by(|a, b| {
        let times = match by {
            RankingObjective::EarliestStart => a.to_start.cmp(&b.to_start),
            RankingObjective::EarliestCompletion => a.to_delivery.cmp(&b.to_delivery),
        };
        times.then_with(|| a.site.cmp(&b.site))
    });
    by
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquisition::{BenchmarkScore, BenchmarkScores, JobBenchmark, RankingPreferences};
    use crate::units::{BitsPerSecond, Bytes};

    fn secs(secs: u64) -> DurationMs {
        DurationMs::from_secs(secs)
    }

    fn score(result: f64) -> BenchmarkScore {
        BenchmarkScore::new(result).unwrap()
    }

    fn preferences() -> RankingPreferences {
        let benchmark = |name: &str, reference, run_time| JobBenchmark {
            name: name.into(),
            reference: score(reference),
            run_time: secs(run_time),
        };
        let benchmarks = vec![benchmark("b1", 100.0, 600), benchmark("b2", 50.0, 500)];
        RankingPreferences {
            benchmarks,
            ..RankingPreferences::default()
        }
    }

    fn results(b1: f64, b2: Option<f64>) -> BenchmarkScores {
        let both = [("b1", Some(b1)), ("b2", b2)];
        both.into_iter()
            .filter_map(|(name, result)| Some((name.into(), score(result?))))
            .collect()
    }

    fn estimated_execution(
        preferences: &RankingPreferences,
        results: &BenchmarkScores,
    ) -> Option<DurationMs> {
        preferences.estimate_run_time(MISSING_BENCHMARK_FACTOR, results)
    }

    const NOW: Timestamp = Timestamp(1_000_000);

    /// Stage-in 30 s, stage-out 10 s.
    fn predict_at(name: &str, wait: StartWait, execution: Option<DurationMs>) -> SitePrediction {
        predict_times(
            SiteName::new(name).unwrap(),
            NOW,
            wait,
            (secs(30), secs(10)),
            execution,
        )
    }

    fn three_predictions() -> [SitePrediction; 3] {
        let sites = [
            ("A", 120, 200.0, Some(50.0)),
            ("B", 30, 80.0, Some(100.0)),
            ("C", 0, 150.0, None),
        ];
        sites.map(|(name, wait, b1, b2)| {
            predict_at(
                name,
                StartWait::Queue(secs(wait)),
                estimated_execution(&preferences(), &results(b1, b2)),
            )
        })
    }

    fn site_order(predictions: &[SitePrediction]) -> Vec<&str> {
        predictions
            .iter()
            .map(|prediction| prediction.site.as_str())
            .collect()
    }

    #[test]
    fn t_1_and_t_2_the_earliest_start_need_not_complete_earliest() {
        let mut sites = three_predictions();
        let times = sites.clone().map(|site| (site.to_start, site.to_delivery));
        let expected = [(150, 560), (60, 570), (30, 740)];
        assert_eq!(
            times,
            expected.map(|(start, end)| (secs(start), Some(secs(end))))
        );
        assert_eq!(
            rank_sites(&mut sites, RankingObjective::EarliestStart),
            RankingObjective::EarliestStart
        );
        assert_eq!(site_order(&sites), ["C", "B", "A"]);
        assert_eq!(
            rank_sites(&mut sites, RankingObjective::EarliestCompletion),
            RankingObjective::EarliestCompletion
        );
        assert_eq!(site_order(&sites), ["A", "B", "C"]);
    }

    #[test]
    fn t_3_stage_in_and_waiting_overlap_under_a_reservation() {
        let execution = estimated_execution(&preferences(), &results(200.0, Some(50.0)));
        let reserved = predict_at("A", StartWait::Reserved(NOW + secs(90)), execution);
        assert_eq!(
            (reserved.to_start, reserved.to_delivery),
            (secs(90), Some(secs(500)))
        );
        let start = earliest_start_with_input(NOW, secs(120));
        let site = SiteName::new("A").unwrap();
        let staging = (secs(120), secs(10));
        assert_eq!(
            predict_times(site, NOW, StartWait::Reserved(start), staging, None).to_start,
            secs(120)
        );
    }

    #[test]
    fn t_4_several_files_come_one_after_the_other() {
        let gb = |gb: u64| Bytes(gb * 1_000_000_000);
        let mbit = |mbit: u64| BitsPerSecond(mbit * 1_000_000);
        let first = gb(2).transfer_time(mbit(100)).unwrap();
        let second = gb(1).transfer_time(mbit(400)).unwrap();
        assert_eq!(first + second, secs(180));
    }

    #[test]
    fn t_5_a_result_of_nothing_counts_as_missing() {
        let found = estimated_execution(&preferences(), &results(0.0, Some(50.0)));
        assert_eq!(found, Some(secs((1_200 + 500) / 2)));
        assert!(
            [-1.0, f64::NAN, 1e10]
                .into_iter()
                .all(|none| BenchmarkScore::new(none).is_none())
        );
    }

    #[test]
    fn t_6_without_benchmarks_the_users_time_counts_or_only_starts_do() {
        let users = RankingPreferences {
            run_time: Some(secs(77)),
            ..RankingPreferences::default()
        };
        assert_eq!(
            estimated_execution(&users, &results(1.0, None)),
            Some(secs(77))
        );
        assert_eq!(
            estimated_execution(&RankingPreferences::default(), &results(1.0, None)),
            None
        );
        let mut sites = ["A", "B"].map(|name| predict_at(name, StartWait::Queue(secs(0)), None));
        sites[0].to_start = secs(99);
        assert_eq!(
            rank_sites(&mut sites, RankingObjective::EarliestCompletion),
            RankingObjective::EarliestStart
        );
        assert_eq!(site_order(&sites), ["B", "A"]);
    }

    #[test]
    fn t_7_equal_sites_come_by_name() {
        let mut sites =
            ["C", "A", "B"].map(|name| predict_at(name, StartWait::Queue(secs(0)), Some(secs(1))));
        rank_sites(&mut sites, RankingObjective::EarliestCompletion);
        assert_eq!(site_order(&sites), ["A", "B", "C"]);
    }
}
