//! Common parts of all addresses, added to the OpenAPI document: the problems that each may answer,
//! an id by which generated clients name the operation, and no `null` for a text from a URL.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::{ContentBuilder, Object, OpenApi, Ref, RefOr, Type};

use super::access::{AccessNeed, RULES};
use cospan_api::v1::problem::{MEDIA_TYPE, Problem};

/// Completes the document.
pub(super) fn complete_document(document: &mut OpenApi) {
    let components = document.components.get_or_insert_with(Default::default);
    let problem = (
        Problem::name().into_owned(),
        <Problem as utoipa::PartialSchema>::schema(),
    );
    components.schemas.insert(problem.0, problem.1);
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            let rule = RULES
                .iter()
                .find(|rule| rule.path == path && rule.method == method);
            let keyed = rule.is_none_or(|rule| rule.needs != AccessNeed::Nothing);
            operation.operation_id = Some(unique_operation_id(method, path));
            add_problems(operation, keyed);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let all = [
        ("GET", &mut item.get),
        ("POST", &mut item.post),
        ("PUT", &mut item.put),
        ("PATCH", &mut item.patch),
        ("DELETE", &mut item.delete),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Returns the operation id: unique in the document, and a valid name in any language, such as
/// `get_jobs_id_events`.
fn unique_operation_id(method: &str, path: &str) -> String {
    let path = path.strip_prefix("/v1").unwrap_or(path);
    let words = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let method = method.to_ascii_lowercase();
    std::iter::once(method.as_str())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_")
}

fn add_problems(operation: &mut Operation, keyed: bool) {
    let mut answers = Vec::new();
    if keyed {
        let challenge = HeaderBuilder::new()
            .schema(Some(Object::with_type(Type::String)))
            .description(Some("How to send a key".to_owned()))
            .build();
        let refused =
            problem_response("There is no valid key").header("WWW-Authenticate", challenge);
        answers.push(("401", refused));
        answers.push(("403", problem_response("The key may not do this")));
    }
    let refused = problem_response("The request is refused; the problem says why, and what to do");
    answers.push(("4XX", refused));
    answers.push(("5XX", problem_response("The server cannot do it now")));
    for (status, answer) in answers {
        let responses = &mut operation.responses.responses;
        responses.insert(status.to_owned(), RefOr::T(answer.build()));
    }
}

fn problem_response(description: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name(Problem::name());
    ResponseBuilder::new().description(description).content(
        MEDIA_TYPE,
        ContentBuilder::new().schema(Some(schema)).build(),
    )
}

/// Sets the largest value of every unsigned number, and removes `null` from every parameter.
pub(super) fn state_bounds(part: &mut Value) {
    match part {
        Value::Array(items) => items.iter_mut().for_each(state_bounds),
        Value::Object(fields) => {
            let is_unsigned = fields
                .get("minimum")
                .is_some_and(|least| least.as_u64().is_some());
            if is_unsigned && fields.get("format").is_some_and(|format| format == "int32") {
                fields.insert("format".into(), json!("int64"));
                fields.entry("maximum").or_insert(json!(u32::MAX));
            }
            if fields.contains_key("in")
                && let Some(schema) = fields.get_mut("schema")
            {
                remove_null(schema);
            }
            fields.values_mut().for_each(state_bounds);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn remove_null(schema: &mut Value) {
    if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
        let real = choices
            .iter()
            .find(|choice| choice["type"] != "null")
            .cloned();
        *schema = real.unwrap_or_default();
    } else if let Some(types) = schema.get("type").and_then(Value::as_array) {
        let real = types.iter().find(|name| *name != "null").cloned();
        schema["type"] = real.unwrap_or_default();
    }
}
