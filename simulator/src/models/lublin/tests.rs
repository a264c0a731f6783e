use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::GammaDistribution;
use super::arrivals::{BUCKETS, daily_prices};
use super::*;

fn generate_jobs(parameters: &LublinParameters, seed: u64, count: usize) -> Vec<GeneratedJob> {
    let mut rng = StdRng::seed_from_u64(seed);
    LublinGenerator::new(parameters)
        .unwrap()
        .jobs(count, &mut rng)
}

fn generate_typeless_jobs(seed: u64, count: usize) -> Vec<GeneratedJob> {
    generate_jobs(
        &LublinParameters::Typeless(StreamParameters::typeless()),
        seed,
        count,
    )
}

fn share(jobs: &[GeneratedJob], holds: impl Fn(&GeneratedJob) -> bool) -> f64 {
    jobs.iter().filter(|job| holds(job)).count() as f64 / jobs.len() as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

#[test]
fn the_share_of_serial_jobs_is_the_parameter() {
    let jobs = generate_typeless_jobs(1, 20_000);
    let serial = share(&jobs, |job| job.processors == 1);
    assert!((serial - 0.244).abs() < 0.015, "{serial}");
}

#[test]
fn most_parallel_jobs_are_powers_of_two() {
    let jobs = generate_typeless_jobs(2, 20_000);
    let powers = share(&jobs, |job| {
        job.processors > 1 && job.processors.is_power_of_two()
    });
    // Some of the other sizes are powers of two by chance, small ones mostly.
    assert!((0.576..0.69).contains(&powers), "{powers}");
}

#[test]
fn sizes_are_uniform_in_their_logarithm_below_the_bend() {
    let jobs = generate_typeless_jobs(3, 40_000);
    let parallel: Vec<_> = jobs
        .iter()
        .copied()
        .filter(|job| job.processors > 1)
        .collect();
    // 0.86 of the exponents lie evenly from 0.8 to 4.5; powers of two round them.
    let below_six = share(&parallel, |job| job.processors < 6);
    let expected = 0.86 * (2.5 - 0.8) / 3.7;
    assert!(
        (below_six - expected).abs() < 0.025,
        "{below_six} instead of {expected}"
    );
}

#[test]
fn the_mean_of_ln_run_time_is_that_of_the_two_gammas() {
    let mut all = StreamParameters::typeless();
    all.run_times.first_share_slope = 0.0;
    let jobs = generate_jobs(&LublinParameters::Typeless(all), 4, 20_000);
    let found = mean(jobs.iter().map(|job| job.run_time.as_secs_f64().ln()));
    let expected = 0.78 * 4.2 * 0.94 + 0.22 * 312.0 * 0.03;
    assert!(
        (found - expected).abs() < 0.12,
        "{found} instead of {expected}"
    );
}

#[test]
fn larger_jobs_run_longer() {
    let jobs = generate_typeless_jobs(5, 20_000);
    let ln_mean = |from: u32, to: u32| {
        let sized = jobs
            .iter()
            .filter(|job| (from..=to).contains(&job.processors));
        mean(sized.map(|job| job.run_time.as_secs_f64().ln()))
    };
    assert!(ln_mean(64, 128) > ln_mean(1, 2) + 1.0);
}

#[test]
fn no_job_runs_beyond_the_limit_or_not_at_all() {
    let limit = LN_RUN_TIME_MAX.exp();
    let times = generate_jobs(&LublinParameters::default(), 6, 20_000);
    assert!(
        times
            .iter()
            .all(|job| (1.0..=limit).contains(&job.run_time.as_secs_f64()))
    );
}

#[test]
fn the_daily_cycle_peaks_after_noon_and_rests_before_dawn() {
    let jobs = generate_typeless_jobs(7, 40_000);
    let hours = |from: u64, to: u64| {
        let in_hours = share(&jobs, |job| {
            (from..to).contains(&(job.submitted.0 / 3_600_000 % 24))
        });
        in_hours / (to - from) as f64
    };
    assert!(hours(12, 16) > 1.5 / 24.0, "{}", hours(12, 16));
    assert!(hours(3, 7) < 0.5 / 24.0, "{}", hours(3, 7));
    assert!(hours(12, 16) > 4.0 * hours(3, 7));
}

#[test]
fn arrivals_fall_on_half_hours_in_proportion_to_their_prices() {
    let all = StreamParameters::typeless();
    let prices = daily_prices(all.arrivals.daily_cycle).unwrap();
    let jobs = generate_typeless_jobs(8, 60_000);
    for (bucket, price) in prices.iter().enumerate() {
        let found = share(&jobs, |job| {
            job.submitted.0 / 1_800_000 % 48 == bucket as u64
        });
        assert!(
            (found * 48.0 - price).abs() < 0.25,
            "{bucket}: {} and {price}",
            found * 48.0
        );
    }
}

#[test]
fn prices_follow_the_density_of_the_gamma() {
    // The density of Gamma(8, 4), up to a factor, at the middle of each half hour.
    let density = |x: f64| x.powi(7) * f64::exp(-x / 4.0);
    let prices = daily_prices(GammaDistribution {
        shape: 8.0,
        scale: 4.0,
    })
    .unwrap();
    let sum: f64 = (11..59).map(|place| density(f64::from(place))).sum();
    for place in 11..59_u32 {
        let expected = density(f64::from(place)) / sum * 48.0;
        let found = prices[(place as usize - 1) % BUCKETS];
        assert!(
            (found - expected).abs() < 0.02,
            "{place}: {found} and {expected}"
        );
    }
}

#[test]
fn the_mean_gap_is_that_of_the_gamma_whatever_the_cycle() {
    // exp of a gamma of shape a and scale b has the mean (1 - b)^-a.
    let mut all = StreamParameters::typeless();
    all.arrivals.ln_gap = GammaDistribution {
        shape: 20.0,
        scale: 0.2,
    };
    all.arrivals.rush_to_all = 1.25;
    let jobs = generate_jobs(&LublinParameters::Typeless(all), 9, 60_000);
    let span = jobs.last().unwrap().submitted.as_secs_f64();
    let found = span / jobs.len() as f64;
    let expected = f64::powf(0.8, -25.0);
    assert!(
        (found / expected - 1.0).abs() < 0.1,
        "{found} instead of {expected}"
    );
}

#[test]
fn the_typed_workload_mixes_both_types_and_is_in_order() {
    let jobs = generate_jobs(&LublinParameters::default(), 10, 10_000);
    assert!(
        jobs.windows(2)
            .all(|pair| pair[0].submitted <= pair[1].submitted)
    );
    let interactive = share(&jobs, |job| job.interactive);
    assert!((0.2..0.9).contains(&interactive), "{interactive}");
    let serial = |of: bool| {
        let typed: Vec<_> = jobs
            .iter()
            .copied()
            .filter(|job| job.interactive == of)
            .collect();
        share(&typed, |job| job.processors == 1)
    };
    assert!((serial(false) - 0.2927).abs() < 0.03, "{}", serial(false));
    assert!((serial(true) - 0.1541).abs() < 0.03, "{}", serial(true));
}

#[test]
fn the_load_knobs_move_the_load() {
    let load = |change: fn(&mut StreamParameters)| {
        let mut all = StreamParameters::typeless();
        change(&mut all);
        approximate_load(
            &generate_jobs(&LublinParameters::Typeless(all), 11, 8_000),
            128,
        )
        .unwrap()
    };
    let plain = load(|_| {});
    assert!(load(|all| all.arrivals.ln_gap.scale *= 0.9) > 1.3 * plain);
    assert!(load(|all| all.run_times.first_share_base -= 0.3) > 1.2 * plain);
    assert!(load(|all| all.sizes.lower_share = 0.5) > 1.2 * plain);
}

#[test]
fn the_load_of_a_constant_workload_is_exact() {
    let jobs: Vec<_> = (0..5)
        .map(|hour: u64| GeneratedJob {
            submitted: DurationMs::from_secs(hour * 3600),
            run_time: DurationMs::from_secs(1800),
            processors: 8,
            interactive: false,
        })
        .collect();
    assert_eq!(approximate_load(&jobs, 16), Some(0.25));
    assert_eq!(approximate_load(&jobs[..1], 16), None);
    assert_eq!(approximate_load(&jobs, 0), None);
}

#[test]
fn the_seed_decides_the_jobs() {
    let parameters = LublinParameters::default();
    assert_eq!(
        generate_jobs(&parameters, 12, 500),
        generate_jobs(&parameters, 12, 500)
    );
    assert_ne!(
        generate_jobs(&parameters, 12, 500),
        generate_jobs(&parameters, 13, 500)
    );
}

#[test]
fn parameters_outside_their_range_are_named() {
    let refused = |change: fn(&mut StreamParameters)| {
        let mut all = StreamParameters::batch();
        change(&mut all);
        LublinGenerator::new(&LublinParameters::Typeless(all))
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(|all| all.sizes.serial_share = 1.5),
        "the serial share is 1.5; it must be from 0 to 1"
    );
    assert!(refused(|all| all.sizes.power_of_two_share = 0.9).contains("power-of-two"));
    assert!(refused(|all| all.sizes.log2_knee = 0.5).contains("smallest size"));
    assert!(refused(|all| all.sizes.log2_high = f64::NAN).contains("largest size"));
    assert!(refused(|all| all.sizes.processors_max = 0).contains("processors"));
    assert!(refused(|all| all.arrivals.ln_gap.shape = -1.0).contains("ln gap"));
    assert!(refused(|all| all.arrivals.daily_cycle.scale = 1e6).contains("daily cycle"));
    assert!(refused(|all| all.run_times.first_share_slope = f64::NAN).contains("slope"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_job_is_larger_than_the_machine(processors in 1_u32..5000, seed: u64) {
        let parameters = LublinParameters::default().for_system(processors);
        for job in generate_jobs(&parameters, seed, 200) {
            prop_assert!((1..=processors).contains(&job.processors));
        }
    }
}

#[test]
fn a_machine_of_the_fitted_size_leaves_the_parameters_as_they_are() {
    assert_eq!(
        LublinParameters::default().for_system(128),
        LublinParameters::default()
    );
    let larger = StreamParameters::batch().for_system(1024).sizes;
    assert_eq!(
        (larger.log2_low, larger.log2_knee, larger.log2_high),
        (1.2, 8.0, 10.0)
    );
}
