//! What a key may do beyond what every key may.

use std::fmt;
use std::str::FromStr;

/// A right that a key is given by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Injecting faults at sites on purpose.
    Chaos,
    /// Asking for any class of placement queue, whatever the rules of the configuration.
    Priority,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 2] = [Role::Chaos, Role::Priority];

    /// Its name in the key file and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Chaos => "chaos",
            Role::Priority => "priority",
        }
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
        let known = || Role::ALL.map(Role::as_str).join(", ");
        found.ok_or_else(|| format!("there is no role {text:?}; there are: {}", known()))
    }
}
