//! Files of this machine that jobs name: they are sent to the server, and then named as it knows
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cospan_domain::ids::{LogicalName, RelPath, SiteName};

use super::work_directory::PackedDirectory;
use crate::cli::commands::upload::{UploadRegistration, upload_file};
use crate::cli::exit::CliError;
use crate::cli::print::{print_note, warning_word};
use cospan_api::v1::JobDocument;
use cospan_api::v1::document::{
    ComponentDocument, ExecutableDocument, FileDocument, InputDocument,
};
use cospan_client::Client;

/// Sends the files that jobs name, each once.
pub(super) struct InputUploader<'c> {
    client: &'c Client,
    sent: BTreeMap<(PathBuf, Option<SiteName>), LogicalName>,
    /// Arguments of which it was said that they stay here.
    told: BTreeSet<Arc<str>>,
    /// A directory that every component brings.
    brought: Option<PackedDirectory>,
}

impl<'c> InputUploader<'c> {
    pub(super) fn new(client: &'c Client, brought: Option<PackedDirectory>) -> Self {
        Self {
            client,
            sent: BTreeMap::new(),
            told: BTreeSet::new(),
            brought,
        }
    }

    /// Sends the files that a job names, relative to the folder of its job file.
    pub(super) fn upload_job_files(
        &mut self,
        job: &mut JobDocument,
        folder: &Path,
    ) -> Result<(), CliError> {
        job.component
            .iter_mut()
            .try_for_each(|component| self.upload_component_files(component, folder))
    }

    fn upload_component_files(
        &mut self,
        component: &mut ComponentDocument,
        folder: &Path,
    ) -> Result<(), CliError> {
        let site = component.site.clone();
        if let Some(brought) = &self.brought {
            brought.add_to_component(component)?;
        }
        for input in &mut component.input {
            self.upload_input(input, site.as_ref(), folder)?;
        }
        self.tell_files_left_here(component, folder);
        let input = &component.input;
        self.upload_executable(&mut component.executable, site.as_ref(), (folder, input))?;
        let at = component.at.values_mut().map(|change| (None, change));
        let restarted = component
            .restart
            .iter_mut()
            .map(|change| (site.as_ref(), change));
        for (site, change) in at.chain(restarted) {
            if let Some(executable) = &mut change.executable {
                self.upload_executable(executable, site, (folder, input))?;
            }
        }
        Ok(())
    }

    /// Says which arguments are names of files that are here, and will not be at the site.
    fn tell_files_left_here(&mut self, component: &ComponentDocument, folder: &Path) {
        for argument in &component.arguments {
            let is_here = !argument.starts_with(['/', '-'])
                && !self.is_brought(argument)
                && folder.join(&**argument).is_file()
                && !is_input_path(argument, &component.input);
            if is_here && self.told.insert(argument.clone()) {
                print_note(&format!(
                    "{}: component {}: {argument} is a file of this machine, and is not brought to \
                     the site; name it as input: --input {argument}, or in a job file \
                     input = [{{ upload = \"{argument}\" }}]",
                    warning_word(),
                    component.name
                ));
            }
        }
    }

    fn is_brought(&self, path: &str) -> bool {
        let brought = self.brought.as_ref();
        brought.is_some_and(|brought| brought.has_file(path))
    }

    fn upload_executable(
        &mut self,
        executable: &mut ExecutableDocument,
        site: Option<&SiteName>,
        (folder, input): (&Path, &[InputDocument]),
    ) -> Result<(), CliError> {
        let path = match &*executable {
            ExecutableDocument::AtSite(path) if self.is_brought(path) => return Ok(()),
            ExecutableDocument::AtSite(path) if is_local_file(path, folder, input) => path.clone(),
            ExecutableDocument::AtSite(path) if is_unknown_file(path, folder, input) => {
                let at = folder.join(&**path).display().to_string();
                print_note(&format!(
                    "{}: there is no file {at} on this machine; {path} must be in the work \
                     directory at the site",
                    warning_word()
                ));
                return Ok(());
            }
            ExecutableDocument::Staged(FileDocument {
                upload: Some(path), ..
            }) => path.clone(),
            _ => return Ok(()),
        };
        let name = self.upload_once(&path, site, folder)?;
        let file = FileDocument {
            file: Some(name),
            upload: None,
            digest: None,
            size_bytes: None,
        };
        *executable = ExecutableDocument::Staged(file);
        Ok(())
    }

    fn upload_input(
        &mut self,
        input: &mut InputDocument,
        site: Option<&SiteName>,
        folder: &Path,
    ) -> Result<(), CliError> {
        let Some(path) = input.upload.take() else {
            return Ok(());
        };
        let own = Path::new(&*path).file_name().and_then(|name| name.to_str());
        if input.path.is_none() {
            input.path = own.and_then(|name| RelPath::new(name).ok());
        }
        input.file = Some(self.upload_once(&path, site, folder)?);
        Ok(())
    }

    fn upload_once(
        &mut self,
        path: &Arc<str>,
        site: Option<&SiteName>,
        folder: &Path,
    ) -> Result<LogicalName, CliError> {
        // Without the `.` of `./mesh.nc`, as people would write it.
        let key = (folder.join(&**path).components().collect(), site.cloned());
        if let Some(name) = self.sent.get(&key) {
            return Ok(name.clone());
        }
        let wish = UploadRegistration {
            site: key.1.clone(),
            ..UploadRegistration::default()
        };
        let name = upload_file(self.client, &key.0, &wish)?;
        self.sent.insert(key, name.clone());
        Ok(name)
    }
}

/// Returns true for a relative path of a file beside the job file, unless an input will be there. A
/// bare name is looked up at the site.
fn is_local_file(path: &str, folder: &Path, input: &[InputDocument]) -> bool {
    is_relative(path) && folder.join(path).is_file() && !is_input_path(path, input)
}

/// Returns true for a relative path where no file is known, neither here nor among the input, of
/// which a directory may contain it.
fn is_unknown_file(path: &str, folder: &Path, input: &[InputDocument]) -> bool {
    let brought = Path::new(path).ancestors().filter_map(Path::to_str);
    let is_brought = brought.into_iter().any(|above| is_input_path(above, input));
    is_relative(path) && !folder.join(path).exists() && !is_brought
}

fn is_relative(path: &str) -> bool {
    path.contains('/') && !path.starts_with('/')
}

fn is_input_path(path: &str, input: &[InputDocument]) -> bool {
    let below = path.strip_prefix("./").unwrap_or(path);
    input.iter().any(|input| match (&input.path, &input.file) {
        (Some(at), _) => at.as_str() == below,
        (None, Some(name)) => name.as_str().rsplit('/').next() == Some(below),
        (None, None) => false,
    })
}
