//! Runs pieces of work that mostly wait, or are many, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does `work` on each piece, several at a time, and passes each outcome to `told` as soon as it is
/// there, one after the other. The pieces are begun in their order.
///
/// # Panics
/// One of them did.
pub fn at_once<Piece: Sync, Outcome>(
    pieces: &[Piece],
    at_once: usize,
    work: impl Fn(&Piece) -> Outcome + Sync,
    told: impl FnMut(&Piece, Outcome) + Send,
) {
    let next = AtomicUsize::new(0);
    let told = Mutex::new(told);
    std::thread::scope(|scope| {
        (0..at_once.max(1)).for_each(|_| {
            drop(scope.spawn(|| {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = work(piece);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    (*told)(piece, outcome);
                }
            }))
        });
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::at_once;

    #[test]
    fn each_piece_is_worked_on_once_and_told_with_what_came_of_it() {
        for workers in [0, 1, 3, 20] {
            let pieces: Vec<u32> = (0..10).collect();
            let mut told = Vec::new();
            at_once(
                &pieces,
                workers,
                |piece| piece * 2,
                |piece, twice| told.push((*piece, twice)),
            );
            let all: BTreeSet<_> = told.iter().copied().collect();
            assert_eq!(
                (told.len(), all),
                (10, (0..10).map(|piece| (piece, piece * 2)).collect())
            );
        }
    }

    #[test]
    fn as_many_pieces_as_asked_for_are_under_way_together() {
        // Would wait for ever with fewer.
        let meet = Barrier::new(3);
        let mut met = 0;
        at_once(&[(); 6], 3, |()| meet.wait(), |(), _| met += 1);
        assert_eq!(met, 6);
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_panic_of_a_piece_is_not_kept_quiet() {
        at_once(&[1, 2], 2, |piece| assert_ne!(*piece, 2), |_, ()| ());
    }
}
