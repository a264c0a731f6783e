//! Uploads on their way to a site.

use std::sync::Arc;
use std::time::Duration;

use actix_web::web::{self, Data};
use cospan_actors::api::command::ApiRequest;
use cospan_actors::api::{ApiAnswer, ApiCommand, ApiRefusal};
use cospan_domain::ids::{IdentifierError, RelPath, SiteName};
use cospan_domain::transfer::file_place::FilePlace;
use cospan_domain::units::Bytes;
use cospan_sites::port::{UPLOADS, UploadStep};

use super::failure::HttpFailure;
use super::files::name_taken_failure;
use super::query;
use super::state::HttpState;
use crate::keys::Role;
use crate::uploads::{Upload, UploadError, UploadRecord, Uploads};
use cospan_api::v1::file::FileReport;
use cospan_api::v1::problem::{Code, Problem};

/// Bytes that are sent to a site at a time.
const PIECE: usize = 1 << 20;
/// Longest time that a request waits: then it is answered that the landing continues, and the
/// client asks again.
const PATIENCE: Duration = Duration::from_secs(15);

/// The progress of a landing.
pub(super) enum DeliveryProgress {
    /// The upload is a registered file.
    Done(Box<FileReport>),
    /// The landing continues.
    UnderWay,
}

/// Runs a call of the uploads that may wait for the disk.
pub(super) async fn run_blocking<T: Send + 'static>(
    edge: &Data<HttpState>,
    what: impl FnOnce(&Uploads) -> Result<T, UploadError> + Send + 'static,
) -> Result<T, HttpFailure> {
    let edge = edge.clone();
    match web::block(move || what(&edge.uploads)).await {
        Ok(done) => Ok(done?),
        Err(error) => Err(HttpFailure::internal("work on an upload", error)),
    }
}

/// Lands an upload. The landing continues if no client waits any more; a client that asks again
/// waits for its turn and finds it done.
pub(super) async fn deliver_upload(
    edge: &Data<HttpState>,
    upload: &Arc<Upload>,
) -> Result<DeliveryProgress, HttpFailure> {
    let edge = edge.clone();
    let upload = upload.clone();
    let waited = async {
        let turn = upload.turn.clone().lock_owned().await;
        let landing = actix_web::rt::spawn(async move {
            let _turn = turn;
            let owner = upload.record().owner;
            let _landing = edge.uploads.landings.take_turn(Some(owner)).await;
            finish_delivery(&edge, &upload).await
        });
        landing.await
    };
    match actix_web::rt::time::timeout(PATIENCE, waited).await {
        Ok(Ok(file)) => Ok(DeliveryProgress::Done(Box::new(file?))),
        Ok(Err(error)) => Err(HttpFailure::internal("deliver an upload", error)),
        Err(_) => Ok(DeliveryProgress::UnderWay),
    }
}

async fn finish_delivery(
    edge: &Data<HttpState>,
    upload: &Arc<Upload>,
) -> Result<FileReport, HttpFailure> {
    let record = upload.record();
    if record.given_up {
        return Err(UploadError::GivenUp.into());
    }
    if record.placed.is_none() {
        match site_with_file(edge, &record) {
            // An earlier process was killed when it had registered the file.
            Some(site) => record_placed(edge, upload, site).await?,
            None => {
                check_complete(edge, upload).await?;
                place_upload(edge, upload).await?;
            }
        }
    }
    edge.backend.find_file(&record.name).ok_or_else(|| {
        HttpFailure::new(
            Code::NotFound,
            format!("the file {} was removed", record.name),
        )
    })
}

/// The site where the upload's name stands for its content already.
pub(super) fn site_with_file(edge: &HttpState, record: &UploadRecord) -> Option<SiteName> {
    let place = FilePlace::User(site_path(record).ok()?);
    let view = edge.backend.view();
    let entry = view.files.get(&record.name)?.entry.as_ref()?;
    let is_it = entry.content.digest == record.digest;
    let mut here = entry
        .replicas
        .iter()
        .filter(|(_, at)| is_it && *at == place);
    here.next().map(|(site, _)| site.clone())
}

pub(super) async fn record_placed(
    edge: &Data<HttpState>,
    upload: &Arc<Upload>,
    site: SiteName,
) -> Result<(), HttpFailure> {
    let upload = upload.clone();
    run_blocking(edge, move |uploads| uploads.record_placed(&upload, site)).await
}

async fn record_change(
    edge: &Data<HttpState>,
    upload: &Arc<Upload>,
    change: impl FnOnce(&mut UploadRecord) + Send + 'static,
) -> Result<(), HttpFailure> {
    let upload = upload.clone();
    run_blocking(edge, move |uploads| uploads.record_change(&upload, change)).await
}

/// Checks that all bytes have arrived, and match the announced digest.
async fn check_complete(edge: &Data<HttpState>, upload: &Arc<Upload>) -> Result<(), HttpFailure> {
    let record = upload.record();
    let arrived = edge.uploads.arrived_bytes(&record)?;
    if arrived != record.size_bytes {
        let detail = format!("{arrived} of {} bytes have arrived", record.size_bytes);
        return Err(Problem::new(Code::Conflict, detail)
            .with_remedy("send the rest first")
            .into());
    }
    let asked = record.clone();
    let announced = record.digest;
    let digest = run_blocking(edge, move |uploads| uploads.compute_digest(&asked)).await?;
    if digest == announced {
        return Ok(());
    }
    record_change(edge, upload, |record| record.given_up = true).await?;
    let detail = format!("what arrived has digest {digest}, and {announced} was announced");
    Err(HttpFailure::new(Code::BadUpload, detail))
}

/// Brings the upload to its requested site, or to the first that takes it.
async fn place_upload(edge: &Data<HttpState>, upload: &Arc<Upload>) -> Result<(), HttpFailure> {
    let record = upload.record();
    let mut reasons = Vec::new();
    for site in candidate_sites(edge, &record)? {
        let to = site.clone();
        record_change(edge, upload, move |record| {
            record.touched.insert(to);
        })
        .await?;
        let brought = match send_to_site(edge, &record, &site).await? {
            Ok(()) => register_file(edge, &record, &site).await?,
            refused => refused,
        };
        let Err(refusal) = brought else {
            return record_placed(edge, upload, site).await;
        };
        // A file that cannot be removed now is noted, and removed when the site answers.
        if remove_at_site(edge, &record, &site).await.is_ok() {
            record_change(edge, upload, move |record| {
                record.touched.remove(&site);
            })
            .await?;
        }
        match refusal {
            ApiRefusal::Site(why) => reasons.push(why),
            ApiRefusal::SiteRefused { problem, .. } => reasons.push(problem),
            other => return Err(other.into()),
        }
    }
    let why = if reasons.is_empty() {
        "no site is usable at the moment".to_owned()
    } else {
        reasons.join("; ")
    };
    Err(HttpFailure::new(
        Code::Site,
        format!("no site took the file: {why}"),
    ))
}

fn candidate_sites(edge: &HttpState, record: &UploadRecord) -> Result<Vec<SiteName>, HttpFailure> {
    if let Some(site) = &record.site {
        return Ok(vec![site.clone()]);
    }
    let sites = edge.backend.list_sites().sites;
    let usable = sites.iter().filter(|site| site.state == "usable");
    usable
        .map(|site| query::parse_part("site", &site.name))
        .collect()
}

async fn send_to_site(
    edge: &Data<HttpState>,
    record: &UploadRecord,
    site: &SiteName,
) -> Result<Result<(), ApiRefusal>, HttpFailure> {
    let mut offset = 0;
    loop {
        if let Err(refusal) = check_owner_role(edge, record) {
            return Ok(Err(refusal));
        }
        let asked = record.clone();
        let bytes = run_blocking(edge, move |uploads| {
            uploads.read_piece(&asked, offset, PIECE)
        })
        .await?;
        let ends = offset + bytes.len() as u64;
        if bytes.is_empty() && ends < record.size_bytes {
            return Err(HttpFailure::internal(
                "read an upload",
                "some of it is gone",
            ));
        }
        let name = record.id.as_str().into();
        let last = ends >= record.size_bytes;
        let step = UploadStep::Append {
            name,
            offset: Bytes(offset),
            bytes,
            last,
        };
        if let Err(refusal) = edge
            .backend
            .take_upload_step(&record.owner, site, step)
            .await
        {
            return Ok(Err(refusal));
        }
        if last {
            return Ok(Ok(()));
        }
        offset = ends;
    }
}

/// Checks that the sender may still do so.
fn check_owner_role(edge: &HttpState, record: &UploadRecord) -> Result<(), ApiRefusal> {
    if edge.keys.names_with(Role::User).contains(&record.owner) {
        return Ok(());
    }
    let why = format!(
        "the key {} was removed, or may not send files any more",
        record.owner
    );
    Err(ApiRefusal::Conflict(why))
}

/// Registers the file. The site reads it once more, so its content is known.
async fn register_file(
    edge: &HttpState,
    record: &UploadRecord,
    site: &SiteName,
) -> Result<Result<(), ApiRefusal>, HttpFailure> {
    if let Err(refusal) = check_owner_role(edge, record) {
        return Ok(Err(refusal));
    }
    // Since the upload was announced, another key may have taken the name.
    let reaches_all = edge
        .keys
        .names_with(Role::Administrator)
        .contains(&record.owner);
    if edge
        .backend
        .file_owner(&record.name)
        .is_some_and(|by| by != record.owner && !reaches_all)
    {
        return Err(name_taken_failure(&record.name));
    }
    let path = site_path(record).map_err(|error| HttpFailure::internal("name an upload", error))?;
    let name = record.name.clone();
    let site = site.clone();
    let replace = record.replace;
    let what = ApiRequest::AddFile {
        name,
        site,
        path,
        replace,
        reaches_all,
    };
    match edge
        .backend
        .run_command(ApiCommand {
            by: record.owner.clone(),
            what,
        })
        .await
    {
        Ok(ApiAnswer::Done) => {}
        Ok(other) => {
            return Err(HttpFailure::internal(
                "register it",
                format!("the answer was {other:?}"),
            ));
        }
        Err(refusal) => return Ok(Err(refusal)),
    }
    let file = edge.backend.find_file(&record.name);
    if file.is_some_and(|file| file.digest == record.digest.to_string()) {
        return Ok(Ok(()));
    }
    // Somebody changed it there before it was read.
    let name = record.name.clone();
    let what = ApiRequest::RemoveFile {
        name,
        site: None,
        force: false,
        reaches_all,
    };
    let removed = edge
        .backend
        .run_command(ApiCommand {
            by: record.owner.clone(),
            what,
        })
        .await;
    let changed = ApiRefusal::Conflict("the file changed on its way; upload it again".into());
    Ok(Err(removed.err().unwrap_or(changed)))
}

/// The path below a site's file root.
pub(super) fn site_path(record: &UploadRecord) -> Result<RelPath, IdentifierError> {
    RelPath::new(&format!("{UPLOADS}/{}", record.id))
}

/// Removes all of the upload that a site has.
pub(super) async fn remove_at_site(
    edge: &HttpState,
    record: &UploadRecord,
    site: &SiteName,
) -> Result<(), ApiRefusal> {
    edge.backend
        .take_upload_step(
            &record.owner,
            site,
            UploadStep::Remove {
                name: record.id.as_str().into(),
            },
        )
        .await
}
