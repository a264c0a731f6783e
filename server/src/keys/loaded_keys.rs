//! The keys that a running server knows. They are read at start, and again when the file changes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use cospan_domain::ids::KeyName;
use tokio::sync::watch;

use super::directory::{KeyDirectory, parse_key_file};
use super::token::{SecretToken, hash_token};
use super::{KeyError, KeyRoles, Role, private};

/// A key that is let in.
#[derive(Debug)]
pub struct AdmittedKey {
    /// The name of the key.
    pub name: KeyName,
    /// The roles of the key.
    pub roles: KeyRoles,
    hash: blake3::Hash,
    /// The second of the latest request, and the number of requests in it.
    window: AtomicU64,
}

impl AdmittedKey {
    /// Counts a request. Returns true if it is within `limit` requests for this second. Approximate
    /// while two seconds meet.
    pub fn count_request(&self, now_s: u64, limit: u32) -> bool {
        let second = now_s & 0xffff_ffff;
        let seen = self.window.load(Ordering::Relaxed);
        if seen >> 32 == second {
            self.window.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff < u64::from(limit)
        } else {
            self.window.store((second << 32) | 1, Ordering::Relaxed);
            limit > 0
        }
    }
}

type KeysByHash = BTreeMap<[u8; 32], Arc<AdmittedKey>>;

/// The metadata that changes when a file is replaced or written.
type KeyFileStamp = (u64, u64, i64, i64);

/// The keys that are let in.
#[derive(Debug)]
pub struct LoadedKeys {
    directory: KeyDirectory,
    members: ArcSwap<KeysByHash>,
    seen: Mutex<Option<KeyFileStamp>>,
    /// Number of times that the keys were read.
    read: watch::Sender<u64>,
}

impl LoadedKeys {
    /// Reads the keys of a directory.
    ///
    /// # Errors
    /// The file can be read by others, belongs to somebody else, or is damaged.
    pub fn open(directory: KeyDirectory) -> Result<Self, KeyError> {
        let members = ArcSwap::default();
        let seen = Mutex::new(None);
        let ring = Self {
            directory,
            members,
            seen,
            read: watch::Sender::new(0),
        };
        ring.reload_if_changed()?;
        Ok(ring)
    }

    /// Returns the key that this token belongs to.
    pub fn find_by_token(&self, token: &[u8]) -> Option<Arc<AdmittedKey>> {
        if token.len() > SecretToken::MAX_BYTES {
            return None;
        }
        let given = hash_token(token);
        let members = self.members.load();
        let member = members.get(given.as_bytes())?;
        // A lookup by hash reveals nothing about an unknown token; the comparison of `blake3::Hash`
        // takes the same time wherever they differ.
        (member.hash == given).then(|| member.clone())
    }

    /// Returns the present state of a key; `None` if it was removed.
    pub fn current_key(&self, member: &AdmittedKey) -> Option<Arc<AdmittedKey>> {
        let members = self.members.load();
        members
            .get(member.hash.as_bytes())
            .filter(|now| now.name == member.name)
            .cloned()
    }

    /// Subscribes to changes of the keys.
    pub fn watch_changes(&self) -> watch::Receiver<u64> {
        self.read.subscribe()
    }

    /// Lists the keys that have this role now.
    pub fn names_with(&self, role: Role) -> BTreeSet<KeyName> {
        let members = self.members.load();
        let with = members
            .values()
            .filter(|member| member.roles.has_role(role));
        with.map(|member| member.name.clone()).collect()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.members.load().len()
    }

    /// Returns true if no key is let in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the file again if it has changed. Returns true if it had. After an error the keys stay
    /// as they were.
    ///
    /// # Errors
    ///
    /// As for [`LoadedKeys::open`].
    pub fn reload_if_changed(&self) -> Result<bool, KeyError> {
        let path = self.directory.key_file_path();
        let Some((_, found)) = private::open_private_file(&path, private::own_account())? else {
            return Ok(false);
        };
        let stamp = (found.ino(), found.size(), found.mtime(), found.mtime_nsec());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == Some(stamp) {
            return Ok(false);
        }
        let Some((text, _)) = private::read_private_file(&path)? else {
            return Ok(false);
        };
        let old = self.members.load();
        let members = parse_key_file(&path, &text)?.into_iter().map(|key| {
            let id = *key.hash.as_bytes();
            // A key that stays keeps its count of requests.
            let member = old
                .get(&id)
                .filter(|member: &&Arc<AdmittedKey>| {
                    member.name == key.name && member.roles == key.roles
                })
                .cloned();
            (
                id,
                member.unwrap_or_else(|| {
                    let name = key.name.clone();
                    let roles = key.roles.clone();
                    let hash = key.hash;
                    Arc::new(AdmittedKey {
                        name,
                        roles,
                        hash,
                        window: AtomicU64::new(0),
                    })
                }),
            )
        });
        self.members.store(Arc::new(members.collect()));
        *seen = Some(stamp);
        self.read.send_modify(|times| *times += 1);
        Ok(true)
    }
}
