//! The owner of the root of a cluster: one control plane at a time, as with sites of this machine.
//! If this machine has the root too, it is locked; over a network the name in the file `owner`
//! counts, and whether its process lives if that is one of this machine.

use std::sync::{Arc, Mutex, PoisonError};

use super::SlurmSite;
use crate::agent::SiteAgentRequest;
use crate::local_site::attempt_root::VerifiedSiteRoot;
use crate::local_site::root_owner::{RootLock, RootOwner};
use crate::port::SiteError;

/// The way in which the root is kept for us.
#[derive(Debug)]
pub(super) enum RootOwnershipKind {
    /// By a lock.
    Here(Arc<RootLock>),
    /// By the name in its file: `true` once that was written.
    There(Mutex<bool>),
}

impl SlurmSite {
    /// Takes the root for its owner, before anything is done there. A root that is not
    /// there now is taken once it is.
    ///
    /// # Errors
    /// `OutOfOrder` if another control plane has it, with both names and the remedy; or it was not
    /// reached.
    pub async fn take_root(&self) -> Result<(), SiteError> {
        let Some(instance) = self.config.owner else {
            return Ok(());
        };
        let ours = RootOwner::of_this_process(instance, &self.config.data_directory);
        match &self.held {
            RootOwnershipKind::Here(hold) => self.lock_root(hold.clone(), ours).await,
            RootOwnershipKind::There(is_ours) => self.sign_owner(is_ours, &ours).await,
        }
    }

    fn not_alone_error(&self, why: &str) -> SiteError {
        SiteError::OutOfOrder(format!(
            "site {} is not ours alone: {why}",
            self.config.name
        ))
    }

    /// Takes the root before any other call. A root that is not the site's is a state of the site.
    pub(super) async fn keep_root(&self) -> Result<(), SiteError> {
        match self.take_root().await {
            Err(SiteError::Refused(why)) => Err(SiteError::OutOfOrder(why)),
            taken => taken,
        }
    }

    async fn lock_root(&self, hold: Arc<RootLock>, ours: RootOwner) -> Result<(), SiteError> {
        let path = self.config.root.clone();
        let name = self.config.name.clone();
        let locked = tokio::task::spawn_blocking(move || {
            let Ok(root) = VerifiedSiteRoot::open(&path, &name) else {
                return Ok(());
            };
            // The agent reports something that is no file.
            if root.is_spoiled_file(crate::local_site::root_owner::OWNER) {
                return Ok(());
            }
            hold.ensure_root_lock(&root, || ours, || Ok(()))
        });
        let deadline = std::time::Duration::from_millis(self.config.deadline.0);
        match tokio::time::timeout(deadline, locked).await {
            Ok(Ok(Err(SiteError::OutOfOrder(why)))) => Err(self.not_alone_error(&why)),
            Ok(Ok(locked)) => locked,
            Ok(Err(error)) => Err(SiteError::OutcomeUnknown(error.to_string())),
            Err(_) => Err(SiteError::NotSent(
                "its file system does not answer".to_owned(),
            )),
        }
    }

    async fn sign_owner(&self, is_ours: &Mutex<bool>, ours: &RootOwner) -> Result<(), SiteError> {
        let answer = self
            .agent
            .send_request(&["owner"], SiteAgentRequest::default())
            .await?;
        let lines: Vec<&str> = answer.values_of("owner").collect();
        let found = RootOwner::parse_owner(&lines.join("\n"));
        if found.as_ref() == Some(ours) {
            *is_ours.lock().unwrap_or_else(PoisonError::into_inner) = true;
            return Ok(());
        }
        let was_ours = *is_ours.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &self.config.root;
        let why = found.and_then(|found| {
            if was_ours {
                Some(found.explain_loss(ours, place))
            } else {
                found.reason_to_stay_out(ours, place)
            }
        });
        if let Some(why) = why {
            return Err(self.not_alone_error(&why));
        }
        let text = ours.to_text().into_bytes();
        // A shell reads a file without its last line breaks.
        let seen = lines.join("\n").trim_end_matches('\n').to_owned();
        let words = ["own".to_owned(), text.len().to_string(), seen];
        let answer = self
            .agent
            .send_request(&words, SiteAgentRequest::from_bytes(text))
            .await?;
        // If two found the same owner, only one of them is written down.
        let lines: Vec<&str> = answer.values_of("owner").collect();
        match RootOwner::parse_owner(&lines.join("\n")) {
            Some(found) if found == *ours => {
                *is_ours.lock().unwrap_or_else(PoisonError::into_inner) = true;
                Ok(())
            }
            Some(found) => Err(self.not_alone_error(&found.explain_loss(ours, place))),
            None => Err(self.not_alone_error("its owner was changed meanwhile; try again")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use async_trait::async_trait;
    use cospan_domain::ids::{InstanceId, SiteName};
    use cospan_domain::resources::Resources;

    use super::super::SlurmSiteConfig;
    use super::*;
    use crate::exec::child::ChildProcessExecutor;
    use crate::exec::{CommandExecutor, CommandOutput, ExecCommand, ExecError, ProgramOrScript};

    /// Has another control plane take the root just before this one writes its name.
    #[derive(Debug)]
    struct RivalExecutor(Option<Arc<SlurmSite>>);

    #[async_trait]
    impl CommandExecutor for RivalExecutor {
        async fn run(&self, command: ExecCommand) -> Result<CommandOutput, ExecError> {
            if let (Some(first), ProgramOrScript::Script { words, .. }) = (&self.0, &command.work)
                && words.iter().any(|word| word == "own")
            {
                first.take_root().await.unwrap();
            }
            ChildProcessExecutor::with_process_environment()
                .run(command)
                .await
        }
    }

    fn site(root: &Path, number: u64, behind: Option<Arc<SlurmSite>>) -> SlurmSite {
        let name = SiteName::new("there").unwrap();
        let total = Resources::processors(1);
        let mut config = SlurmSiteConfig::new(name, root.into(), total, Vec::new());
        config.owner = Some(InstanceId::from_random(number));
        SlurmSite::with_remote_root(config, Arc::new(RivalExecutor(behind))).unwrap()
    }

    #[tokio::test]
    async fn of_two_that_take_a_root_at_the_same_time_one_has_it() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        for left in [None, Some(""), Some("instance of nobody\n\n")] {
            let first = Arc::new(site(&root, 1, None));
            first.make_root().await.unwrap();
            let owner = root.join("owner");
            match left {
                Some(text) => std::fs::write(&owner, text).unwrap(),
                None => assert!(!owner.exists()),
            }
            let refusal = site(&root, 2, Some(first.clone()))
                .take_root()
                .await
                .unwrap_err();
            let named = InstanceId::from_random(1).to_string();
            assert!(refusal.to_string().contains(&named), "{refusal}");
            first.take_root().await.unwrap();
            assert!(
                std::fs::read_dir(root.join("gone"))
                    .unwrap()
                    .next()
                    .is_none()
            );
            // Whoever comes later finds what it is told.
            site(&root, 1, None).take_root().await.unwrap();
        }
    }
}
