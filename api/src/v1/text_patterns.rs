//! Descriptions of the texts of this interface for other people's tools: the characters of a name,
//! the notation of a length of time. What fits is accepted, and everything else is refused:
//! `tests/clients` checks that of a server.

use std::borrow::Cow;

use cospan_domain::acquisition::BenchmarkScore;
use cospan_domain::job::job_state::PhaseKind;
use serde_json::json;
use utoipa::openapi::schema::{
    AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, RefOr, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use super::commands::StateName;
use super::dimension_weights::Factor;
use super::document::Unreachable;
use super::label::{Demand, OverrideTarget};
use super::preferences::ScoreNumber;
use super::quantity::{Instant, Length, Size};
use super::runner::ValueText;
use super::time::Moment;

/// The shape of a text: a pattern, a length and an example.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextShape {
    description: &'static str,
    pub(super) pattern: &'static str,
    pub(super) max_length: usize,
    pub(super) example: &'static str,
}

impl TextShape {
    fn describe(self) -> ObjectBuilder {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(self.description))
            .pattern(Some(self.pattern))
            .min_length(Some(1))
            .max_length(Some(self.max_length))
            .examples([json!(self.example)])
    }
}

macro_rules! shapes {
    ($($(#[doc = $doc:literal])* $name:literal $type:ident $pattern:expr, $most:literal, $example:literal;)*) => {$(
        impl $type {
            pub(super) const SHAPE: TextShape = TextShape {
                description: concat!($($doc),*).trim_ascii(),
                pattern: $pattern,
                max_length: $most,
                example: $example,
            };
        }

        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $type::SHAPE.describe().build().into()
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    )*};
}

/// Generates stand-ins for texts of the domain, which knows no interface.
macro_rules! stand_ins {
    ($($name:ident)*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name;
    )*};
}

stand_ins! {
    SiteText ComponentText FileText KeyText PolicyText ReservationText RunnerText TargetText PathText DigestText
    RequestKeyText VariableText BenchmarkText Positive
}

shapes! {
    /// Name of a site.
    "SiteName" SiteText r"^[A-Za-z][A-Za-z0-9._-]*$", 63, "delft";
    /// Name of a component, unique in its job.
    "ComponentName" ComponentText r"^[A-Za-z0-9][A-Za-z0-9._-]*$", 63, "solver";
    /// Logical name of a file: at most 255 bytes of UTF-8, no control characters.
    "LogicalName" FileText r"^[^/\\\x00-\x1f\x7f-\x9f-][^\\\x00-\x1f\x7f-\x9f]*$", 255, "mesh.dat";
    /// Name of a key.
    "KeyName" KeyText r"^[A-Za-z0-9][A-Za-z0-9._@-]*$", 63, "alice";
    /// Name of a placement policy.
    "PolicyName" PolicyText r"^[a-z-]+$", 63, "worst-fit";
    /// Name of a shared reservation.
    "ReservationName" ReservationText r"^[A-Za-z][A-Za-z0-9._-]*$", 63, "course-1";
    /// Name of a runner.
    "RunnerName" RunnerText r"^[a-z-]+$", 63, "parallel";
    /// Name of a notification target, as the operator configured it.
    "TargetName" TargetText r"^[A-Za-z0-9][A-Za-z0-9._-]*$", 63, "alice";
    /// A relative path without parts that are empty, `.` or `..`; at most 1,024 bytes of UTF-8.
    "RelativePath" PathText
        r"^(?:[^/\x00.][^/\x00]*|\.[^/\x00.][^/\x00]*|\.\.[^/\x00]+)(?:/(?:[^/\x00.][^/\x00]*|\.[^/\x00.][^/\x00]*|\.\.[^/\x00]+))*$",
        1024, "data/mesh.dat";
    /// BLAKE3 digest, in hexadecimal digits.
    "Digest" DigestText r"^[0-9a-fA-F]{64}$", 64,
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
    /// A client's name for a request.
    "IdempotencyKey" RequestKeyText r"^[!-~]+$", 240, "monday-1";
    /// Name of a variable of the environment.
    "VariableName" VariableText r"^[A-Za-z_][A-Za-z0-9_]*$", 255, "OMP_NUM_THREADS";
    /// Name of a benchmark.
    "BenchmarkName" BenchmarkText r"^[A-Za-z0-9._-]+$", 64, "linpack";
    /// A length of time: numbers with units (`ms`, `s`, `m`, `h`, `d`), or
    /// `days-hours:minutes:seconds`, `hours:minutes:seconds`, `minutes:seconds`.
    "Length" Length
        r"^(?:(?:[0-9]{1,9}(?:ms|s|m|h|d))+|(?:[0-9]{1,4}-)?[0-9]{1,6}:[0-5][0-9]:[0-5][0-9]|[0-5]?[0-9]:[0-5][0-9])$",
        60, "1h30m";
    /// A time: RFC 3339, local (`2026-11-27 09:00`), on a day (`tomorrow 09:00`), relative (`in
    /// 2h`), or `now`.
    "Moment" Moment
        r"^(?:now|in [1-9][0-9]{0,3}[smhd]|(?:today|tomorrow) (?:[01][0-9]|2[0-3]):[0-5][0-9]|20[0-9]{2}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))(?: (?:[01][0-9]|2[0-3]):[0-5][0-9]|T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])))$",
        25, "2026-11-27T09:00:00+01:00";
    /// A number of bytes, with its unit.
    "Size" Size r"^[0-9]{1,6}(?:B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$", 9, "4GB";
    /// A demand on a label of a site.
    "Demand" Demand
        r"^[A-Za-z0-9._/:+-]+(?:=[A-Za-z0-9._/:+-]+(?:\|[A-Za-z0-9._/:+-]+)*|!=[A-Za-z0-9._/:+-]+|>=[0-9]{1,15})$",
        255, "arch=x86_64";
    /// Sites: one by its name, or all with a label.
    "Place" OverrideTarget r"^(?:[A-Za-z][A-Za-z0-9._-]{0,62}|[A-Za-z0-9._/:+-]+=[A-Za-z0-9._/:+-]+)$", 255,
        "arch=arm64";
}

impl PartialSchema for ValueText {
    fn schema() -> RefOr<Schema> {
        let kinds = vec![Type::String, Type::Number, Type::Boolean];
        let text = "A value of a parameter: a text, a number or a truth value, handed on as text.";
        ObjectBuilder::new()
            .schema_type(SchemaType::Array(kinds))
            .description(Some(text))
            .build()
            .into()
    }
}

impl ToSchema for ValueText {
    fn name() -> Cow<'static, str> {
        "Value".into()
    }
}

impl PartialSchema for Factor {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .maximum(Some(1000))
            .multiple_of(Some(0.001))
            .description(Some(
                "How much a dimension counts, with at most three decimals.",
            ))
            .build()
            .into()
    }
}

impl ToSchema for Factor {
    fn name() -> Cow<'static, str> {
        "Weight".into()
    }
}

impl PartialSchema for ScoreNumber {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0.000_001))
            .maximum(Some(BenchmarkScore::MAX.as_f64()))
            .description(Some(
                "A result of a benchmark, above 0; it is kept to the millionth.",
            ))
            .build()
            .into()
    }
}

impl ToSchema for ScoreNumber {
    fn name() -> Cow<'static, str> {
        "Score".into()
    }
}

impl PartialSchema for Positive {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(i64::MAX as isize))
            .build()
            .into()
    }
}

impl ToSchema for Positive {
    fn name() -> Cow<'static, str> {
        "Count".into()
    }
}

impl PartialSchema for Unreachable {
    fn schema() -> RefOr<Schema> {
        let rerun = ObjectBuilder::new()
            .property("rerun_after", Length::schema())
            .required("rerun_after")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let wait = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["wait"]));
        let text = "What to do when a site stops answering: wait until it answers, or run again \
                    after this time, although the lost component may still run.";
        let either = OneOfBuilder::new()
            .item(wait)
            .item(rerun)
            .description(Some(text));
        Schema::OneOf(either.build()).into()
    }
}

impl ToSchema for Unreachable {}

impl PartialSchema for StateName {
    fn schema() -> RefOr<Schema> {
        let states = PhaseKind::ALL.map(|kind| kind.as_str());
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(states))
            .description(Some("State of a job."))
            .build()
            .into()
    }
}

impl ToSchema for StateName {}

impl PartialSchema for Instant {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("An instant by RFC 3339; told in UTC, with milliseconds. One before 1970 counts as the \
                 begin of 1970."))
            .examples([json!("2026-03-01T12:00:00.000Z")])
            .build()
            .into()
    }
}

impl ToSchema for Instant {}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use cospan_domain::ids::{
        ComponentName, Digest, IdempotencyKey, KeyName, LogicalName, PolicyName, RelPath,
        ReservationName, RunnerName, SiteName, TargetName,
    };

    use super::*;

    fn holds<T: FromStr>(shape: TextShape) {
        assert!(T::from_str(shape.example).is_ok(), "{shape:?}");
        assert!(T::from_str("").is_err(), "{shape:?}");
        assert!(shape.example.len() <= shape.max_length, "{shape:?}");
    }

    #[test]
    fn every_example_is_accepted_and_an_empty_text_is_not() {
        holds::<SiteName>(SiteText::SHAPE);
        holds::<ComponentName>(ComponentText::SHAPE);
        holds::<LogicalName>(FileText::SHAPE);
        holds::<KeyName>(KeyText::SHAPE);
        holds::<PolicyName>(PolicyText::SHAPE);
        holds::<ReservationName>(ReservationText::SHAPE);
        holds::<RunnerName>(RunnerText::SHAPE);
        holds::<TargetName>(TargetText::SHAPE);
        holds::<RelPath>(PathText::SHAPE);
        holds::<Digest>(DigestText::SHAPE);
        holds::<IdempotencyKey>(RequestKeyText::SHAPE);
        holds::<Length>(Length::SHAPE);
        holds::<Size>(Size::SHAPE);
        holds::<Demand>(Demand::SHAPE);
        holds::<OverrideTarget>(OverrideTarget::SHAPE);
    }

    #[test]
    fn a_name_may_be_as_long_as_is_said_and_no_longer() {
        let of = |length: usize| "a".repeat(length);
        let most = SiteText::SHAPE.max_length;
        assert!(SiteName::new(&of(most)).is_ok() && SiteName::new(&of(most + 1)).is_err());
        let most = FileText::SHAPE.max_length;
        assert!(LogicalName::new(&of(most)).is_ok() && LogicalName::new(&of(most + 1)).is_err());
        let most = PathText::SHAPE.max_length;
        assert!(RelPath::new(&of(most)).is_ok() && RelPath::new(&of(most + 1)).is_err());
        let length = |times| "1s".repeat(times).parse::<Length>();
        assert!(length(Length::SHAPE.max_length / 2).is_ok());
        assert!(length(Length::SHAPE.max_length / 2 + 1).is_err());
    }

    #[test]
    fn a_length_without_a_unit_is_none_not_even_zero() {
        assert!("0".parse::<Length>().is_err());
    }
}
