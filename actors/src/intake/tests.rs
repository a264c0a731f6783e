//! What clients meet while the intake is behind.

use cospan_domain::ids::JobId;
use futures_util::FutureExt;

use crate::api::ControlPlane;
use crate::api::command::{ApiCommand, ApiRefusal, Ask};
use crate::transfer::testing::{World, key, paused};

#[test]
fn an_intake_that_is_behind_turns_away_what_is_beyond_its_bound() {
    paused(|| async {
        let world = World::complete(&["Delft"]);
        world.settle().await;
        let plane = ControlPlane::new(world.shared.clone());
        let bound = world.shared.settings.intake_bound;
        // It has no turn in between.
        let answers = (0..bound + 10).map(|_| {
            let cancel = ApiCommand { by: key(), what: Ask::Cancel(vec![JobId(1)]) };
            plane.command(cancel).now_or_never()
        });
        let (turned_away, waiting): (Vec<_>, Vec<_>) = answers.partition(Option::is_some);
        assert_eq!(waiting.len(), bound);
        for answer in turned_away.into_iter().flatten() {
            assert!(matches!(answer, Err(ApiRefusal::Busy { .. })), "{answer:?}");
        }
    });
}
