//! Dashboards, rules and code agree on what is counted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_server::chaos::ChaosMetrics;
use cospan_server::http::HttpMetrics;
use prometheus::Registry;
use prometheus::process_collector::ProcessCollector;
use serde_json::Value;

/// Metrics that no panel shows, and why not.
const NOT_SHOWN: [(&str, &str); 1] = [(
    "process_virtual_memory_bytes",
    "says nothing about the memory in use",
)];

/// What Prometheus itself adds.
const FROM_PROMETHEUS: [&str; 1] = ["up"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Every registered metric, and whether it is a histogram. A family with labels
/// shows itself only once it has a series, so each gets one.
fn registered() -> BTreeMap<String, bool> {
    let registry = Registry::new();
    let m = ControlPlaneMetrics::new(&registry).unwrap();
    let x = &["x"];
    m.jobs.with_label_values(x).set(1);
    m.queue_length.with_label_values(x).set(1);
    m.jobs_ended.with_label_values(x).inc();
    m.link_bandwidth.with_label_values(&["x", "y"]).set(1);
    m.transfer_failures.with_label_values(x).inc();
    m.rounds_aborted.with_label_values(x).inc();
    m.components_failed.with_label_values(&["x", "y"]).inc();
    m.site_state.with_label_values(&["x", "y"]).set(1);
    m.site_errors.with_label_values(x).inc();
    m.own_probes.with_label_values(x).inc();
    m.site_processors.with_label_values(&["x", "y"]).set(1);
    m.site_calls.with_label_values(&["x", "y"]).inc();
    m.mailbox_depth.with_label_values(x).set(1);
    m.actor_restarts.with_label_values(x).inc();
    m.notifications.with_label_values(x).inc();
    m.bid_rounds.with_label_values(x).inc();
    m.reservations.held.with_label_values(&["x", "y"]).set(1);
    m.reservations.refused.with_label_values(&["x", "y"]).inc();
    for counters in [
        &m.reservations.lost,
        &m.reservations.orphans,
        &m.reservations.moves,
    ] {
        counters.with_label_values(x).inc();
    }
    let _http = HttpMetrics::register(&registry).unwrap();
    let chaos = ChaosMetrics::register(&registry).unwrap();
    chaos.strikes.with_label_values(&["x", "y"]).inc();
    registry
        .register(Box::new(ProcessCollector::for_self()))
        .unwrap();
    cospan_server::serve::register_disk(&registry, ".".into()).unwrap();
    let histogram = prometheus::proto::MetricType::HISTOGRAM;
    let families = registry.gather();
    families
        .iter()
        .map(|f| (f.name().to_owned(), f.get_field_type() == histogram))
        .collect()
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|word: &&str| word.starts_with("cospan_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

/// The metric that a series belongs to.
fn family(series: &str, registered: &BTreeMap<String, bool>) -> Option<String> {
    if registered.contains_key(series) {
        return Some(series.to_owned());
    }
    let base = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|s| series.strip_suffix(s))?;
    registered
        .get(base)
        .is_some_and(|is_histogram| *is_histogram)
        .then(|| base.to_owned())
}

fn dashboard() -> Value {
    serde_json::from_str(&read("dashboards/cospan.json")).unwrap()
}

fn panels(dashboard: &Value) -> Vec<&Value> {
    let all = dashboard["panels"].as_array().unwrap();
    all.iter().filter(|panel| panel["type"] != "row").collect()
}

fn queries(dashboard: &Value) -> Vec<&str> {
    let targets = panels(dashboard)
        .into_iter()
        .flat_map(|p| p["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap())
        .collect()
}

fn rules() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&read("dashboards/rules.yml")).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

/// `dashboards/record.py` records them anew.
#[test]
fn the_recorded_scrapes_have_every_metric_or_say_why_not() {
    let excused = read("dashboards/recorded/empty.json");
    let recorded: String = (1..=4)
        .map(|number| read(format!("dashboards/recorded/{number}.prom")))
        .collect();
    for name in registered().keys() {
        let found = recorded.contains(&format!("# TYPE {name} ")) || excused.contains(name);
        assert!(found, "{name} was never recorded");
    }
}

#[test]
fn every_metric_that_is_shown_or_alerted_on_exists() {
    let registered = registered();
    let dashboard = dashboard();
    let rules = rules();
    let alerts = rules.iter().map(|rule| rule["expr"].as_str().unwrap());
    for query in queries(&dashboard).into_iter().chain(alerts) {
        let found = names(query);
        let other = FROM_PROMETHEUS.iter().any(|name| query.starts_with(name));
        assert!(!found.is_empty() || other, "no metric in: {query}");
        for name in found {
            assert!(
                family(&name, &registered).is_some(),
                "{name} is not registered: {query}"
            );
        }
    }
}

#[test]
fn every_metric_is_shown_or_excused() {
    let registered = registered();
    let shown = names(&queries(&dashboard()).join("\n"));
    let shown: BTreeSet<String> = shown
        .iter()
        .filter_map(|n| family(n, &registered))
        .collect();
    for name in registered.keys() {
        let excused = NOT_SHOWN.iter().any(|(excused, _)| excused == name);
        assert_ne!(
            shown.contains(name),
            excused,
            "{name} is to be shown, or excused, not both"
        );
    }
    for (name, _) in NOT_SHOWN {
        assert!(
            registered.contains_key(name),
            "{name} is excused but does not exist"
        );
    }
}

/// Guards the list in [`registered`]: a new family without a series is invisible there.
#[test]
fn no_metric_in_the_sources_is_overlooked() {
    let registered = registered();
    for file in [
        "actors/src/metrics.rs",
        "server/src/http/http_metrics.rs",
        "server/src/chaos/rehearsal_metrics.rs",
    ] {
        let text = read(file);
        let literals = text.split('"').skip(1).step_by(2);
        for name in literals.filter(|literal| literal.starts_with("cospan_")) {
            assert!(
                registered.contains_key(name),
                "{file}: give {name} a series in this test"
            );
        }
    }
    let elsewhere = metrics_elsewhere();
    assert!(
        elsewhere.is_empty(),
        "metrics outside of the metrics files: {elsewhere:?}"
    );
}

fn metrics_elsewhere() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![
        root().join("src"),
        root().join("server/src"),
        root().join("simulator/src"),
        root().join("actors/src"),
        root().join("sites/src"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .file_name()
                .is_some_and(|name| !name.to_string_lossy().ends_with("metrics.rs"))
                && fs::read_to_string(&path)
                    .unwrap_or_default()
                    .contains("Counter::new(")
            {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_panel_says_what_it_shows_and_no_two_overlap() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: its id is taken"
        );
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(
                    x < 24 && cells.insert((x, y)),
                    "{title} overlaps at {x}, {y}"
                );
            }
        }
    }
    for panel in panels(&dashboard) {
        let title = &panel["title"];
        assert!(
            panel["description"].as_str().is_some_and(|d| !d.is_empty()),
            "{title}"
        );
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title}: no unit"
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
}

#[test]
fn every_alert_has_a_severity_a_page_in_the_book_and_a_test() {
    let tests = read("dashboards/rules_test.yml");
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        assert!(
            ["info", "warning", "critical"].contains(&severity),
            "{name}: {severity:?}"
        );
        for key in ["summary", "description"] {
            assert!(rule["annotations"][key].is_string(), "{name}: no {key}");
        }
        let base = r#"{{ or $externalLabels.runbook_base "https://cospan.example/book" }}/"#;
        let runbook = rule["annotations"]["runbook_url"].as_str().unwrap();
        let (page, anchor) = runbook.strip_prefix(base).unwrap().split_once('#').unwrap();
        assert_eq!(anchor, name.to_lowercase(), "{name}");
        let file = format!("docs/src/{}", page.replace(".html", ".md"));
        assert!(
            read(&file).contains(&format!("\n## {name}\n")),
            "{file} says nothing of {name}"
        );
        let fires = format!("alertname: {name}\n");
        let quiet = format!("alertname: {name}, exp_al");
        assert!(tests.contains(&fires), "{name}: no test that it fires");
        assert!(
            tests.contains(&quiet),
            "{name}: no test that it keeps quiet"
        );
    }
}
