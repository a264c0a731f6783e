//! Values that most often equal their default.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A type with one shared value that stands for all that equal the default.
pub trait SharedDefault: Default + PartialEq + 'static {
    /// Returns that value, equal to the default.
    fn shared_default() -> &'static Self;
}

/// A value that takes no memory of its own while it equals the default. It is read like the value
/// itself; the first mutable access allocates it.
#[derive(Clone)]
pub struct BoxedUnlessDefault<T>(Option<Box<T>>);

impl<T> Default for BoxedUnlessDefault<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: SharedDefault> From<T> for BoxedUnlessDefault<T> {
    fn from(value: T) -> Self {
        Self((value != *T::shared_default()).then(|| Box::new(value)))
    }
}

impl<T: SharedDefault> Deref for BoxedUnlessDefault<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::shared_default())
    }
}

impl<T: SharedDefault> DerefMut for BoxedUnlessDefault<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: SharedDefault> PartialEq for BoxedUnlessDefault<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: SharedDefault + Eq> Eq for BoxedUnlessDefault<T> {}

impl<T: SharedDefault + fmt::Debug> fmt::Debug for BoxedUnlessDefault<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::job_state::JobInstants;
    use crate::units::Timestamp;

    #[test]
    fn what_is_as_by_default_takes_no_room_and_equals_what_does() {
        let mut instants = BoxedUnlessDefault::from(JobInstants::default());
        assert!(instants.0.is_none());
        instants.placed = Some(Timestamp(1));
        assert_eq!(instants.placed, Some(Timestamp(1)));
        assert_ne!(instants, BoxedUnlessDefault::default());
        instants.placed = None;
        assert!(instants.0.is_some());
        assert_eq!(instants, BoxedUnlessDefault::default());
    }

    #[test]
    fn what_stands_for_the_default_is_the_default() {
        assert_eq!(*JobInstants::shared_default(), JobInstants::default());
        let usual = crate::runner::RunOptions::shared_default();
        assert_eq!(*usual, crate::runner::RunOptions::default());
    }
}
