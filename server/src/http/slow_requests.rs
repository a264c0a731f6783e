//! Bounds on requests that take long to compute, in all and by key. The work is done apart from the
//! threads that serve requests. A key waits for itself, nobody else for it; and work that has begun
//! keeps its place until it is done, whether or not the client still waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cospan_domain::ids::KeyName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::failure::HttpFailure;
use cospan_api::v1::problem::{Code, Problem};

/// Requests of one key that wait or are worked on; further ones are answered to come back later.
const PLACES: usize = 16;

/// The line of one key: one of its requests is worked on at a time.
#[derive(Debug, Clone)]
struct KeySemaphores {
    places: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

/// The desk: the lines of all keys, and the seats for work that they share.
#[derive(Debug)]
pub(super) struct SlowRequestLimiter {
    lines: Mutex<BTreeMap<KeyName, KeySemaphores>>,
    seats: Arc<Semaphore>,
}

/// A place in the line of a key.
#[derive(Debug)]
struct QueuedRequestPermit {
    place: OwnedSemaphorePermit,
    turn: Arc<Semaphore>,
}

impl QueuedRequestPermit {
    async fn wait_for_turn(self) -> Result<SlowRequestPermit, HttpFailure> {
        // Nobody closes the semaphore.
        let turn = self.turn.acquire_owned().await;
        let turn = turn.map_err(|error| HttpFailure::internal("wait for a turn", error))?;
        Ok(SlowRequestPermit {
            _place: self.place,
            _turn: turn,
        })
    }
}

/// The turn of a key. The next begins when it is dropped.
#[derive(Debug)]
struct SlowRequestPermit {
    _place: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
}

/// Does the work on its own thread, which keeps `holds` until the work is done.
async fn run_on_thread<T: Send + 'static>(
    holds: impl Send + 'static,
    work: impl FnOnce() -> Result<T, HttpFailure> + Send + 'static,
) -> Result<T, HttpFailure> {
    let done = actix_web::rt::task::spawn_blocking(move || {
        let done = work();
        drop(holds);
        done
    });
    done.await
        .map_err(|error| HttpFailure::internal("work out the answer", error))?
}

impl SlowRequestLimiter {
    /// A desk with seats for half of the processors, and for two keys at least.
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        Self {
            lines: Mutex::default(),
            seats: Arc::new(Semaphore::new((processors / 2).max(2))),
        }
    }

    /// Does the work once it is the key's turn.
    ///
    /// # Errors
    /// The line of the key is full.
    pub(super) async fn run_in_key_turn<T: Send + 'static>(
        &self,
        key: &KeyName,
        work: impl FnOnce() -> Result<T, HttpFailure> + Send + 'static,
    ) -> Result<T, HttpFailure> {
        let turn = self.take_queue_permit(key)?.wait_for_turn().await?;
        self.run_in_turn(turn, work).await
    }

    /// Does work that needs answers of sites. While the sites are asked, the key has one place
    /// less, and its turn goes to another of its requests.
    ///
    /// # Errors
    /// As for [`SlowRequestLimiter::run_in_key_turn`].
    pub(super) async fn run_after_sites<A: Send + 'static, T: Send + 'static>(
        &self,
        key: &KeyName,
        said: impl Future<Output = A> + 'static,
        work: impl FnOnce(A) -> Result<T, HttpFailure> + Send + 'static,
    ) -> Result<T, HttpFailure> {
        let place = self.take_queue_permit(key)?;
        let asked = actix_web::rt::spawn(async move { (said.await, place) });
        let (said, place) = asked
            .await
            .map_err(|error| HttpFailure::internal("ask sites", error))?;
        self.run_in_turn(place.wait_for_turn().await?, move || work(said))
            .await
    }

    async fn run_in_turn<T: Send + 'static>(
        &self,
        turn: SlowRequestPermit,
        work: impl FnOnce() -> Result<T, HttpFailure> + Send + 'static,
    ) -> Result<T, HttpFailure> {
        let seat = self.seats.clone().acquire_owned().await;
        let seat = seat.map_err(|error| HttpFailure::internal("wait for a seat", error))?;
        run_on_thread((turn, seat), work).await
    }

    fn take_queue_permit(&self, key: &KeyName) -> Result<QueuedRequestPermit, HttpFailure> {
        let KeySemaphores { places, turn } = self.key_semaphores(key);
        let place = places
            .try_acquire_owned()
            .map_err(|_| queue_full_failure(key))?;
        Ok(QueuedRequestPermit { place, turn })
    }

    fn key_semaphores(&self, key: &KeyName) -> KeySemaphores {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .entry(key.clone())
            .or_insert_with(|| KeySemaphores {
                places: Arc::new(Semaphore::new(PLACES)),
                turn: Arc::new(Semaphore::new(1)),
            })
            .clone()
    }
}

fn queue_full_failure(key: &KeyName) -> HttpFailure {
    let detail = format!("the key {key} has {PLACES} slow requests under way, the most allowed");
    Problem::new(Code::Busy, detail).with_retry_after(1).into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn key(name: &str) -> KeyName {
        KeyName::new(name).unwrap()
    }

    async fn turn(
        desk: &SlowRequestLimiter,
        key: &KeyName,
    ) -> Result<SlowRequestPermit, HttpFailure> {
        desk.take_queue_permit(key)?.wait_for_turn().await
    }

    #[actix_web::test]
    async fn a_key_waits_for_itself_and_not_for_others() {
        let desk = SlowRequestLimiter::new();
        let begun = turn(&desk, &key("anna")).await.unwrap();
        assert!(turn(&desk, &key("anna")).now_or_never().is_none());
        assert!(turn(&desk, &key("otto")).now_or_never().is_some());
        drop(begun);
        assert!(turn(&desk, &key("anna")).now_or_never().is_some());
    }

    #[actix_web::test]
    async fn who_fills_the_line_of_a_key_is_told_to_come_back_and_others_are_served() {
        let desk = SlowRequestLimiter::new();
        let anna = key("anna");
        let _begun = turn(&desk, &anna).await.unwrap();
        let mut waiting: Vec<_> = (1..PLACES).map(|_| Box::pin(turn(&desk, &anna))).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        let refused = turn(&desk, &key("anna")).await.unwrap_err();
        assert_eq!((refused.0.status, refused.0.retry_after_s), (429, Some(1)));
        assert!(turn(&desk, &key("otto")).await.is_ok());
        waiting.pop();
        assert!(
            turn(&desk, &key("anna")).now_or_never().is_none(),
            "it waits in its place"
        );
    }

    #[actix_web::test]
    async fn what_nobody_waits_for_any_more_keeps_its_place_until_it_is_done() {
        let desk = SlowRequestLimiter::new();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let anna = key("anna");
        let mut given_up = Box::pin(desk.run_in_key_turn(&anna, move || Ok(gate.recv().is_ok())));
        assert!(given_up.as_mut().now_or_never().is_none());
        drop(given_up);
        assert!(turn(&desk, &anna).now_or_never().is_none(), "it goes on");
        go.send(()).unwrap();
        let next = desk.run_in_key_turn(&anna, || Ok(()));
        tokio::time::timeout(Duration::from_secs(60), next)
            .await
            .unwrap()
            .unwrap();
    }

    #[actix_web::test]
    async fn who_waits_for_sites_keeps_a_place_and_nobody_waiting() {
        let desk = SlowRequestLimiter::new();
        let anna = key("anna");
        let (say, said) = tokio::sync::oneshot::channel::<()>();
        let mut asks = Box::pin(desk.run_after_sites(&anna, said, |said| Ok(said.is_ok())));
        assert!(asks.as_mut().now_or_never().is_none());
        let others = desk.run_in_key_turn(&anna, || Ok(()));
        tokio::time::timeout(Duration::from_secs(60), others)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            desk.key_semaphores(&anna).places.available_permits(),
            PLACES - 1
        );
        say.send(()).unwrap();
        assert!(
            tokio::time::timeout(Duration::from_secs(60), asks)
                .await
                .unwrap()
                .unwrap()
        );
        assert_eq!(
            desk.key_semaphores(&anna).places.available_permits(),
            PLACES
        );
    }
}
