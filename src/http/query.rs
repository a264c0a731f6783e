//! Parameters in the URL.

use std::str::FromStr;

use actix_web::HttpRequest;
use actix_web::web::Query;
use cospan_domain::ids::JobId;
use serde::de::DeserializeOwned;

use super::failure::Failure;
use crate::api::v1::problem::Code;

/// Reads the parameters after the question mark; unknown ones are refused.
pub(super) fn read<T: DeserializeOwned>(request: &HttpRequest) -> Result<T, Failure> {
    match Query::<T>::from_query(request.query_string()) {
        Ok(query) => Ok(query.into_inner()),
        Err(actix_web::error::QueryPayloadError::Deserialize(error)) => {
            Err(Failure::new(Code::BadParameter, error.to_string()))
        }
        Err(error) => Err(Failure::new(Code::BadParameter, error.to_string())),
    }
}

/// Reads a part of the path.
pub(super) fn part<T>(text: &str) -> Result<T, Failure>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Failure::new(Code::BadParameter, error.to_string()))
}

/// Reads a job's number from the path.
pub(super) fn job_id(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        Failure::new(Code::BadParameter, format!("{shown:?} is not a job's number"))
    })
}

/// Brings a limit into its range; 0 is refused.
pub(super) fn limit(asked: Option<u64>, default: usize, most: usize) -> Result<usize, Failure> {
    match asked {
        None => Ok(default),
        Some(0) => Err(Failure::new(Code::BadParameter, "limit: must be at least 1")),
        Some(asked) => Ok(usize::try_from(asked).unwrap_or(most).min(most)),
    }
}
