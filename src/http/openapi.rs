//! All addresses, and the OpenAPI document that is made from them: an address
//! that is not in the document does not exist.

use actix_web::dev::ResourceDef;
use actix_web::web::Data;
use actix_web::{App, HttpRequest};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_actix_web::AppExt;
use utoipa_actix_web::service_config::ServiceConfig;

use super::failure::{Answer, Failure};
use super::state::Edge;
use super::{accounts, chaos, files, health, jobs, orders, reading, sites, store, stream, submit};
use crate::api::v1::problem::Code;

#[derive(OpenApi)]
#[openapi(
    info(title = "Cospan", description = "Runs one job on many clusters at once."),
    modifiers(&Keys),
    security(("key" = []))
)]
struct About;

struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_with(Default::default).add_security_scheme("key", scheme);
    }
}

/// Every address of the server.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(submit::submit)
        .service(jobs::list)
        .service(accounts::list)
        .service(orders::cancel)
        .service(orders::freeze)
        .service(orders::thaw)
        .service(orders::release)
        .service(orders::priority)
        .service(jobs::show)
        .service(orders::cancel_one)
        .service(jobs::events)
        .service(jobs::explain)
        .service(reading::logs)
        .service(reading::output)
        .service(sites::list)
        .service(sites::show)
        .service(sites::order)
        .service(files::list)
        .service(files::add)
        .service(files::show)
        .service(files::remove)
        .service(store::show)
        .service(store::export)
        .service(stream::events)
        .service(chaos::show)
        .service(chaos::begin)
        .service(chaos::stop)
        .service(chaos::report)
        .service(health::livez)
        .service(health::readyz)
        .service(health::metrics)
        .service(health::openapi);
}

/// The OpenAPI document, as JSON.
pub fn document() -> String {
    // A document has texts and numbers only, which can always be written.
    build().to_pretty_json().unwrap_or_default()
}

fn build() -> Document {
    let app = App::new().into_utoipa_app().openapi(About::openapi());
    let (_, document) = app.configure(routes).split_for_parts();
    document
}

/// Tells an address that does not exist from one that takes other methods.
pub(super) struct Addresses(Vec<(ResourceDef, String)>);

impl Addresses {
    pub(super) fn new() -> Self {
        let known = build().paths.paths.into_iter().map(|(path, item)| {
            let methods = [
                ("GET", item.get.is_some()),
                ("POST", item.post.is_some()),
                ("PUT", item.put.is_some()),
                ("DELETE", item.delete.is_some()),
            ];
            let allowed: Vec<&str> =
                methods.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect();
            // What the document calls a part may have slashes here.
            let many = ["/v1/files/{name}", "/outputs/{component}/{path}"];
            let tail = many.iter().any(|end| path.ends_with(end));
            let pattern = if tail {
                path.replace("name}", "name}*").replace("path}", "path}*")
            } else {
                path
            };
            (ResourceDef::new(pattern), allowed.join(", "))
        });
        Self(known.collect())
    }

    fn methods(&self, path: &str) -> Option<&str> {
        let found = self.0.iter().find(|(pattern, _)| pattern.is_match(path));
        found.map(|(_, methods)| methods.as_str())
    }
}

/// Answers what no address does.
pub(super) async fn nowhere(request: HttpRequest, edge: Data<Edge>) -> Answer {
    let shown: String = request.path().chars().take(200).collect();
    match edge.addresses.methods(request.path()) {
        Some(methods) => Err(Failure::new(
            Code::NoMethod,
            format!("{shown} takes {methods}, not {}", request.method()),
        )),
        None => Err(Failure::new(Code::NoRoute, format!("there is nothing at {shown}"))),
    }
}
