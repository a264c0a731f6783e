//! A `[[site]]` table and the tables inside of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cospan_domain::acquisition::{BenchmarkScore, BenchmarkScores};
use cospan_domain::ids::{LogicalName, SiteName};
use cospan_domain::units::{Bytes, DurationMs, Mflops};
use toml::de::DeValue;

use super::super::describe::discipline_name;
use super::super::grid_table::{
    GridTable, kind_of_value, read_bool, read_share, read_text, read_whole, read_word,
};
use super::super::{
    BlackHoleNodes, DescribedSite, FailureSource, LoadLevel, LocalJobModel, LocalJobSource,
    LocalLoad, NODES_MAX, PROCESSORS_PER_NODE_MAX, grid_quantity,
};
use super::read_links::read_length;
use crate::simulate::workload::{ESTIMATES_TIMES_MAX, EstimateSource};
use crate::world::batch::QueueDiscipline;

const DISCIPLINES: [QueueDiscipline; 3] = [
    QueueDiscipline::Fcfs,
    QueueDiscipline::Easy,
    QueueDiscipline::Conservative,
];
/// The speed of a processor, in GFLOPS.
const GFLOPS_MAX: f64 = 1e9;
/// A higher load would only lengthen the queue faster.
const UTILIZATION_MAX: f64 = 10.0;

/// Reads a site whose name was read before.
pub(super) fn read_site(
    table: &GridTable<'_, '_>,
    name: Option<SiteName>,
    directory: &Path,
) -> Option<DescribedSite> {
    table.allow_only(&[
        "name",
        "nodes",
        "processors_per_node",
        "scheduler",
        "local_load",
        "failures",
        "black_holes",
        "files",
        "queues",
        "reserves",
        "gflops_per_processor",
        "benchmarks",
        "upload",
        "download",
    ]);
    let nodes = table.required_value("nodes", |value| read_whole(value, 1..=NODES_MAX));
    let processors_per_node = table.value_or("processors_per_node", 1, |value| {
        read_whole(value, 1..=PROCESSORS_PER_NODE_MAX)
    });
    let disciplines = DISCIPLINES.map(|discipline| (discipline_name(discipline), discipline));
    let discipline = table.value_or("scheduler", QueueDiscipline::Easy, |value| {
        read_word(value, &disciplines)
    });

    let queues = table.value_or("queues", false, read_bool);
    let reserves = table.value_or("reserves", false, read_bool);
    if queues == Some(true) && reserves == Some(true) {
        let message = format!("{} has both queues and reserves", table.title());
        table.add_problem(
            table.table_span(),
            message,
            "drop one: a site that grants reservations has no queue",
        );
    }

    let power = table
        .has_key("gflops_per_processor")
        .then(|| read_power(table));
    let benchmarks = table.value_or("benchmarks", BenchmarkScores::new(), read_benchmarks);
    let upload = table.has_key("upload").then(|| {
        Some(
            table
                .required_value("upload", super::read_links::read_bandwidth)?
                .value,
        )
    });
    let download = table.has_key("download").then(|| {
        Some(
            table
                .required_value("download", super::read_links::read_bandwidth)?
                .value,
        )
    });

    let called = name
        .as_ref()
        .map_or(table.title().to_owned(), |name| format!("site {name}"));
    let inner = |key: &str| table.sub_table(key, format!("[site.{key}] of {called}"));
    let processors = nodes
        .as_ref()
        .zip(processors_per_node)
        .map(|(n, each)| n.value * each);
    let local_load =
        inner("local_load").map(|inner| read_local_load(&inner, processors, directory));
    let failures = inner("failures").map(|inner| read_failures(&inner, directory));
    let black_holes = inner("black_holes").map(|inner| read_black_holes(&inner));
    let files = inner("files").map(|inner| read_files(&inner));
    Some(DescribedSite {
        name: name?,
        nodes: nodes?.value,
        processors_per_node: processors_per_node?,
        discipline: discipline?,
        local_load: all_or_none(local_load)?,
        failures: all_or_none(failures)?,
        black_holes: all_or_none(black_holes)?,
        files: files.unwrap_or_default(),
        queues: queues?,
        reserves: reserves?,
        power_per_processor: all_or_none(power)?,
        benchmarks: benchmarks?,
        upload: all_or_none(upload)?,
        download: all_or_none(download)?,
    })
}

/// Results of benchmarks: `{ linpack = 38.4 }`.
fn read_benchmarks(value: &DeValue<'_>) -> Result<BenchmarkScores, String> {
    let DeValue::Table(table) = value else {
        return Err(format!(
            "it is {}; give a table like {{ linpack = 38.4 }}",
            kind_of_value(value)
        ));
    };
    let mut scores = BenchmarkScores::new();
    for (name, value) in table {
        let name: &str = name.get_ref();
        let result = read_share(value.get_ref(), BenchmarkScore::MAX.as_f64())
            .map_err(|problem| format!("{name}: {problem}"))?;
        scores.extend(BenchmarkScore::new(result).map(|score| (name.into(), score)));
    }
    Ok(scores)
}

fn read_power(table: &GridTable<'_, '_>) -> Option<Mflops> {
    let power = table.optional_value("gflops_per_processor", |value| {
        let gflops = read_share(value, GFLOPS_MAX)?;
        match Mflops((gflops * 1e3).round() as u64) {
            Mflops(0) => Err("is too small; give a number of GFLOPS above 0".into()),
            power => Ok(power),
        }
    });
    power.map(|power| power.value)
}

/// Distinguishes a value that is left out, which is fine, from one that is given and wrong.
fn all_or_none<T>(given: Option<Option<T>>) -> Option<Option<T>> {
    given.map_or(Some(None), |value| value.map(Some))
}

/// Returns true if the table has `log` and not `otherwise`; if it has neither, or both, that is a
/// problem.
fn is_log(table: &GridTable<'_, '_>, otherwise: &str) -> Option<bool> {
    match (table.has_key("log"), table.has_key(otherwise)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        (both, _) => {
            let found = if both {
                "both log and"
            } else {
                "neither log nor"
            };
            let message = format!("{} has {found} {otherwise}", table.title());
            table.add_problem(
                table.table_span(),
                message,
                format!("give either log or {otherwise}"),
            );
            None
        }
    }
}

/// Records a problem for known keys that do not fit what is given.
fn check_fitting_keys(table: &GridTable<'_, '_>, all: &[&str], fitting: &[&str], what: &str) {
    table.allow_only(all);
    for key in table.keys() {
        if !all.contains(&key.value) || fitting.contains(&key.value) {
            continue;
        }
        let message = format!("{} in {} does not go with {what}", key.value, table.title());
        table.add_problem(
            &key.at,
            message,
            format!("known here: {}", fitting.join(", ")),
        );
    }
}

fn read_local_load(
    table: &GridTable<'_, '_>,
    processors: Option<u32>,
    directory: &Path,
) -> Option<LocalLoad> {
    const ALL: [&str; 10] = [
        "log",
        "start",
        "model",
        "utilization",
        "least",
        "most",
        "mean_run_time",
        "sizes",
        "estimates",
        "estimates_times",
    ];
    let words = EstimateSource::ALL.map(|estimates| (estimates.describe(), estimates));
    let estimates = table.value_or("estimates", EstimateSource::AsGiven, |value| {
        read_word(value, &words)
    });
    let times = table.value_or("estimates_times", 1.0, |value| {
        read_share(value, ESTIMATES_TIMES_MAX)
    });
    let source = match is_log(table, "model") {
        None => {
            table.allow_only(&ALL);
            return None;
        }
        Some(true) => {
            check_fitting_keys(
                table,
                &ALL,
                &["log", "start", "estimates", "estimates_times"],
                "log",
            );
            let (path, start) = read_log(table, directory);
            LocalJobSource::Log {
                path: path?,
                start: start?,
            }
        }
        Some(false) => read_model(table, &ALL, processors)?,
    };
    Some(LocalLoad {
        source,
        estimates: estimates?,
        estimates_times: times?,
    })
}

/// The keys that go with the model of that name, and with others, too.
const LUBLIN: [&str; 4] = ["model", "utilization", "estimates", "estimates_times"];

/// The models.
#[derive(Clone, Copy)]
enum LocalModelName {
    Lublin,
    Poisson,
    Level,
}

/// Reads the options of one model that others do not have.
fn read_model(
    table: &GridTable<'_, '_>,
    all: &[&str],
    processors: Option<u32>,
) -> Option<LocalJobSource> {
    let models = [
        ("lublin", LocalModelName::Lublin),
        ("poisson", LocalModelName::Poisson),
        ("level", LocalModelName::Level),
    ];
    match table
        .required_value("model", |value| read_word(value, &models))?
        .value
    {
        LocalModelName::Lublin => {
            check_fitting_keys(table, all, &LUBLIN, "model = \"lublin\"");
            Some(LocalJobSource::Model {
                model: LocalJobModel::Lublin,
                utilization: read_utilization(table)?,
            })
        }
        LocalModelName::Poisson => {
            let fitting = [&LUBLIN[..], &["mean_run_time", "sizes"]].concat();
            check_fitting_keys(table, all, &fitting, "model = \"poisson\"");
            let mean_run_time = table.required_value("mean_run_time", read_positive_length);
            let largest = processors.unwrap_or(u32::MAX);
            let sizes = table.required_value("sizes", |value| read_sizes(value, largest));
            let utilization = read_utilization(table);
            let mean_run_time = mean_run_time?.value;
            let sizes = sizes?.value;
            let model = LocalJobModel::Poisson {
                mean_run_time,
                sizes,
            };
            Some(LocalJobSource::Model {
                model,
                utilization: utilization?,
            })
        }
        LocalModelName::Level => read_level(table, all).map(LocalJobSource::Level),
    }
}

fn read_utilization(table: &GridTable<'_, '_>) -> Option<f64> {
    table
        .required_value("utilization", |value| read_share(value, UTILIZATION_MAX))
        .map(|u| u.value)
}

fn read_level(table: &GridTable<'_, '_>, all: &[&str]) -> Option<LoadLevel> {
    let fitting = [
        "model",
        "least",
        "most",
        "mean_run_time",
        "estimates",
        "estimates_times",
    ];
    check_fitting_keys(table, all, &fitting, "model = \"level\"");
    let least = table.required_value("least", |value| read_share(value, 1.0));
    let most = table.required_value("most", |value| read_share(value, 1.0));
    let mean_run_time = table.required_value("mean_run_time", read_positive_length);
    let least = least?.value;
    let most = most?;
    let mean_run_time = mean_run_time?.value;
    if most.value < least {
        let message = format!("most in {} is below least", table.title());
        table.add_problem(&most.at, message, "give a most that is at least least");
        return None;
    }
    Some(LoadLevel {
        least,
        most: most.value,
        mean_run_time,
    })
}

fn read_failures(table: &GridTable<'_, '_>, directory: &Path) -> Option<FailureSource> {
    const ALL: [&str; 6] = [
        "log",
        "system",
        "start",
        "shuffled",
        "mean_between_failures",
        "mean_repair",
    ];
    match is_log(table, "mean_between_failures") {
        None => {
            table.allow_only(&ALL);
            None
        }
        Some(true) => {
            check_fitting_keys(table, &ALL, &["log", "system", "start", "shuffled"], "log");
            let system = table.required_value("system", |value| read_whole(value, 0..=u32::MAX));
            let (path, start) = read_log(table, directory);
            let shuffled = table.value_or("shuffled", false, read_bool);
            let path = path?;
            let start = start?;
            let shuffled = shuffled?;
            Some(FailureSource::Log {
                path,
                system: system?.value,
                start,
                shuffled,
            })
        }
        Some(false) => {
            let fitting = ["mean_between_failures", "mean_repair"];
            check_fitting_keys(table, &ALL, &fitting, "mean_between_failures");
            let (mean_between_failures, mean_repair) = read_means(table)?;
            Some(FailureSource::Exponential {
                mean_between_failures,
                mean_repair,
            })
        }
    }
}

/// The mean times for which a node is well, and is not.
fn read_means(table: &GridTable<'_, '_>) -> Option<(DurationMs, DurationMs)> {
    let well = table.required_value("mean_between_failures", read_positive_length);
    let ill = table.required_value("mean_repair", read_positive_length);
    Some((well?.value, ill?.value))
}

fn read_black_holes(table: &GridTable<'_, '_>) -> Option<BlackHoleNodes> {
    table.allow_only(&["mean_between_failures", "mean_repair"]);
    let (mean_between_failures, mean_repair) = read_means(table)?;
    Some(BlackHoleNodes {
        mean_between_failures,
        mean_repair,
    })
}

fn read_files(table: &GridTable<'_, '_>) -> BTreeMap<LogicalName, Bytes> {
    let mut files = BTreeMap::new();
    for key in table.keys() {
        let size = table.optional_value(key.value, |value| {
            grid_quantity::parse_size(read_text(value)?)
        });
        match LogicalName::new(key.value) {
            Ok(name) => files.extend(size.map(|size| (name, size.value))),
            Err(error) => table.add_problem(&key.at, error.to_string(), "choose another name"),
        }
    }
    files
}

fn read_log(table: &GridTable<'_, '_>, directory: &Path) -> (Option<PathBuf>, Option<DurationMs>) {
    let path = table.required_value("log", |value| {
        read_text(value).map(|path| directory.join(path))
    });
    (
        path.map(|path| path.value),
        table.value_or("start", DurationMs::ZERO, read_length),
    )
}

/// A length of time above zero.
fn read_positive_length(value: &DeValue<'_>) -> Result<DurationMs, String> {
    match read_length(value)? {
        DurationMs::ZERO => Err("it is zero; give a longer time".into()),
        length => Ok(length),
    }
}

/// A list of job sizes that the site has room for.
fn read_sizes(value: &DeValue<'_>, largest: u32) -> Result<Vec<u32>, String> {
    let remedy = "write it like [1, 2, 4, 8]";
    let DeValue::Array(items) = value else {
        return Err(format!("it is no list; {remedy}"));
    };
    if items.is_empty() {
        return Err(format!("it is empty; {remedy}"));
    }
    items
        .iter()
        .map(|item| read_whole(item.get_ref(), 1..=largest))
        .collect()
}
