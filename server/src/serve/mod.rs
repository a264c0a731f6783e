//! `cospan serve`: ties the control plane to this process, its files, its addresses and its
//! signals. The order matters: whatever can be refused is refused before anything has started.

mod configured_links;
mod configured_sites;
mod disk_space;
mod division_text;
mod explanation;
mod freshness;
mod http_backend;
mod job_memory;
mod local_links;
mod local_resources;
mod output_reading;
mod owner_metrics;
mod read_only;
mod read_stderr_tail;
mod records;
mod reservation_text;
pub mod server_file;
pub mod server_signals;
pub mod settings_from_config;
mod site_queue_text;
mod site_report;
mod verdict_report;
mod webhook;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cospan_actors::api::ControlPlane;
use cospan_actors::clock::{Clock, SteadyClock, SystemClock};
use cospan_actors::metrics::ControlPlaneMetrics;
use cospan_actors::wiring::{self, ControlPlaneParts};
use cospan_api::server_address::ServerAddress;
use cospan_domain::ids::InstanceId;
use cospan_sites::exec::ssh::SshExecutor;
use cospan_sites::port::{Site, SiteError};
use cospan_storage::OpenedStore;
use cospan_storage::port::{Journal, StoreError};
use prometheus::Registry;
use thiserror::Error;
use tokio::sync::watch;
use tracing::{error, info, warn};

use crate::chaos::{self, ChaosMetrics, FaultHandles, Rehearsals};
use crate::config::Config;
use crate::data_directory::{self, DataDirectoryError};
use crate::http::control_plane_port::ControlPlanePort;
use crate::http::{BindError, BoundListeners, HttpSettings, HttpState, RunningServer};
use crate::keys::{KeyDirectory, KeyError, LoadedKeys};
use crate::site_roots;
use crate::store_engines;
use configured_sites::ConfiguredSites;
pub use disk_space::register as register_disk;
use http_backend::ServedControlPlane;
use read_only::{JobMemoryExcess, ReadOnlyStore};
use records::FoundRecords;
use server_file::{RunningServerInfo, RunningServerLock};
use server_signals::SignalQueue;
use webhook::WebhookMessenger;

/// Exit code when the control plane cannot continue; a service manager restarts it.
pub const EXIT_FATAL: i32 = 70;

/// The reason why a server does not start.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum ServeError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("site {site}: {error}")]
    Site { site: String, error: SiteError },
    #[error("sites: {0}")]
    Sites(SiteError),
    #[error("{}", .0.join("\n"))]
    Roots(Vec<String>),
    #[error(
        "the data directory {data} is a copy of {original}, with which control plane {instance} runs \
         already (process {process}); two would use the same sites: stop the other, or give this \
         server a data directory of its own"
    )]
    Copy {
        data: String,
        instance: String,
        process: u32,
        original: String,
    },
    #[error("the placement policy: {0}")]
    Policy(#[from] cospan_domain::ids::IdentifierError),
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
    #[error("the server cannot run: {0}")]
    Run(#[from] std::io::Error),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// A server that has started.
struct StartedServer {
    /// `None`: the store is only read.
    plane: Option<ControlPlane>,
    store: Arc<dyn Journal>,
    running: RunningServer,
    connections: Vec<Arc<SshExecutor>>,
    instance: InstanceId,
}

/// Serves until a signal, or a fault that the process cannot survive. `reread` is called at SIGHUP,
/// once keys and certificate were read again, to report the changes of the configuration.
///
/// # Errors
/// The server did not start.
pub fn serve(
    config: &Config,
    data: &Path,
    mut signals: SignalQueue,
    reread: impl Fn(),
) -> Result<(), ServeError> {
    let http = settings_from_config::http_settings(config, data);
    let bound = BoundListeners::bind(&http)?;
    data_directory::check_data_directory(data)?;
    let wrong = site_roots::find_wrong_roots(config, data);
    if !wrong.is_empty() {
        return Err(ServeError::Roots(
            wrong.iter().map(ToString::to_string).collect(),
        ));
    }
    data_directory::prepare_data_directory(data)?;
    let keys = KeyDirectory::new(data.join("keys"));
    if keys.ensure_first_key(SystemClock.now())? {
        info!(file = %keys.token_file_path().display(), "made the first key");
    }
    if keys.is_older_than_ranks()? {
        warn!(
            file = %keys.key_file_path().display(),
            "all keys are administrators, because they were made before there were roles; give \
             each what it needs with `cospan key grant NAME --role user`"
        );
    }
    let ring = Arc::new(LoadedKeys::open(keys)?);
    let runtime = actix_web::rt::System::new();
    runtime.block_on(async {
        let addresses = bound.addresses();
        let certificate = bound.certificate();
        let mut started = start_server(config, data, http, bound, ring.clone()).await?;
        let tls = config.server.tls_certificate.is_some();
        let _sign = announce_ready(data, started.instance, &addresses, tls);
        let server = started.running.take_server();
        let served = async {
            match server {
                Some(server) => server.await,
                None => Ok(()),
            }
        };
        let serving = actix_web::rt::spawn(served);
        let signal = signals.wait_for_end(|| {
            match ring.reload_if_changed() {
                Ok(_) => info!(keys = ring.len(), "SIGHUP: keys reloaded"),
                Err(problem) => {
                    error!(%problem, "SIGHUP: cannot read the keys; known ones stay valid")
                }
            }
            if let Some(certificate) = &certificate {
                match certificate.read_again() {
                    Ok(()) => info!("SIGHUP: certificate reloaded"),
                    Err(problem) => error!(%problem, "SIGHUP: the certificate stays as it was"),
                }
            }
            reread();
        });
        let signal = signal.await;
        info!(signal, "stopping: no new work; what runs goes on");
        stop_server(started).await;
        let _ = serving.await;
        info!("stopped");
        // The process ends here with everything durable; dropping actors that hold timers outside
        // of their runtime would panic.
        std::process::exit(0)
    })
}

async fn start_server(
    config: &Config,
    data: &Path,
    http: HttpSettings,
    bound: BoundListeners,
    keys: Arc<LoadedKeys>,
) -> Result<StartedServer, ServeError> {
    let registry = Registry::new();
    let metrics = Arc::new(ControlPlaneMetrics::new(&registry)?);
    register_process(&registry)?;
    register_disk(&registry, data.to_owned())?;
    let place = store_engines::store_place(&config.store, data);
    let (sink, reports) = wiring::report_channel();
    if let Some(given) = job_memory::excess_bound(config) {
        let most = job_memory::max_memory_at_start(config);
        warn!(
            %given,
            %most,
            "limits.max_job_memory is more than this server could start again with; it accepts \
             no more than `most`"
        );
    }
    let (opened, view, remains) =
        match records::open_store(&*place, sink, job_memory::max_memory_at_start(config))? {
            FoundRecords::All(opened, view, remains) => (opened, *view, remains),
            FoundRecords::TooLarge(opened, found) => {
                return serve_read_only(
                    opened,
                    found,
                    place.engine_name(),
                    (bound, keys, http),
                    registry,
                );
            }
        };
    refuse_copy(data, opened.instance)?;
    let seal = crate::keys::load_seal(data, view.next_id)?;
    let ConfiguredSites { sites, connections } =
        configured_sites::make_sites(config, data, seal, opened.instance)
            .await
            .map_err(ServeError::Sites)?;
    let config = &local_links::with_local_links(config);
    let strikes = ChaosMetrics::register(&registry)?;
    let (sites, faults) = wrap_sites(config, data, sites);
    let (known, plane) = watch::channel(None);
    let parts = ControlPlaneParts {
        clock: SteadyClock::of_process(),
        seed: random_seed(),
        settings: settings_from_config::actor_settings(config)?,
        instance: opened.instance,
        former: opened.former,
        epoch: opened.epoch,
        view,
        metrics,
        sites,
        store: opened.journal.clone(),
        messenger: Arc::new(WebhookMessenger::new(
            Duration::from_millis(config.notify.timeout.0),
            plane,
        )),
        on_fatal: Box::new(|problem| {
            error!(problem, "cannot go on");
            std::process::exit(EXIT_FATAL);
        }),
    };
    let plane = wiring::start_control_plane(parts, remains, reports);
    known.send_replace(Some(plane.clone()));
    let counted = plane.clone();
    owner_metrics::register(&registry, move || counted.view())?;
    let rehearsals = match faults {
        Some(faults) => Rehearsals::new(
            plane.clone(),
            faults,
            settings_from_config::chaos_limits(config),
            strikes,
        ),
        None => Rehearsals::disallowed(),
    };
    let served = Arc::new(ServedControlPlane::new(
        plane.clone(),
        place.engine_name(),
        rehearsals,
    ));
    let edge = HttpState::new(served, keys, http, registry)?;
    let running = bound.serve(edge)?;
    Ok(StartedServer {
        plane: Some(plane),
        store: opened.journal,
        running,
        connections,
        instance: opened.instance,
    })
}

/// Refuses to run the control plane of another data directory beside its server. Whether a root is
/// in use says nothing about this: payloads can write to roots.
fn refuse_copy(data: &Path, instance: InstanceId) -> Result<(), ServeError> {
    let instance = instance.to_string();
    match RunningServerInfo::find_original(data, &instance) {
        None => Ok(()),
        Some(original) => Err(ServeError::Copy {
            data: data.display().to_string(),
            instance,
            process: original.process,
            original: original.data.unwrap_or_default(),
        }),
    }
}

/// Serves as much as possible of a store whose jobs do not fit into memory.
fn serve_read_only(
    opened: OpenedStore,
    found: JobMemoryExcess,
    engine: &'static str,
    (bound, keys, http): (BoundListeners, Arc<LoadedKeys>, HttpSettings),
    registry: Registry,
) -> Result<StartedServer, ServeError> {
    let store = opened.journal.clone();
    let instance = opened.instance;
    let backend = ReadOnlyStore::new(opened, engine, found);
    error!(
        why = backend.read_only_reason().unwrap_or_default(),
        "read-only; give this server more memory, or import an export on a machine with more memory"
    );
    let running = bound.serve(HttpState::new(Arc::new(backend), keys, http, registry)?)?;
    Ok(StartedServer {
        plane: None,
        store,
        running,
        connections: Vec::new(),
        instance,
    })
}

/// Wraps sites for the injection of faults, if that is allowed. In a build with planted faults a
/// site also has the faults of the file `<data>/faults/<site>`.
fn wrap_sites(
    config: &Config,
    data: &Path,
    sites: Vec<Arc<dyn Site>>,
) -> (Vec<Arc<dyn Site>>, Option<FaultHandles>) {
    let allowed = config.chaos.allowed;
    let files = cfg!(cospan_chaos).then(|| data.join("faults"));
    if !allowed && files.is_none() {
        return (sites, None);
    }
    let (sites, faults) = chaos::wrap_sites(sites, files.as_deref());
    if allowed {
        warn!("keys with the role chaos may inject faults: allowed is set in [chaos]");
    }
    (sites, allowed.then_some(faults))
}

/// Exports memory, CPU and open files of this process.
fn register_process(registry: &Registry) -> prometheus::Result<()> {
    let process = prometheus::process_collector::ProcessCollector::for_self();
    registry.register(Box::new(process))
}

fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    if let Err(problem) = getrandom::fill(&mut bytes) {
        // The seed only spreads retries; the clock does as well.
        warn!(%problem, "no random numbers from the system");
        return SystemClock.now().0;
    }
    u64::from_le_bytes(bytes)
}

/// Announces that requests are answered from now on; the result is held until the end.
fn announce_ready(
    data: &Path,
    instance: InstanceId,
    addresses: &[SocketAddr],
    tls: bool,
) -> Option<RunningServerLock> {
    for address in addresses {
        info!(%address, "serving");
    }
    let addresses = addresses
        .iter()
        .map(|at| ServerAddress::of_listener(*at, tls).to_string());
    let runs = RunningServerInfo {
        process: std::process::id(),
        addresses: addresses.collect(),
        instance: Some(instance.to_string()),
        data: std::path::absolute(data)
            .ok()
            .and_then(|data| data.to_str().map(str::to_owned)),
    };
    let sign = runs.announce(data);
    if let Err(problem) = &sign {
        warn!(%problem, "`cospan stop` will not find this server");
    }
    // Without a service manager nobody is notified.
    if let Err(problem) = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]) {
        warn!(%problem, "the service manager was not told that we are ready");
    }
    sign.ok()
}

async fn stop_server(started: StartedServer) {
    const FLUSH_MAX: Duration = Duration::from_secs(4);
    if let Some(plane) = &started.plane {
        plane.begin_stopping();
    }
    started.running.stop().await;
    if let Some(plane) = &started.plane
        && tokio::time::timeout(FLUSH_MAX, plane.return_unused_ids())
            .await
            .is_err()
    {
        warn!("the store takes long: numbers of jobs will leap");
    }
    let store = started.store;
    let closed = actix_web::rt::task::spawn_blocking(move || store.close());
    if tokio::time::timeout(FLUSH_MAX, closed).await.is_err() {
        warn!("the store takes long to close; everything acknowledged is durable");
    }
    for connection in started.connections {
        connection.close_connection().await;
    }
}

// A build with planted faults wraps every site.
#[cfg(not(cospan_chaos))]
#[cfg(test)]
mod tests {
    use cospan_domain::ids::SiteName;
    use cospan_domain::resources::Resources;
    use cospan_sites::local_site::{LocalSite, LocalSiteConfig};

    use super::*;

    #[test]
    fn unless_faults_may_be_injected_no_site_is_wrapped() {
        let home = tempfile::tempdir().unwrap();
        let name: SiteName = "delft".parse().unwrap();
        let local = LocalSiteConfig::new(
            name.clone(),
            home.path().join("delft"),
            Resources::default(),
            vec!["/agent".into()],
        );
        let site: Arc<dyn Site> = Arc::new(LocalSite::new(local).unwrap());
        let mut config = Config::for_test(home.path()).unwrap();
        let (sites, faults) = wrap_sites(&config, home.path(), vec![site.clone()]);
        assert!(Arc::ptr_eq(&sites[0], &site) && faults.is_none());
        config.chaos.allowed = true;
        let (sites, faults) = wrap_sites(&config, home.path(), vec![site.clone()]);
        assert!(!Arc::ptr_eq(&sites[0], &site));
        assert_eq!(faults.unwrap().into_keys().collect::<Vec<_>>(), [name]);
    }
}
