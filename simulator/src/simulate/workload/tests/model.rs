//! Workloads from models.

use std::collections::{BTreeMap, BTreeSet};

use cospan_domain::ids::LogicalName;
use cospan_domain::job::spec::Priority;
use cospan_domain::units::Bytes;

use super::super::{EstimateSource, JOBS_MAX, OwnFileSettings};
use super::*;
use cospan_languages::logs::BadLineTreatment;

fn lublin(jobs: usize) -> WorkloadOptions {
    WorkloadOptions::new(WorkloadSource::Lublin { jobs }, 1)
}

#[test]
fn a_poisson_workload_has_the_load_sizes_and_run_times_it_is_set_to() {
    let Workload { jobs, complaints } = planned(&poisson(20_000, &[1, 2, 4, 8]));
    assert!(complaints.is_empty(), "{complaints}");
    assert_eq!(complaints.to_string(), "nothing to complain about");
    assert_eq!((jobs.len(), jobs[0].name.as_str()), (20_000, "1"));
    // 3.75 processors for 120 s on average, every 30 s, on 400 processors.
    let load = offered_load(&jobs, 400).unwrap();
    assert!((load / 0.0375 - 1.0).abs() < 0.05, "{load}");
    for job in &jobs {
        assert!([1, 2, 4, 8].contains(&job.components[0]));
        assert!((60_000..=180_000).contains(&job.run_time.0));
        assert_eq!(job.estimate, job.run_time);
    }
}

#[test]
fn a_lublin_workload_is_made_for_the_whole_grid_and_comes_in_order() {
    let options = WorkloadOptions {
        split: WorkloadSplit::LargerThan(64),
        ..lublin(5000)
    };
    let Workload { jobs, complaints } = planned(&options);
    assert_eq!(jobs.len() as u64 + complaints.unplaceable, 5000);
    assert!(jobs.is_sorted_by_key(|job| job.at));
    let largest = jobs.iter().map(WorkloadJob::processors).max().unwrap();
    // The authors fitted the model to a machine of 128.
    assert!((129..=400).contains(&largest), "{largest}");
}

#[test]
fn a_load_scale_of_two_halves_all_times_and_changes_nothing_else() {
    let plain = planned(&poisson(500, &[4])).jobs;
    let dense = planned(&WorkloadOptions {
        load_scale: 2.0,
        ..poisson(500, &[4])
    })
    .jobs;
    for (plain, dense) in plain.iter().zip(&dense) {
        let before = plain.at.since(BEGIN).0;
        let now = dense.at.since(BEGIN).0;
        assert_eq!(now, (before as f64 / 2.0).round() as u64);
        assert_eq!(
            WorkloadJob {
                at: plain.at,
                ..dense.clone()
            },
            *plain
        );
    }
}

#[test]
fn the_seed_decides_everything() {
    let options = WorkloadOptions {
        split: WorkloadSplit::Random,
        inputs: ["a", "b"].map(|name| name.parse().unwrap()).into(),
        estimates: EstimateSource::Tsafrir,
        ..lublin(300)
    };
    assert_eq!(planned(&options), planned(&options));
    let other = WorkloadOptions {
        seed: 2,
        ..options.clone()
    };
    assert_ne!(planned(&options).jobs, planned(&other).jobs);
}

#[test]
fn another_option_leaves_what_it_is_not_about_as_it_was() {
    let plain = planned(&poisson(300, &[4, 8])).jobs;
    let rich = planned(&WorkloadOptions {
        split: WorkloadSplit::Random,
        inputs: ["a", "b"].map(|name| name.parse().unwrap()).into(),
        priorities: vec![Priority::High, Priority::Low],
        estimates: EstimateSource::Tsafrir,
        ..poisson(300, &[4, 8])
    });
    for (plain, rich) in plain.iter().zip(&rich.jobs) {
        assert_eq!((plain.at, plain.run_time), (rich.at, rich.run_time));
        assert_eq!(plain.processors(), rich.processors());
    }
}

#[test]
fn a_size_in_components_is_kept_whatever_the_split() {
    let mut options = WorkloadOptions {
        split: WorkloadSplit::Into(3),
        ..poisson(400, &[6])
    };
    if let WorkloadSource::Poisson { sizes, .. } = &mut options.source {
        sizes.push(JobSize::Parts { count: 4, each: 9 });
    }
    let jobs = planned(&options).jobs;
    let in_four = jobs
        .iter()
        .filter(|job| job.components == [9, 9, 9, 9])
        .count();
    let in_three = jobs
        .iter()
        .filter(|job| job.components == [2, 2, 2])
        .count();
    assert_eq!(in_four + in_three, 400);
    assert!((150..250).contains(&in_four), "{in_four}");
}

#[test]
fn each_job_has_a_file_of_its_own_and_more_replicas_only_add_places() {
    let options = poisson(300, &[1]);
    let given = |replicas| {
        let own = OwnFileSettings {
            sizes: vec![Bytes(2), Bytes(4)],
            replicas,
        };
        let mut jobs = planned(&options).jobs;
        let given = own.assign_files(&mut jobs, SITES.len(), 1).unwrap();
        let names: BTreeSet<LogicalName> =
            jobs.iter().filter_map(|job| job.input.clone()).collect();
        assert_eq!(names.len(), 300);
        given
    };
    let one = given(1);
    let three = given(3);
    assert_eq!((one.len(), three.len(), given(9).len()), (300, 900, 1500));
    assert!(one.iter().all(|replica| three.contains(replica)));
    for site in 0..SITES.len() {
        let here = one.iter().filter(|replica| replica.site == site).count();
        assert!(
            (35..85).contains(&here),
            "{here} of 300 files at site {site}"
        );
    }
    let small = one
        .iter()
        .filter(|replica| replica.size == Bytes(2))
        .count();
    assert!((110..190).contains(&small), "{small}");
    let places: BTreeSet<_> = three
        .iter()
        .map(|replica| (&replica.name, replica.site))
        .collect();
    assert_eq!(places.len(), 900);
}

#[test]
fn each_input_and_priority_is_drawn_equally_often() {
    let options = WorkloadOptions {
        inputs: ["a", "b"].map(|name| name.parse().unwrap()).into(),
        priorities: vec![Priority::High, Priority::Low],
        ..poisson(2000, &[1])
    };
    let mut counts = BTreeMap::new();
    for job in planned(&options).jobs {
        *counts.entry((job.input, job.priority)).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 4);
    assert!(
        counts.values().all(|count| (430..570).contains(count)),
        "{counts:?}"
    );
    let plain = planned(&poisson(1, &[1])).jobs;
    assert_eq!((&plain[0].input, plain[0].priority), (&None, Priority::Low));
}

#[test]
fn tsafrir_estimates_are_never_below_the_run_time_even_for_few_jobs() {
    for jobs in [1, 2, 5, 20] {
        for seed in 0..60 {
            let estimates = EstimateSource::Tsafrir;
            let split = WorkloadSplit::LargerThan(32);
            for options in [
                poisson(jobs, &[1]),
                WorkloadOptions {
                    split,
                    ..lublin(jobs)
                },
            ] {
                let plan = planned(&WorkloadOptions {
                    estimates,
                    seed,
                    ..options
                })
                .jobs;
                assert!(plan.iter().all(|job| job.estimate >= job.run_time));
            }
        }
    }
}

#[test]
fn jobs_without_room_are_counted_and_named_or_refused() {
    let options = WorkloadOptions {
        split: WorkloadSplit::Into(2),
        ..poisson(100, &[64, 160])
    };
    let Workload { jobs, complaints } = planned(&options);
    // Two components of 80 processors would both need the largest site.
    assert!(jobs.iter().all(|job| job.components == [32, 32]));
    assert_eq!(jobs.len() as u64 + complaints.unplaceable, 100);
    assert_eq!(complaints.unplaceable_kept.len(), 10);
    let first = complaints.unplaceable_kept[0].job;
    let told = complaints.to_string();
    assert!(
        told.contains(&format!("no empty grid has room for (job {first}, ")),
        "{told}"
    );

    let error = refused(&WorkloadOptions {
        on_bad: BadLineTreatment::Refuse,
        ..options.clone()
    });
    assert!(
        error.starts_with(&format!("job {first} needs 2 components of up to 80 ")),
        "{error}"
    );
    let error = options.plan_workload(&[16], BEGIN).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no job can be used (100 left out that"),
        "{error}"
    );
}

#[test]
fn the_first_jobs_that_can_be_placed_are_taken() {
    let options = WorkloadOptions {
        jobs_max: Some(7),
        ..poisson(100, &[64, 160])
    };
    let Workload { jobs, complaints } = planned(&options);
    assert_eq!(jobs.len(), 7);
    assert!(complaints.unplaceable > 0 && complaints.unplaceable < 93);
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    for load_scale in [0.0, -1.0, f64::NAN, f64::INFINITY, 1001.0] {
        let error = refused(&WorkloadOptions {
            load_scale,
            ..poisson(1, &[1])
        });
        assert!(
            error.contains("the load scale") && error.contains("0.001 to 1000"),
            "{error}"
        );
    }
    for split in [WorkloadSplit::Into(0), WorkloadSplit::LargerThan(0)] {
        assert!(refused(&WorkloadOptions { split, ..lublin(1) }).contains("the split is 0"));
    }
    assert!(refused(&lublin(0)).contains("from 1 to"));
    assert!(refused(&lublin(JOBS_MAX + 1)).contains("from 1 to"));
    assert!(refused(&poisson(0, &[1])).contains("the number of jobs is 0"));
    assert!(refused(&poisson(1, &[])).contains("name at least one"));
    assert!(refused(&poisson(1, &[0])).contains("each above 0"));
    let turned = WorkloadSource::Poisson {
        jobs: 1,
        mean_interarrival: DurationMs(0),
        sizes: vec![1.into()],
        shortest: DurationMs(2),
        longest: DurationMs(1),
    };
    assert!(refused(&WorkloadOptions::new(turned, 1)).contains("not below the shortest"));
}

#[test]
fn no_sites_have_room_for_no_job() {
    for options in [poisson(1, &[1]), lublin(1), poisson(1, &[u32::MAX])] {
        assert!(options.plan_workload(&[], BEGIN).is_err());
    }
}
