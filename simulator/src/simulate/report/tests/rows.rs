//! `jobs.csv` read back.

use cospan_domain::units::Timestamp;

use super::{empty_run, short_job, small_run};
use crate::simulate::report::{COLUMNS, RunRecord, jobs_csv};

fn read_jobs_csv(runs: &[RunRecord]) -> (Vec<String>, Vec<Vec<String>>) {
    let bytes = jobs_csv(runs).unwrap();
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let owned = |row: &csv::StringRecord| row.iter().map(str::to_owned).collect::<Vec<_>>();
    let header = owned(reader.headers().unwrap());
    (
        header,
        reader.records().map(|row| owned(&row.unwrap())).collect(),
    )
}

/// The milliseconds of a field in seconds.
fn parse_ms(field: &str) -> Option<u64> {
    (!field.is_empty()).then(|| field.replace('.', "").parse().unwrap())
}

#[test]
fn every_job_has_one_row_that_gives_its_facts_back() {
    let runs = [small_run("a", 1), small_run("b", 1), small_run("a", 2)];
    let (header, rows) = read_jobs_csv(&runs);
    assert_eq!(header, COLUMNS.map(|column| column.name));
    let column = |name| header.iter().position(|other| other == name).unwrap();
    let jobs: Vec<_> = runs
        .iter()
        .flat_map(|run| run.jobs.iter().map(move |j| (run, j)))
        .collect();
    assert_eq!(rows.len(), jobs.len());
    for (row, (run, job)) in rows.iter().zip(jobs) {
        let field = |name| row[column(name)].as_str();
        let since = |at: Option<Timestamp>| at.map(|at| at.0 - run.began.0);
        assert_eq!(
            (field("run"), field("seed")),
            (&run.label[..], &run.seed.to_string()[..])
        );
        assert_eq!(field("job_id"), job.id.to_string());
        assert_eq!(field("processors"), job.processors.to_string());
        assert_eq!(field("ending"), job.ending.word());
        assert_eq!(parse_ms(field("submitted_s")), since(Some(job.submitted)));
        assert_eq!(parse_ms(field("placed_s")), since(job.placed));
        assert_eq!(parse_ms(field("claimed_s")), since(job.claimed));
        assert_eq!(parse_ms(field("started_s")), since(job.started));
        assert_eq!(parse_ms(field("finished_s")), since(job.finished));
        assert_eq!(
            parse_ms(field("transfer_time_s")),
            Some(job.transfer_time_ms)
        );
        assert_eq!(
            parse_ms(field("held_processor_s")),
            Some(job.held_processor_ms)
        );
    }
}

#[test]
fn the_figures_of_a_job_follow_from_its_instants() {
    let run = RunRecord {
        began: Timestamp(500),
        jobs: vec![short_job()],
        ..empty_run()
    };
    let (header, rows) = read_jobs_csv(&[run]);
    let field = |name: &str| &rows[0][header.iter().position(|other| other == name).unwrap()];
    assert_eq!(field("name"), "a, \"quoted\"\nname");
    assert_eq!(field("submitted_s"), "0.500");
    assert_eq!(field("placement_time_s"), "2.500");
    assert_eq!(field("wait_s"), "20.000");
    assert_eq!(field("run_time_s"), "5.000");
    assert_eq!(field("response_s"), "25.000");
    assert_eq!(
        field("bounded_slowdown"),
        "2.5000",
        "25 s over the threshold of 10 s"
    );
    assert_eq!(field("total_placement_time_s"), "2.500");
    assert_eq!(
        field("start_delay_s"),
        "-0.500",
        "the last placement promised an earlier start"
    );
    assert_eq!(
        (
            field("failed_claims").as_str(),
            field("rounds_aborted").as_str()
        ),
        ("2", "0")
    );
    assert_eq!(field("gained_processor_s"), "33.000");
    assert_eq!(field("held_share"), "0.7500", "30 of 40 processor-seconds");
}

#[test]
fn what_a_job_never_reached_is_empty_what_preceded_the_run_is_negative() {
    let mut job = short_job();
    job.placed = None;
    job.started = None;
    job.finished = None;
    let run = RunRecord {
        jobs: vec![job],
        ..empty_run()
    };
    let (header, rows) = read_jobs_csv(&[run]);
    let field = |name: &str| &rows[0][header.iter().position(|other| other == name).unwrap()];
    assert_eq!(field("submitted_s"), "-4.000");
    for name in [
        "placed_s",
        "started_s",
        "finished_s",
        "wait_s",
        "bounded_slowdown",
        "held_share",
    ] {
        assert_eq!(field(name), "", "{name}");
    }
}
