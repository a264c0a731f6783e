//! All addresses, and the OpenAPI document that is made from them: an address that is not in the
//! document does not exist.

use actix_web::App;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_actix_web::AppExt;
use utoipa_actix_web::service_config::ServiceConfig;

use super::openapi_common;
use super::{
    change_stream, chaos, cost_report, files, health, job_commands, jobs, logs_and_outputs, rerun,
    reservations, shared_reservations, site_routes, slots, store, submit, trees, uploads,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Cospan", description = "Runs one job on many clusters at once."),
    components(schemas(logs_and_outputs::StreamName)),
    modifiers(&Keys),
    security(("key" = []))
)]
struct About;

struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut Document) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document
            .components
            .get_or_insert_with(Default::default)
            .add_security_scheme("key", scheme);
    }
}

/// Registers every address of the server.
pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(submit::submit)
        .service(jobs::list)
        .service(cost_report::list)
        .service(job_commands::cancel)
        .service(job_commands::freeze)
        .service(job_commands::thaw)
        .service(job_commands::release)
        .service(job_commands::priority)
        .service(rerun::rerun)
        .service(jobs::show)
        .service(job_commands::cancel_one)
        .service(jobs::events)
        .service(jobs::explain)
        .service(logs_and_outputs::logs)
        .service(logs_and_outputs::output)
        .service(trees::tree)
        .service(site_routes::list)
        .service(site_routes::show)
        .service(site_routes::drain)
        .service(site_routes::undrain)
        .service(site_routes::freeze)
        .service(site_routes::thaw)
        .service(site_routes::reset)
        .service(site_routes::maintenance)
        .service(site_routes::end_maintenance)
        .service(site_routes::force)
        .service(site_routes::unforce)
        .service(slots::list)
        .service(reservations::list)
        .service(reservations::show)
        .service(reservations::cancel)
        .service(reservations::change)
        .service(shared_reservations::create)
        .service(shared_reservations::show)
        .service(shared_reservations::extend)
        .service(shared_reservations::allow)
        .service(shared_reservations::cancel)
        .service(files::list)
        .service(files::add)
        .service(files::show)
        .service(files::remove)
        .service(uploads::list)
        .service(uploads::begin)
        .service(uploads::show)
        .service(uploads::append)
        .service(uploads::complete)
        .service(uploads::abandon)
        .service(store::show)
        .service(store::export)
        .service(change_stream::events)
        .service(chaos::show)
        .service(chaos::begin)
        .service(chaos::stop)
        .service(chaos::report)
        .service(health::livez)
        .service(health::readyz)
        .service(health::metrics)
        .service(health::openapi);
}

/// Writes the OpenAPI document as JSON.
pub fn document_json() -> String {
    // A document has texts and numbers only, which can always be written.
    let mut document = serde_json::to_value(build_document()).unwrap_or_default();
    openapi_common::state_bounds(&mut document);
    format!("{document:#}")
}

fn build_document() -> Document {
    let app = App::new().into_utoipa_app().openapi(About::openapi());
    let (_, mut document) = app.configure(routes).split_for_parts();
    openapi_common::complete_document(&mut document);
    document
}
