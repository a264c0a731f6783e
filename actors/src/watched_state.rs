//! A state that one actor changes and everybody reads.

use std::sync::{Arc, Mutex, PoisonError};

/// The latest state. A reader keeps the state that it loaded. While there is no reader, the state
/// is changed in place, which spares a copy of every node on the way to each change.
#[derive(Debug)]
pub struct PublishedState<T>(Mutex<Arc<T>>);

impl<T: Clone> PublishedState<T> {
    /// Begins with this state.
    pub fn new(state: T) -> Self {
        Self(Mutex::new(Arc::new(state)))
    }

    /// The state as it is now, whole: never in the middle of a change.
    pub fn load(&self) -> Arc<T> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the state. Readers wait meanwhile: `by` must be short, and must not call
    /// [`PublishedState::load`].
    pub(crate) fn change_with<R>(&self, by: impl FnOnce(&mut T) -> R) -> R {
        by(Arc::make_mut(
            &mut self.0.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_state_sees_no_later_change() {
        let published = PublishedState::new(vec![1]);
        let held = published.load();
        published.change_with(|state| state.push(2));
        assert_eq!(*held, [1]);
        assert_eq!(*published.load(), [1, 2]);
    }

    #[test]
    fn what_nobody_holds_is_changed_where_it_is() {
        let published = PublishedState::new(vec![1]);
        let before = Arc::as_ptr(&published.load());
        published.change_with(|state| state.push(2));
        assert_eq!(Arc::as_ptr(&published.load()), before);
    }
}
