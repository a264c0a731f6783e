//! The preferences of a job among the sites that are asked for a reservation, as its user writes
//! them.

use std::sync::Arc;

use cospan_domain::acquisition::{
    BenchmarkScore, JobBenchmark, RankingObjective, RankingPreferences,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

use super::quantity::Length;
use super::text_patterns::BenchmarkText;

/// The objective by which sites are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectiveName {
    /// The earliest start.
    EarliestStart,
    /// The earliest time at which the output is where it is wanted.
    #[default]
    EarliestCompletion,
}

impl ObjectiveName {
    /// Returns the name as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectiveName::EarliestStart => "earliest-start",
            ObjectiveName::EarliestCompletion => "earliest-completion",
        }
    }
}

impl From<ObjectiveName> for RankingObjective {
    fn from(name: ObjectiveName) -> Self {
        match name {
            ObjectiveName::EarliestStart => RankingObjective::EarliestStart,
            ObjectiveName::EarliestCompletion => RankingObjective::EarliestCompletion,
        }
    }
}

impl From<RankingObjective> for ObjectiveName {
    fn from(objective: RankingObjective) -> Self {
        match objective {
            RankingObjective::EarliestStart => ObjectiveName::EarliestStart,
            RankingObjective::EarliestCompletion => ObjectiveName::EarliestCompletion,
        }
    }
}

/// The preferences that rank the sites that are asked for a reservation. All of them may be left
/// out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreferencesDocument {
    /// The objective; `earliest-completion` if left out. If the run time is unknown, only starts
    /// are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveName>,
    /// Expected run time, the same at every site; benchmarks are more exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_time: Option<Length>,
    /// Expected time until the input has arrived, where replicas and links do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "10m")]
    pub stage_in: Option<Length>,
    /// Expected time until the output is where it is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_out: Option<Length>,
    /// Benchmarks with characteristics like the job's, each named once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 32)]
    pub benchmark: Vec<BenchmarkDocument>,
}

/// A benchmark with characteristics like the job's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchmarkDocument {
    /// The name of the benchmark, as in the configuration of the sites.
    #[schema(value_type = BenchmarkText)]
    pub name: Arc<str>,
    /// The result of a system on which the job's run time is known; higher is better.
    pub reference: ScoreNumber,
    /// The run time of the job on that system.
    pub run_time: Length,
}

/// The result of a benchmark, written as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreNumber(pub BenchmarkScore);

impl Serialize for ScoreNumber {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.0.as_f64())
    }
}

impl<'de> Deserialize<'de> for ScoreNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let score =
            BenchmarkScore::new(f64::deserialize(from)?).filter(|score| *score > BenchmarkScore(0));
        let most = BenchmarkScore::MAX.as_f64();
        score.map(ScoreNumber).ok_or_else(|| {
            D::Error::custom(format!(
                "a result must be above 0 and at most {most}; it counts millionths"
            ))
        })
    }
}

impl From<PreferencesDocument> for RankingPreferences {
    fn from(document: PreferencesDocument) -> Self {
        Self {
            objective: document.objective.unwrap_or_default().into(),
            benchmarks: document
                .benchmark
                .into_iter()
                .map(|one: BenchmarkDocument| JobBenchmark {
                    name: one.name,
                    reference: one.reference.0,
                    run_time: one.run_time.0,
                })
                .collect(),
            run_time: document.run_time.map(|length| length.0),
            stage_in: document.stage_in.map(|length| length.0),
            stage_out: document.stage_out.map(|length| length.0),
        }
    }
}

impl From<&RankingPreferences> for PreferencesDocument {
    fn from(preferences: &RankingPreferences) -> Self {
        let benchmarks = preferences.benchmarks.iter();
        let benchmarks = benchmarks.map(|one: &JobBenchmark| BenchmarkDocument {
            name: one.name.clone(),
            reference: ScoreNumber(one.reference),
            run_time: Length(one.run_time),
        });
        Self {
            objective: Some(preferences.objective.into()),
            run_time: preferences.run_time.map(Length),
            stage_in: preferences.stage_in.map(Length),
            stage_out: preferences.stage_out.map(Length),
            benchmark: benchmarks.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use cospan_domain::job::spec::JobSpecLimits;

    use crate::v1::document::JobDocument;
    use crate::v1::parse::{JobFormat, parse};

    fn job_with_table(rest: &str) -> String {
        let component = "[[component]]\nname = \"a\"\nprocessors = 1\nexecutable = \"/bin/true\"";
        format!("wall_time = \"1h\"\n{component}\n{rest}")
    }

    const RESERVED: &str = "[reservation]\nearliest = \"2026-11-27T09:00:00Z\"\n";

    /// What a job with this table is told.
    fn validation_answer(rest: &str) -> String {
        let spec = match parse(&job_with_table(rest), JobFormat::Toml) {
            Ok(document) => document.into_spec().unwrap(),
            Err(error) => return error.to_string(),
        };
        spec.validate(&JobSpecLimits::default())
            .map_or_else(|e| e.to_string(), |()| "fine".into())
    }

    #[test]
    fn what_is_preferred_is_shown_as_it_was_given() {
        let given = format!(
            "{RESERVED}[preferences]\nobjective = \"earliest-start\"\nstage_in = \"5m\"\n\
             [[preferences.benchmark]]\nname = \"b1\"\nreference = 0.25\nrun_time = \"2h\"\n"
        );
        assert_eq!(validation_answer(&given), "fine");
        let spec = parse(&job_with_table(&given), JobFormat::Toml)
            .unwrap()
            .into_spec()
            .unwrap();
        let shown = toml::to_string(&JobDocument::from(&spec)).unwrap();
        assert!(
            shown.contains("reference = 0.25") && shown.contains("earliest-start"),
            "{shown}"
        );
        assert_eq!(
            parse(&shown, JobFormat::Toml).unwrap().into_spec().unwrap(),
            spec
        );
    }

    #[test]
    fn preferences_that_make_no_sense_are_refused_with_what_to_do() {
        let benchmark = |name: &str, reference: &str| {
            format!(
                "[[preferences.benchmark]]\nname = \"{name}\"\nreference = {reference}\n\
                 run_time = \"1h\"\n"
            )
        };
        let cases = [
            ("[preferences]\n".to_owned(), "drop `[preferences]`"),
            (format!("{RESERVED}{}", benchmark("b", "0")), "above 0"),
            (format!("{RESERVED}{}", benchmark("b", "-1.5")), "above 0"),
            (
                format!("{RESERVED}{}", benchmark("b b", "1")),
                "no name of a benchmark",
            ),
            (
                format!("{RESERVED}{0}{0}", benchmark("b", "1")),
                "given twice",
            ),
        ];
        for (given, problem) in cases {
            assert!(
                validation_answer(&given).contains(problem),
                "{given}: {}",
                validation_answer(&given)
            );
        }
        let later = "[reservation]\nwanted = \"no\"\n[preferences]\nrun_time = \"1h\"\n";
        assert_eq!(validation_answer(later), "fine", "it is kept for later");
    }
}
