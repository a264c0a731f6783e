#!/usr/bin/env bash
# actix 0.13.5 (crates.io): ctx.wait beside timers of the same actor.
#
# One would expect: ctx.wait(future) holds back the mailbox until the future is done, so that no other
# message comes between; what was set by run_interval and run_later is no message and goes on, so
# that a lease is still kept alive during a slow call.
# What it does: it holds back everything of the actor, its timers and spawned futures as well. A
# keep-alive every 100 ms is not sent once during a wait of a second, and then all that
# were missed run one after another, within a millisecond or so.
#
# Seen:
#   keep-alives half-way through a wait of a second: 0
#   just after it: ten or so, in a burst
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'actix = { version = "=0.13.5", default-features = false, features = ["macros"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use actix::{clock, prelude::*};
use std::{cell::Cell, rc::Rc, time::Duration};
#[derive(Clone, Default)]
struct Holder { kept_alive: Rc<Cell<u32>> }
impl Actor for Holder {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(Duration::from_millis(100), |me, _| me.kept_alive.set(me.kept_alive.get() + 1));
        ctx.wait(clock::sleep(Duration::from_millis(1000)).into_actor(self));
    }
}
fn main() {
    System::new().block_on(async {
        let holder = Holder::default();
        let _addr = holder.clone().start();
        clock::sleep(Duration::from_millis(500)).await;
        println!("during the wait: {}", holder.kept_alive.get());
        clock::sleep(Duration::from_millis(550)).await;
        println!("a burst after it: {}", holder.kept_alive.get() >= 8);
    });
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='during the wait: 0
a burst after it: true'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
