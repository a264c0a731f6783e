//! Whose the root of a cluster is: of one control plane at a time, as with sites of this machine.
//! Where this machine has the root too it is locked; over a network the name in the file `owner`
//! counts, and whether its process lives if that is one of this machine.

use std::sync::{Arc, Mutex, PoisonError};

use super::SlurmSite;
use crate::agent::Request;
use crate::local::owner::{Hold, Owner};
use crate::local::root::Root;
use crate::port::SiteError;

/// How the root is held.
#[derive(Debug)]
pub(super) enum Held {
    /// By a lock.
    Here(Arc<Hold>),
    /// By its name: `true` once that was written.
    There(Mutex<bool>),
}

impl SlurmSite {
    /// Takes the root for its owner, before anything is done there. One that is not there now is
    /// taken once it is.
    ///
    /// # Errors
    /// `Refused` if another control plane has it, with both names and the remedy; or it was not
    /// reached.
    pub async fn take(&self) -> Result<(), SiteError> {
        let Some(instance) = self.config.owner else { return Ok(()) };
        let ours = Owner::ours(instance, &self.config.data_directory);
        match &self.held {
            Held::Here(hold) => self.lock(hold.clone(), ours).await,
            Held::There(is_ours) => self.sign(is_ours, &ours).await,
        }
    }

    fn not_alone(&self, why: &str) -> SiteError {
        SiteError::Refused(format!("site {} is not ours alone: {why}", self.config.name))
    }

    /// The same before it is asked for anything else: then it is a state of the site.
    pub(super) async fn keep(&self) -> Result<(), SiteError> {
        match self.take().await {
            Err(SiteError::Refused(why)) => Err(SiteError::OutOfOrder(why)),
            taken => taken,
        }
    }

    async fn lock(&self, hold: Arc<Hold>, ours: Owner) -> Result<(), SiteError> {
        let (path, name) = (self.config.root.clone(), self.config.name.clone());
        let locked = tokio::task::spawn_blocking(move || {
            let Ok(root) = Root::open(&path, &name) else { return Ok(()) };
            // A file that is none is told by the agent.
            if root.is_spoiled_file(crate::local::owner::OWNER) {
                return Ok(());
            }
            hold.keep(&root, || ours).map(drop)
        });
        let deadline = std::time::Duration::from_millis(self.config.deadline.0);
        match tokio::time::timeout(deadline, locked).await {
            Ok(Ok(Err(SiteError::NotSent(why)))) => Err(self.not_alone(&why)),
            Ok(Ok(locked)) => locked,
            Ok(Err(error)) => Err(SiteError::OutcomeUnknown(error.to_string())),
            Err(_) => Err(SiteError::NotSent("its file system does not answer".to_owned())),
        }
    }

    async fn sign(&self, is_ours: &Mutex<bool>, ours: &Owner) -> Result<(), SiteError> {
        let answer = self.agent.ask(&["owner"], Request::default()).await?;
        let lines: Vec<&str> = answer.all("owner").collect();
        let found = Owner::parse(&lines.join("\n"));
        let signed = || is_ours.lock().unwrap_or_else(PoisonError::into_inner);
        if found.as_ref() == Some(ours) {
            *signed() = true;
            return Ok(());
        }
        let was_ours = *signed();
        let place = &self.config.root;
        let why = found.and_then(|found| match was_ours {
            true => Some(found.took(ours, place)),
            false => found.keeps_out(ours, place),
        });
        if let Some(why) = why {
            return Err(self.not_alone(&why));
        }
        let text = ours.text().into_bytes();
        let words = ["own".to_owned(), text.len().to_string()];
        self.agent.ask(&words, Request::bytes(text)).await?;
        *signed() = true;
        Ok(())
    }
}
