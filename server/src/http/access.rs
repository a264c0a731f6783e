//! The access table: one rule for each address. The gate obeys it, the book prints it and the tests
//! walk it. An address without a rule is not served.
//!
//! A key without the role gets 403. An object of another key is answered like one that does not
//! exist (404, or left out), so that nobody learns from an answer what others have.

use std::collections::BTreeSet;
use std::fmt::Write;

use actix_web::dev::ResourceDef;

use super::failure::HttpFailure;
use crate::keys::Role;
use cospan_api::v1::parse;
use cospan_api::v1::problem::{Code, Problem};

/// The key or role that a request to an address needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessNeed {
    /// Nothing.
    Nothing,
    /// A key, unless the metrics are public.
    KeyUnlessPublic,
    /// A key with this role.
    Role(Role),
}

/// A rule of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct AccessRule {
    pub(super) method: &'static str,
    /// The address, as in the OpenAPI document.
    pub(super) path: &'static str,
    /// The key or role that a request needs in any case.
    pub(super) needs: AccessNeed,
    /// The role from which a key sees or changes the objects of others; `None` if the answer
    /// belongs to no key.
    pub(super) others: Option<Role>,
    /// The commands that send such a request.
    commands: &'static str,
}

macro_rules! rules {
    ($($method:ident $path:literal $needs:expr, $others:expr, $commands:literal;)*) => {
        &[$(AccessRule {
            method: stringify!($method),
            path: $path,
            needs: $needs,
            others: $others,
            commands: $commands,
        }),*]
    };
}

const READER: AccessNeed = AccessNeed::Role(Role::Reader);
const USER: AccessNeed = AccessNeed::Role(Role::User);
const OPERATOR: AccessNeed = AccessNeed::Role(Role::Operator);
const ADMINISTRATOR: AccessNeed = AccessNeed::Role(Role::Administrator);
const CHAOS: AccessNeed = AccessNeed::Role(Role::Chaos);
/// Lists show some of the objects of others: no documents, logs or outputs.
const ROWS: Option<Role> = Some(Role::Operator);
const ALL: Option<Role> = Some(Role::Administrator);

/// All rules, the most requested addresses first.
pub(super) const RULES: &[AccessRule] = rules! {
    POST "/v1/jobs" USER, None, "submit";
    GET "/v1/jobs" READER, ROWS, "list, wait";
    GET "/v1/jobs/{id}" READER, ALL, "show, wait";
    DELETE "/v1/jobs/{id}" USER, ALL, "";
    GET "/v1/jobs/{id}/events" READER, ALL, "show";
    GET "/v1/jobs/{id}/explain" READER, ALL, "explain";
    GET "/v1/jobs/{id}/logs/{component}/{stream}" READER, ALL, "logs";
    GET "/v1/jobs/{id}/outputs/{component}/{path}" READER, ALL, "output";
    GET "/v1/jobs/{id}/trees/{component}/{path}" READER, ALL, "output";
    POST "/v1/jobs:cancel" USER, ALL, "cancel";
    POST "/v1/jobs:freeze" USER, ALL, "freeze";
    POST "/v1/jobs:thaw" USER, ALL, "thaw";
    POST "/v1/jobs:release" USER, ALL, "release";
    POST "/v1/jobs:priority" USER, ALL, "priority";
    POST "/v1/jobs:rerun" USER, ALL, "rerun";
    GET "/v1/accounts" READER, ROWS, "report";
    GET "/v1/events" READER, ALL, "wait";
    GET "/v1/sites" READER, None, "site list";
    GET "/v1/sites/{name}" READER, None, "site show";
    POST "/v1/sites/{name}/drain" OPERATOR, None, "site drain";
    POST "/v1/sites/{name}/undrain" OPERATOR, None, "site undrain";
    POST "/v1/sites/{name}/freeze" OPERATOR, None, "site freeze";
    POST "/v1/sites/{name}/thaw" OPERATOR, None, "site thaw";
    POST "/v1/sites/{name}/reset" OPERATOR, None, "site reset";
    POST "/v1/sites/{name}/maintenance" OPERATOR, None, "site maintenance";
    POST "/v1/sites/{name}/end-maintenance" OPERATOR, None, "site maintenance";
    POST "/v1/sites/{name}/force" OPERATOR, None, "site force";
    POST "/v1/sites/{name}/unforce" OPERATOR, None, "site force";
    GET "/v1/slots" READER, None, "slots";
    GET "/v1/reservations" READER, ROWS, "reservation list";
    GET "/v1/reservations/{id}" READER, ALL, "reservation show";
    POST "/v1/reservations/{id}/cancel" USER, ALL, "reservation cancel";
    POST "/v1/reservations/{id}/move" USER, ALL, "reservation move";
    POST "/v1/shared-reservations" OPERATOR, None, "reservation create";
    GET "/v1/shared-reservations/{name}" READER, None, "reservation show";
    POST "/v1/shared-reservations/{name}/extend" OPERATOR, None, "reservation extend";
    POST "/v1/shared-reservations/{name}/allow" OPERATOR, None, "reservation allow";
    POST "/v1/shared-reservations/{name}/cancel" OPERATOR, None, "reservation cancel";
    GET "/v1/files" READER, ROWS, "file list";
    POST "/v1/files" USER, ALL, "file add";
    GET "/v1/files/{name}" READER, ROWS, "file show";
    DELETE "/v1/files/{name}" USER, ALL, "file remove";
    GET "/v1/uploads" USER, ALL, "file uploads";
    POST "/v1/uploads" USER, ALL, "file upload, submit";
    GET "/v1/uploads/{id}" USER, ALL, "file upload, submit";
    PATCH "/v1/uploads/{id}" USER, ALL, "file upload, submit";
    POST "/v1/uploads/{id}/complete" USER, ALL, "file upload, submit";
    DELETE "/v1/uploads/{id}" USER, ALL, "file uploads";
    GET "/v1/store" READER, None, "store show";
    GET "/v1/store/export" ADMINISTRATOR, None, "store export";
    GET "/v1/chaos" READER, None, "chaos status";
    POST "/v1/chaos" CHAOS, None, "chaos inject";
    DELETE "/v1/chaos" CHAOS, None, "chaos stop";
    GET "/v1/chaos/report" READER, None, "chaos report";
    GET "/v1/openapi.json" AccessNeed::Nothing, None, "";
    GET "/metrics" AccessNeed::KeyUnlessPublic, None, "doctor";
    GET "/livez" AccessNeed::Nothing, None, "";
    GET "/readyz" AccessNeed::Nothing, None, "";
};

impl AccessRule {
    /// Returns true if the address is also served while the store is too large for the server's
    /// memory.
    pub(super) fn is_served_read_only(&self) -> bool {
        let of_store = [
            "/v1/jobs/{id}",
            "/v1/jobs/{id}/events",
            "/v1/store",
            "/v1/store/export",
            "/v1/openapi.json",
            "/metrics",
        ];
        self.method == "GET" && of_store.contains(&self.path)
    }
}

/// The table, prepared for looking addresses up.
pub(super) struct AccessTable(Vec<(ResourceDef, &'static AccessRule)>);

impl AccessTable {
    pub(super) fn new() -> Self {
        Self(
            RULES
                .iter()
                .map(|rule| (ResourceDef::new(path_pattern(rule)), rule))
                .collect(),
        )
    }

    /// The line for a request. The path is as the router takes it, so that both mean the same.
    ///
    /// # Errors
    /// There is no such address, or it does not take the method.
    pub(super) fn find_rule(
        &self,
        method: &str,
        path: &str,
    ) -> Result<&'static AccessRule, HttpFailure> {
        let found = self
            .0
            .iter()
            .find(|(at, rule)| rule.method == method && at.is_match(path));
        found
            .map(|(_, rule)| *rule)
            .ok_or_else(|| self.unknown_address(method, path))
    }

    fn unknown_address(&self, method: &str, path: &str) -> HttpFailure {
        let shown: String = path.chars().take(200).collect();
        let at = self.0.iter().filter(|(at, _)| at.is_match(path));
        let methods: BTreeSet<&str> = at.map(|(_, rule)| rule.method).collect();
        if methods.is_empty() {
            let problem = Problem::new(Code::NoRoute, format!("there is nothing at {shown}"));
            return match nearest_address(path) {
                Some(nearest) => problem
                    .with_remedy(format!("did you mean {nearest}?"))
                    .into(),
                None => problem.into(),
            };
        }
        let takes = methods.iter().copied().collect::<Vec<_>>().join(", ");
        let detail = format!("{shown} takes {takes}, not {method}");
        Problem::new(Code::NoMethod, detail)
            .with_methods(methods)
            .into()
    }
}

fn path_pattern(rule: &AccessRule) -> String {
    // A parameter of the document may contain slashes here.
    let tail = rule.path.ends_with("/files/{name}") || rule.path.ends_with("/{path}");
    let open = rule.path.trim_end_matches('}');
    if tail {
        format!("{open}:.+}}")
    } else {
        rule.path.to_owned()
    }
}

/// The existing address that is nearest to an unknown one.
fn nearest_address(path: &str) -> Option<String> {
    let asked: Vec<&str> = path.split('/').collect();
    let filled = RULES
        .iter()
        .filter(|rule: &&AccessRule| rule.path.split('/').count() == asked.len())
        .map(|rule| {
            let parts = rule.path.split('/').zip(&asked);
            parts
                .map(|(known, given): (&'static str, &&str)| {
                    if known.starts_with('{') {
                        (*given).to_owned()
                    } else {
                        known.to_owned()
                    }
                })
                .collect::<Vec<_>>()
                .join("/")
        });
    parse::nearest_word(path, &filled.collect::<Vec<_>>())
}

/// Prints the table for the book.
pub fn access_table() -> String {
    let mut text = "| address | role needed | others' jobs and files | commands |\n\
                    |---|---|---|---|\n"
        .to_owned();
    for rule in RULES {
        let needs = match rule.needs {
            AccessNeed::Nothing => "none, nor a key".to_owned(),
            AccessNeed::KeyUnlessPublic => "reader; none with `server.metrics_public`".to_owned(),
            AccessNeed::Role(role) => role.to_string(),
        };
        let others = rule.others.map(|role| role.to_string()).unwrap_or_default();
        let commands = rule.commands;
        // Writing into a text cannot fail.
        let _ = writeln!(
            text,
            "| `{} {}` | {needs} | {others} | {commands} |",
            rule.method, rule.path
        );
    }
    text
}
