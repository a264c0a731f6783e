//! All addresses, and the OpenAPI document that is made from them: an address that is not in the
//! document does not exist.

use actix_web::App;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_actix_web::AppExt;
use utoipa_actix_web::service_config::ServiceConfig;

use super::describe;
use super::{
    accounts, chaos, files, health, jobs, orders, reading, reservations, shared_reservations,
    sites, slots, store, stream, submit, trees, uploads,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Cospan", description = "Runs one job on many clusters at once."),
    components(schemas(reading::StreamName)),
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
        .service(trees::tree)
        .service(sites::list)
        .service(sites::show)
        .service(sites::drain)
        .service(sites::undrain)
        .service(sites::freeze)
        .service(sites::thaw)
        .service(sites::reset)
        .service(sites::maintenance)
        .service(sites::end_maintenance)
        .service(sites::force)
        .service(sites::unforce)
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

/// Writes the OpenAPI document as JSON.
pub fn document() -> String {
    // A document has texts and numbers only, which can always be written.
    let mut document = serde_json::to_value(build()).unwrap_or_default();
    describe::state_bounds(&mut document);
    format!("{document:#}")
}

fn build() -> Document {
    let app = App::new().into_utoipa_app().openapi(About::openapi());
    let (_, mut document) = app.configure(routes).split_for_parts();
    describe::complete(&mut document);
    document
}
