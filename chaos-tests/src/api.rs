//! A client of the server's public interface that speaks plain JSON.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// The outcome of a call.
#[derive(Debug)]
pub enum ApiReply {
    /// Status and body.
    Answered(u16, Value),
    /// No complete answer: nobody knows whether the call took effect.
    Silent(String),
}

/// A client of the server.
#[derive(Clone)]
pub struct Api {
    agent: ureq::Agent,
    base: String,
    token: String,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// Creates a client for the server at this local port.
    pub fn new(port: u16, token: String) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(20)))
            .http_status_as_error(false)
            .build();
        Self {
            agent: config.into(),
            base: format!("http://127.0.0.1:{port}"),
            token,
        }
    }

    /// Returns a client with another key.
    pub fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.into(),
            ..self.clone()
        }
    }

    fn authorization_header(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn into_reply(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> ApiReply {
        let mut response = match result {
            Ok(response) => response,
            Err(error) => return ApiReply::Silent(error.to_string()),
        };
        let status = response.status().as_u16();
        match response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string()
        {
            Ok(text) => {
                let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
                ApiReply::Answered(status, value)
            }
            Err(error) => ApiReply::Silent(error.to_string()),
        }
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> ApiReply {
        let request = self.agent.get(format!("{}{path}", self.base));
        Self::into_reply(
            request
                .header("authorization", self.authorization_header())
                .call(),
        )
    }

    /// Sends a POST request; `key` is its idempotency key.
    pub fn post(&self, path: &str, key: Option<&str>, body: &Value) -> ApiReply {
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request.header("authorization", self.authorization_header());
        let request = request.header("content-type", "application/json");
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        Self::into_reply(request.send(body.to_string()))
    }

    /// Reads something that must be there.
    ///
    /// # Errors
    /// No answer, or another than 200.
    pub fn get_expected(&self, path: &str) -> Result<Value> {
        match self.get(path) {
            ApiReply::Answered(200, value) => Ok(value),
            ApiReply::Answered(status, value) => bail!("{path}: {status} {value}"),
            ApiReply::Silent(problem) => bail!("{path}: {problem}"),
        }
    }

    /// Sends a command that must succeed.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub fn post_expected(&self, path: &str, body: &Value) -> Result<Value> {
        match self.post(path, None, body) {
            ApiReply::Answered(200 | 201, value) => Ok(value),
            ApiReply::Answered(status, value) => bail!("{path}: {status} {value}"),
            ApiReply::Silent(problem) => bail!("{path}: {problem}"),
        }
    }

    /// Lists the rows of all jobs.
    ///
    /// # Errors
    /// A page cannot be had.
    pub fn jobs(&self) -> Result<Vec<Value>> {
        self.pages("/v1/jobs", "jobs")
    }

    /// Lists the rows of the newest jobs, enough to cover those in flight.
    ///
    /// # Errors
    /// The page cannot be had.
    pub fn newest(&self, limit: usize) -> Result<Vec<Value>> {
        let mut page = self.get_expected(&format!("/v1/jobs?newest=true&limit={limit}"))?;
        Ok(page["jobs"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default())
    }

    /// Lists all logical files.
    ///
    /// # Errors
    /// A page cannot be had.
    pub fn files(&self) -> Result<Vec<Value>> {
        self.pages("/v1/files", "files")
    }

    fn pages(&self, path: &str, name: &str) -> Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut after = String::new();
        loop {
            let mut page = self.get_expected(&format!("{path}?limit=1000{after}"))?;
            let list = page[name].as_array_mut().context("a page without rows")?;
            rows.append(list);
            match &page["next"] {
                Value::Null => return Ok(rows),
                Value::String(text) => after = format!("&after={text}"),
                number => after = format!("&after={number}"),
            }
        }
    }

    /// Cancels a job. Returns `Some` if the server answered: true if this call cancelled it.
    pub fn cancel(&self, id: u64) -> Option<bool> {
        match self.post("/v1/jobs:cancel", None, &json!({ "ids": [id] })) {
            ApiReply::Answered(200, value) => Some(value["jobs"][0]["outcome"] == "done"),
            ApiReply::Answered(..) | ApiReply::Silent(_) => None,
        }
    }
}
