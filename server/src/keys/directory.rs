//! The directory with the key file, as operators change it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cospan_domain::ids::KeyName;
use cospan_domain::units::Timestamp;
use serde::{Deserialize, Serialize};

use super::token::SecretToken;
use super::{KeyError, KeyRoles, Role, private};
use cospan_api::v1::Instant;

/// Name of the key that is made at the first start.
pub const FIRST_KEY: &str = "admin";

/// Largest number of keys.
const MAX_KEYS: usize = 10_000;
/// Version of the key file. The first version had no ranks, and every key could do everything.
const VERSION: u32 = 2;
const VERSION_WITHOUT_RANKS: u32 = 1;
const KEY_FILE: &str = "keys.toml";
const LOCK_FILE: &str = "keys.lock";
const TOKEN_FILE: &str = "admin.token";
const HEADER: &str = "# Keys of this Cospan server: names and hashes, no secrets.\n\
                      # Change it with `cospan key`.\n\n";

/// Everything that is known about a key, except its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// The name of the key.
    pub name: KeyName,
    /// When the key was made.
    pub created: Timestamp,
    /// The roles of the key.
    pub roles: KeyRoles,
    /// Hash of the token.
    pub(super) hash: blake3::Hash,
}

impl KeyInfo {
    /// Returns the first characters of the token's hash, to tell keys apart.
    pub fn fingerprint(&self) -> String {
        self.hash.to_hex().chars().take(12).collect()
    }
}

/// The key file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFileContent {
    version: u32,
    #[serde(default)]
    key: Vec<KeyFileEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFileEntry {
    name: String,
    created: Instant,
    blake3: String,
    /// Exactly one of them is a rank, unless the file is older than ranks.
    #[serde(default)]
    roles: Vec<String>,
}

/// The directory that keeps the keys of a server.
#[derive(Debug, Clone)]
pub struct KeyDirectory {
    path: PathBuf,
}

impl KeyDirectory {
    /// Uses the keys in this directory. Touches nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the key file.
    pub fn key_file_path(&self) -> PathBuf {
        self.path.join(KEY_FILE)
    }

    /// Returns the path of the first key's secret, for the command line on the same machine.
    pub fn token_file_path(&self) -> PathBuf {
        self.path.join(TOKEN_FILE)
    }

    /// Lists all keys, in the order in which they were made; none if there is no file yet.
    ///
    /// # Errors
    /// The file can be read by others, belongs to somebody else, or is damaged.
    pub fn list_keys(&self) -> Result<Vec<KeyInfo>, KeyError> {
        let path = self.key_file_path();
        match private::read_private_file(&path)? {
            Some((text, _)) => parse_key_file(&path, &text),
            None => Ok(Vec::new()),
        }
    }

    /// Returns true if the file is older than ranks, so that all its keys are administrators
    /// although nobody said so. The next change of the file makes it explicit.
    ///
    /// # Errors
    ///
    /// As for [`KeyDirectory::list_keys`].
    pub fn is_older_than_ranks(&self) -> Result<bool, KeyError> {
        let path = self.key_file_path();
        let read = private::read_private_file(&path)?;
        let written = read
            .map(|(text, _)| parse_key_file_content(&path, &text))
            .transpose()?;
        Ok(written.is_some_and(|written| written.version == VERSION_WITHOUT_RANKS))
    }

    /// Makes a key and returns its secret, which is not kept.
    ///
    /// # Errors
    /// There is a key of that name, or the file cannot be changed.
    pub fn create_key(
        &self,
        name: &KeyName,
        roles: KeyRoles,
        now: Timestamp,
    ) -> Result<SecretToken, KeyError> {
        private::prepare_directory(&self.path)?;
        let _held = private::lock_private_file(&self.path.join(LOCK_FILE))?;
        let mut keys = self.list_keys()?;
        if keys.iter().any(|key| key.name == *name) {
            return Err(KeyError::Exists(name.to_string()));
        }
        if keys.len() >= MAX_KEYS {
            return Err(KeyError::TooMany(MAX_KEYS));
        }
        let token = SecretToken::random()?;
        keys.push(KeyInfo {
            name: name.clone(),
            created: now,
            roles,
            hash: token.hash(),
        });
        self.write_keys(&keys)?;
        Ok(token)
    }

    /// Gives a key a role, or removes it; a new rank replaces the old one. Running servers notice
    /// it when they next read the file. Returns the roles afterwards. It is no error to give a role
    /// that the key has, or to remove one that it lacks.
    ///
    /// # Errors
    ///
    /// There is no such key, a rank is to be removed, or the file cannot be changed.
    pub fn set_role(&self, name: &KeyName, role: Role, given: bool) -> Result<KeyRoles, KeyError> {
        private::check_directory(&self.path)?;
        let _held = private::lock_private_file(&self.path.join(LOCK_FILE))?;
        let mut keys = self.list_keys()?;
        let Some(key) = keys.iter_mut().find(|key| key.name == *name) else {
            return Err(KeyError::Unknown(name.to_string()));
        };
        if given {
            key.roles.grant(role);
        } else {
            key.roles.revoke(role)?;
        }
        let roles = key.roles.clone();
        self.write_keys(&keys)?;
        Ok(roles)
    }

    /// Removes a key. Running servers refuse it once they have read the file again.
    ///
    /// # Errors
    ///
    /// There is no such key, or it is the last one.
    pub fn remove_key(&self, name: &KeyName) -> Result<(), KeyError> {
        private::check_directory(&self.path)?;
        let _held = private::lock_private_file(&self.path.join(LOCK_FILE))?;
        let mut keys = self.list_keys()?;
        let Some(at) = keys.iter().position(|key| key.name == *name) else {
            return Err(KeyError::Unknown(name.to_string()));
        };
        if keys.len() == 1 {
            return Err(KeyError::Last(name.to_string()));
        }
        let removed = keys.remove(at);
        self.write_keys(&keys)?;
        // The secret that the command line finds by itself would be useless from now on.
        if self
            .local_token()?
            .is_some_and(|token| token.hash() == removed.hash)
        {
            private::remove_private_file(&self.token_file_path())?;
        }
        Ok(())
    }

    /// Makes the first key and puts its secret beside the key file, unless there are keys. Returns
    /// true if it made the key.
    ///
    /// # Errors
    ///
    /// The directory or file cannot be made, or others can read or change it.
    pub fn ensure_first_key(&self, now: Timestamp) -> Result<bool, KeyError> {
        private::prepare_directory(&self.path)?;
        let _held = private::lock_private_file(&self.path.join(LOCK_FILE))?;
        let keys = self.list_keys()?;
        if !keys.is_empty() {
            return Ok(false);
        }
        // The secret comes first: after a crash in between, the next start makes both again.
        let token = SecretToken::random()?;
        private::write_private_file(&self.token_file_path(), &format!("{}\n", token.secret()))?;
        let name = KeyName::new(FIRST_KEY).map_err(|error| KeyError::Unknown(error.to_string()))?;
        // Administrator, because whoever can read the secret can change the key file as well.
        let roles = KeyRoles::of([Role::Administrator])?;
        self.write_keys(&[KeyInfo {
            name,
            created: now,
            roles,
            hash: token.hash(),
        }])?;
        Ok(true)
    }

    /// Returns the secret of the first key, if it is still there: the command line on the same
    /// machine uses it. Root finds it also if the server has an account of its own.
    ///
    /// # Errors
    ///
    /// The file can be read by others, or belongs to somebody else.
    pub fn local_token(&self) -> Result<Option<SecretToken>, KeyError> {
        let path = self.token_file_path();
        let owner = match private::own_account() {
            0 => std::fs::metadata(&self.path).map_or(0, |found| found.uid()),
            us => us,
        };
        let Some((text, _)) = private::read_file_of_account(&path, owner)? else {
            return Ok(None);
        };
        match SecretToken::from_text(&text) {
            Some(token) => Ok(Some(token)),
            None => Err(KeyError::Damaged {
                path,
                problem: "it holds no token".into(),
            }),
        }
    }

    fn write_keys(&self, keys: &[KeyInfo]) -> Result<(), KeyError> {
        let path = self.key_file_path();
        let key = keys.iter().map(|key| KeyFileEntry {
            name: key.name.to_string(),
            created: Instant(key.created),
            blake3: key.hash.to_hex().to_string(),
            roles: key.roles.iter().map(|role| role.to_string()).collect(),
        });
        let text = toml::to_string(&KeyFileContent {
            version: VERSION,
            key: key.collect(),
        })
        .map_err(|error| KeyError::Damaged {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        private::write_private_file(&path, &format!("{HEADER}{text}"))
    }
}

fn parse_key_file_content(path: &Path, text: &str) -> Result<KeyFileContent, KeyError> {
    let written: KeyFileContent =
        toml::from_str(text).map_err(|error| report_damage(path, error.to_string()))?;
    match written.version {
        VERSION_WITHOUT_RANKS | VERSION => Ok(written),
        version => Err(report_damage(
            path,
            format!(
                "it has version {version}, and this server knows {VERSION_WITHOUT_RANKS} and \
             {VERSION}; use a newer server"
            ),
        )),
    }
}

/// Parses the text of a key file.
pub(super) fn parse_key_file(path: &Path, text: &str) -> Result<Vec<KeyInfo>, KeyError> {
    let written = parse_key_file_content(path, text)?;
    let mut names = BTreeSet::new();
    let keys = written.key.into_iter().map(|key| {
        let name =
            KeyName::new(&key.name).map_err(|error| report_damage(path, error.to_string()))?;
        if !names.insert(name.clone()) {
            return Err(report_damage(
                path,
                format!("it has the key {name:?} twice"),
            ));
        }
        let hash = blake3::Hash::from_hex(&key.blake3)
            .map_err(|error| report_damage(path, format!("the hash of key {name:?}: {error}")))?;
        let roles = parse_roles(&key.roles, written.version)
            .map_err(|problem| report_damage(path, format!("key {name:?}: {problem}")))?;
        Ok(KeyInfo {
            name,
            created: key.created.0,
            roles,
            hash,
        })
    });
    keys.collect()
}

fn report_damage(path: &Path, problem: String) -> KeyError {
    KeyError::Damaged {
        path: path.into(),
        problem,
    }
}

fn parse_roles(named: &[String], version: u32) -> Result<KeyRoles, String> {
    let named = named
        .iter()
        .map(|role| role.parse::<Role>())
        .collect::<Result<Vec<_>, _>>()?;
    if version == VERSION_WITHOUT_RANKS {
        return Ok(KeyRoles::before_ranks(named));
    }
    if !named.iter().any(|role| role.is_rank()) {
        return Err("it has no rank".to_owned());
    }
    KeyRoles::of(named).map_err(|error| error.to_string())
}
