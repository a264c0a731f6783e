//! The files of whole reports.

use std::collections::BTreeSet;

use cospan_domain::units::Timestamp;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::{empty_run, short_job, small_run};
use crate::simulate::report::{ReportError, ReportFiles, RunRecord, render_report, write_report};

fn file_text<'a>(report: &'a ReportFiles, name: &str) -> &'a str {
    let found = report
        .files
        .iter()
        .find(|file| file.path.ends_with(name))
        .unwrap();
    std::str::from_utf8(&found.content).unwrap()
}

/// Names of all elements, if this is well-formed XML.
fn elements(text: &str) -> Result<Vec<String>, quick_xml::Error> {
    let mut reader = Reader::from_str(text);
    let mut names = Vec::new();
    loop {
        match reader.read_event()? {
            Event::Start(tag) | Event::Empty(tag) => {
                for attribute in tag.attributes() {
                    attribute?;
                }
                names.push(tag.name().as_ref().to_owned());
            }
            Event::Eof => return Ok(names),
            _ => {}
        }
    }
}

/// Renders, and checks what holds for every report.
fn render_checked(runs: &[RunRecord]) -> ReportFiles {
    let report = render_report(&[], runs).unwrap();
    let paths: BTreeSet<_> = report.files.iter().map(|file| &file.path).collect();
    assert_eq!(
        paths.len(),
        report.files.len(),
        "every file has its own name"
    );
    for file in report
        .files
        .iter()
        .filter(|f| f.path.extension().is_some_and(|e| e == "svg"))
    {
        let text = std::str::from_utf8(&file.content).unwrap();
        assert!(
            text.len() < 300_000,
            "{}: {} bytes",
            file.path.display(),
            text.len()
        );
        let names = elements(text).unwrap();
        assert_eq!(names[..3], ["svg", "title", "desc"]);
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
    serde_json::from_str::<serde_json::Value>(self::file_text(&report, "summary.json")).unwrap();
    report
}

#[test]
fn a_report_on_several_runs_has_all_its_files() {
    let runs = [
        small_run("a", 1),
        small_run("b", 1),
        small_run("a", 2),
        small_run("b", 2),
    ];
    let report = render_checked(&runs);
    let names = report
        .files
        .iter()
        .map(|file| file.path.display().to_string());
    let expected = [
        "summary.json",
        "jobs.csv",
        "components.csv",
        "local.csv",
        "report.html",
        "figures/distributions.svg",
        "figures/queue.svg",
        "figures/utilization-1-a.svg",
        "figures/gantt-1-a.svg",
        "figures/utilization-2-b.svg",
        "figures/gantt-2-b.svg",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert!(report.text.contains("\nb less a, per seed\n"));
    assert_eq!(
        report,
        render_report(&[], &runs).unwrap(),
        "the same records give the same bytes"
    );
}

#[test]
fn the_page_holds_every_figure_and_fetches_nothing() {
    let page = render_checked(&[small_run("a", 1)]);
    let html = file_text(&page, "report.html");
    assert_eq!(html.matches("<svg ").count(), 4);
    assert!(!html.contains("<script") && !html.contains("<link") && !html.contains("@import"));
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    assert!(!without_namespace.contains("http:") && !without_namespace.contains("https:"));
    let ids: Vec<&str> = html
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "ids are unique"
    );
}

/// Whoever scrolls on a screen cannot on paper.
#[test]
fn a_table_breaks_its_cells_rather_than_leave_the_paper() {
    let page = render_checked(&[small_run("a", 1)]);
    let html = file_text(&page, "report.html");
    let (_, printed) = html.split_once("@media print{").unwrap();
    let (printed, body) = printed.split_once("</style>").unwrap();
    assert!(printed.contains("\ntd{white-space:normal}\n"), "{printed}");
    assert!(printed.contains("\n.dense{font-size:7pt}\n"), "{printed}");
    assert!(body.matches("<table class=\"dense\">").count() >= 3);
}

#[test]
fn names_are_escaped_wherever_they_stand() {
    let mut run = small_run("<script>alert('x')</script>\u{0}&", 1);
    run.sites[0].name = "<b>\"Delft\" & Co".to_owned();
    run.counters.insert("<i>odd".to_owned(), 1);
    let report = render_checked(&[
        run.clone(),
        RunRecord {
            label: "</style>".to_owned(),
            ..run
        },
    ]);
    let html = file_text(&report, "report.html");
    for raw in ["<script>", "<b>", "<i>odd", "& Co", "</style></"] {
        assert!(!html.contains(raw), "{raw}");
    }
    assert_eq!(html.matches("</style>").count(), 1);
    assert!(!report.text.contains('\u{0}'));
}

#[test]
fn runs_without_jobs_sites_or_time_are_reported() {
    let report = render_checked(&[empty_run()]);
    assert!(
        report.text.contains("mean wait (s)                -"),
        "{}",
        report.text
    );
    let idle = RunRecord {
        ended: Timestamp(9_000),
        ..small_run("idle", 1)
    };
    render_checked(&[RunRecord {
        jobs: Vec::new(),
        queue: Vec::new(),
        began: Timestamp(0),
        ..idle
    }]);
}

#[test]
fn one_job_and_jobs_that_never_started_are_reported() {
    let one = RunRecord {
        ended: Timestamp(30_000),
        jobs: vec![short_job()],
        ..empty_run()
    };
    let mut unfinished = one.clone();
    unfinished.label = "unfinished".to_owned();
    unfinished.jobs[0].started = None;
    unfinished.jobs[0].finished = None;
    render_checked(&[one, unfinished]);
}

#[test]
fn nonsense_in_a_record_is_no_reason_to_panic() {
    let mut run = small_run("odd", 1);
    run.ended = Timestamp(u64::MAX);
    run.sites[0].processors = 0;
    run.sites[1].load.reverse();
    run.sites[1]
        .bars
        .iter_mut()
        .for_each(|bar| bar.processors = u32::MAX);
    run.sites[2]
        .bars
        .iter_mut()
        .for_each(|bar| (bar.from, bar.to) = (bar.to, bar.from));
    run.queue.reverse();
    run.queue
        .iter_mut()
        .for_each(|step| step.waiting = u32::MAX);
    run.jobs
        .iter_mut()
        .for_each(|job| job.finished = Some(Timestamp(0)));
    run.jobs
        .iter_mut()
        .for_each(|job| job.held_processor_ms = u64::MAX);
    run.jobs
        .iter_mut()
        .for_each(|job| job.transfer_bytes = u64::MAX);
    render_checked(&[run]);
}

#[test]
fn runs_that_cannot_be_told_apart_or_go_backwards_are_refused() {
    assert!(matches!(render_report(&[], &[]), Err(ReportError::NoRuns)));
    let twice = render_report(&[], &[empty_run(), empty_run()]);
    assert!(matches!(
        twice,
        Err(ReportError::DuplicateRun { seed: 1, .. })
    ));
    let backwards = render_report(
        &[],
        &[RunRecord {
            ended: Timestamp(0),
            ..empty_run()
        }],
    );
    assert!(matches!(
        backwards,
        Err(ReportError::EndsBeforeItBegins { .. })
    ));
}

#[test]
fn records_survive_serialization() {
    let run = RunRecord {
        jobs: vec![short_job()],
        ..small_run("a", 1)
    };
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<RunRecord>(&json).unwrap(), run);
}

#[test]
fn curves_that_coincide_are_drawn_through_each_other_and_named() {
    let report = render_checked(&[small_run("a", 1), small_run("b", 2), small_run("a copy", 1)]);
    let figure = file_text(&report, "figures/distributions.svg");
    assert!(figure.contains("a and a copy coincide."), "{figure}");
    assert!(figure.contains(".dash2{stroke-dasharray:"));
    let drawn = |class: &str| figure.matches(&format!("class=\"{class}\"")).count();
    assert_eq!(
        [drawn("curve s0"), drawn("curve s2 dash2")],
        [4, 4],
        "a key and three panels"
    );
}

#[test]
fn the_page_says_which_jobs_waited_and_what_each_difference_is_about() {
    let labels = ["cf, easy", "cf, fcfs", "wf, easy", "wf, fcfs"];
    let runs: Vec<RunRecord> = labels.iter().map(|label| small_run(label, 1)).collect();
    let report = render_checked(&runs);
    let html = file_text(&report, "report.html");
    for words in [
        "By number of components",
        "By size",
        "fcfs less easy (wf)",
        "wf less cf (easy)",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("fcfs less easy (cf, "));
    assert!(
        report.text.contains("\nwf less cf (fcfs), per seed\n"),
        "{}",
        report.text
    );
}

#[test]
fn a_second_report_leaves_nothing_of_the_first_and_all_else() {
    let folder = tempfile::tempdir().unwrap();
    let names = || -> BTreeSet<String> {
        let files = std::fs::read_dir(folder.path().join("figures")).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    write_report(folder.path(), &[], &[small_run("a", 1), small_run("b", 1)]).unwrap();
    std::fs::write(folder.path().join("figures/notes.txt"), "mine").unwrap();
    write_report(folder.path(), &[], &[small_run("c", 1)]).unwrap();
    let expected = [
        "distributions.svg",
        "gantt-c.svg",
        "notes.txt",
        "queue.svg",
        "utilization-c.svg",
    ];
    assert_eq!(names(), expected.map(str::to_owned).into());
}

#[test]
fn a_report_is_written_as_rendered_and_a_refusing_disk_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let report = write_report(folder.path(), &[], &[empty_run()]).unwrap();
    for file in &report.files {
        assert_eq!(
            std::fs::read(folder.path().join(&file.path)).unwrap(),
            file.content
        );
    }
    let blocked = folder.path().join("jobs.csv");
    let error = write_report(&blocked, &[], &[empty_run()]).unwrap_err();
    assert!(error.to_string().contains("jobs.csv/figures"), "{error}");
}
