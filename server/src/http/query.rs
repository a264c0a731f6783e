//! Parameters in the URL.

use std::str::FromStr;

use actix_web::HttpRequest;
use cospan_domain::ids::JobId;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};

use super::failure::HttpFailure;
use cospan_api::v1::parse;
use cospan_api::v1::problem::{Code, Problem};

/// Reads the parameters after the question mark; unknown ones are refused.
pub(super) fn read_query<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, HttpFailure> {
    let given = form_urlencoded::parse(request.query_string().as_bytes());
    let given = serde_urlencoded::Deserializer::new(given);
    serde_path_to_error::deserialize(given).map_err(|error| {
        let name = error.path().to_string();
        let problem = error.into_inner().to_string();
        match parse::parse_unknown_key(&problem) {
            Some((_, unknown, known)) => {
                let remedy = match parse::nearest_word(&unknown, &known) {
                    Some(nearest) => format!("did you mean `{nearest}`?"),
                    None if known.is_empty() => "leave it out".into(),
                    None => format!("there are: {}", known.join(", ")),
                };
                let problem =
                    Problem::new(Code::BadParameter, "this address has no such parameter");
                problem.with_key_path(unknown).with_remedy(remedy).into()
            }
            None => wrong_parameter(&name, problem),
        }
    })
}

/// Reads a parameter, or a part of the path, by its name.
pub(super) fn parse_part<T>(name: &str, text: &str) -> Result<T, HttpFailure>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| wrong_parameter(name, error.to_string()))
}

/// Reads a job's number from the path.
pub(super) fn parse_job_id(text: &str) -> Result<JobId, HttpFailure> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        wrong_parameter("id", format!("{shown:?} is not a job's number"))
    })
}

/// Reads a number in the range that the description gives: 64 bits with a sign, which no number of
/// ours exceeds.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let given = Option::<u64>::deserialize(from)?;
    match given {
        Some(number) if number > i64::MAX as u64 => Err(D::Error::custom(format!(
            "is {number}; it must be at most {}",
            i64::MAX
        ))),
        _ => Ok(given),
    }
}

/// Reads the position to begin at: 0 by default.
pub(super) fn offset<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    whole(from).map(Option::unwrap_or_default)
}

/// Checks a limit against its range; one beyond is refused, so that nobody takes a short page for
/// all.
pub(super) fn check_limit(
    asked: Option<u64>,
    default: usize,
    most: usize,
) -> Result<usize, HttpFailure> {
    let Some(asked) = asked else {
        return Ok(default);
    };
    match usize::try_from(asked) {
        Ok(asked) if (1..=most).contains(&asked) => Ok(asked),
        _ => Err(wrong_parameter(
            "limit",
            format!("is {asked}; it must be from 1 to {most}"),
        )),
    }
}

/// The refusal of a wrong parameter, by its name.
pub(super) fn wrong_parameter(name: &str, problem: impl Into<String>) -> HttpFailure {
    Problem::new(Code::BadParameter, problem)
        .with_key_path(name)
        .into()
}
