//! Files that users send: below a root that this machine has, and where only an agent can reach.

use std::io;
use std::os::unix::fs::FileExt;

use super::file_area::FileArea;
use super::file_root::{FILES, OpenSiteRoot};
use super::push_copy::PushDestination;
use super::remote_file_area::SharedAgentClient;
use crate::port::{SiteError, UPLOADS, UploadStep};

impl FileArea {
    /// Takes a step in bringing a user's file here; see [`crate::port::SiteFiles::upload`].
    ///
    /// # Errors
    /// `Refused` if the disk is full or the step does not fit what is there; `NotSent` if it
    /// cannot be done at the moment.
    pub fn take_upload_step(&self, step: &UploadStep) -> Result<(), SiteError> {
        let root = self.open_root()?;
        match step {
            UploadStep::Append {
                name,
                offset,
                bytes,
                last,
            } => {
                let ends = offset.0 + bytes.len() as u64;
                match append_upload(&root, name, offset.0, bytes, *last) {
                    Ok(length) if length == offset.0 || length == ends => Ok(()),
                    Ok(length) => Err(SiteError::Refused(format!(
                        "{length} bytes of {UPLOADS}/{name} are there, and not {}",
                        offset.0
                    ))),
                    Err(error) => Err(self.area_error("write what was uploaded", &error)),
                }
            }
            UploadStep::Remove { name } => remove_upload(&root, name)
                .map_err(|error| self.area_error("remove what was uploaded", &error)),
        }
    }
}

impl SharedAgentClient {
    /// Takes a step in bringing a user's file there: it is a copy until all of it has arrived.
    pub(super) async fn send_upload_step(&self, step: &UploadStep) -> Result<(), SiteError> {
        match step {
            UploadStep::Append {
                name,
                offset,
                bytes,
                last,
            } => {
                let copy = format!("{UPLOADS}.{name}");
                if offset.0 == 0 {
                    self.discard_copy(&copy).await?;
                }
                let ends = offset.0 + bytes.len() as u64;
                match self.append_bytes(&copy, offset.0, bytes.clone()).await {
                    // The step was sent twice.
                    Err(SiteError::Refused(_)) if self.arrived_bytes(&copy).await? == ends => {}
                    put => put?,
                }
                if *last {
                    self.ask_agent(&["keep", &copy, UPLOADS, name])
                        .await
                        .map(drop)
                } else {
                    Ok(())
                }
            }
            UploadStep::Remove { name } => {
                self.discard_copy(&format!("{UPLOADS}.{name}")).await?;
                self.ask_agent(&["forget", UPLOADS, name]).await.map(drop)
            }
        }
    }
}

/// Appends bytes, and returns how many were there. Nothing is written unless that is as expected.
fn append_upload(
    root: &OpenSiteRoot,
    name: &str,
    offset: u64,
    bytes: &[u8],
    last: bool,
) -> io::Result<u64> {
    let files = root.open_own_dir(FILES)?;
    let dir = files.ensure_dir(UPLOADS)?;
    let file = dir.open_to_write(name)?;
    if offset == 0 {
        file.set_len(0)?;
    }
    let length = file.metadata()?.len();
    if length != offset && length != offset + bytes.len() as u64 {
        return Ok(length);
    }
    file.write_all_at(bytes, offset)?;
    if last {
        file.sync_all()?;
        dir.sync_names()?;
        files.sync_names()?;
    }
    Ok(length)
}

fn remove_upload(root: &OpenSiteRoot, name: &str) -> io::Result<()> {
    match root.open_own_dir(FILES)?.open_dir(UPLOADS) {
        Ok(dir) => dir.remove_tree(name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
