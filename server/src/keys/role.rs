//! The roles of keys.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::KeyError;

/// A role of a key. The first four are ranks: each may do everything that those before it may. The
/// others stand beside them and are given by name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads, and changes nothing.
    Reader,
    /// Submits jobs and registers files, and steers its own jobs.
    User,
    /// Steers sites.
    Operator,
    /// Accesses the jobs and files of every key, and the store.
    Administrator,
    /// Injects faults at sites on purpose.
    Chaos,
    /// Asks for any priority, whatever the rules of the configuration.
    Priority,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 6] = [
        Role::Reader,
        Role::User,
        Role::Operator,
        Role::Administrator,
        Role::Chaos,
        Role::Priority,
    ];

    /// Returns the name in the key file and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::User => "user",
            Role::Operator => "operator",
            Role::Administrator => "administrator",
            Role::Chaos => "chaos",
            Role::Priority => "priority",
        }
    }

    /// Returns true if this is a rank: every key has exactly one.
    pub fn is_rank(self) -> bool {
        self <= Role::Administrator
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| {
            let known = Role::ALL.map(Role::as_str).join(", ");
            format!("there is no role {text:?}; there are: {known}")
        })
    }
}

/// All roles of one key: one rank, and any roles beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRoles {
    rank: Role,
    beside: BTreeSet<Role>,
}

impl Default for KeyRoles {
    /// Returns the roles of a key without any named role.
    fn default() -> Self {
        Self {
            rank: Role::User,
            beside: BTreeSet::new(),
        }
    }
}

impl KeyRoles {
    /// Returns the roles of a key with these named roles; the default rank if no rank is named.
    ///
    /// # Errors
    ///
    /// Two ranks are named.
    pub fn of(named: impl IntoIterator<Item = Role>) -> Result<Self, KeyError> {
        let (ranks, beside): (BTreeSet<_>, BTreeSet<_>) =
            named.into_iter().partition(|role| role.is_rank());
        let mut ranks = ranks.into_iter();
        match (ranks.next(), ranks.next()) {
            (Some(one), Some(other)) => Err(KeyError::TwoRanks(one, other)),
            (rank, _) => Ok(Self {
                rank: rank.unwrap_or(Role::User),
                beside,
            }),
        }
    }

    /// Returns the roles of a key that was made before there were ranks, when every key could do
    /// everything.
    pub(super) fn before_ranks(beside: impl IntoIterator<Item = Role>) -> Self {
        let beside = beside.into_iter().filter(|role| !role.is_rank()).collect();
        Self {
            rank: Role::Administrator,
            beside,
        }
    }

    /// Returns true if a key with these roles may do what needs this role.
    pub fn has_role(&self, role: Role) -> bool {
        if role.is_rank() {
            self.rank >= role
        } else {
            self.beside.contains(&role)
        }
    }

    /// Adds this role; a rank replaces the previous one.
    pub(super) fn grant(&mut self, role: Role) {
        if role.is_rank() {
            self.rank = role;
        } else {
            self.beside.insert(role);
        }
    }

    /// Removes this role.
    ///
    /// # Errors
    ///
    /// The role is a rank: every key has one.
    pub(super) fn revoke(&mut self, role: Role) -> Result<(), KeyError> {
        if role.is_rank() {
            return Err(KeyError::Rank(role));
        }
        self.beside.remove(&role);
        Ok(())
    }

    /// Iterates over the rank, then the other roles by name.
    pub fn iter(&self) -> impl Iterator<Item = Role> {
        std::iter::once(self.rank).chain(self.beside.iter().copied())
    }
}

impl fmt::Display for KeyRoles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Role::as_str).collect();
        f.write_str(&names.join(", "))
    }
}
