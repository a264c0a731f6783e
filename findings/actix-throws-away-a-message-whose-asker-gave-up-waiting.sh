#!/usr/bin/env bash
# actix 0.13.5 (crates.io): a message whose sender no longer waits for the answer.
#
# One would expect: addr.send(message) has put the message into the mailbox, and it is handled in its
# turn, whether or not somebody still waits for the answer: a time-out around it limits the
# waiting, not the work.
# What it does: when the message's turn comes and the future of send() has been dropped, the message
# is thrown away unseen. The time-out of a busy time so undoes the order; but if the handler has
# begun, it does not. So "timed out" means either, and send() without await does nothing
# at all. do_send is always handled.
#
# Seen, while the actor rests for a second: what it handled
#   told by do_send only; not the one that timed out after 50 ms, nor the one dropped at once
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'actix = { version = "=0.13.5", default-features = false, features = ["macros"] }' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use actix::{clock, prelude::*};
use std::time::Duration;
#[derive(Message)]
#[rtype(result = "()")]
struct Order(&'static str);
struct Site;
impl Actor for Site { type Context = Context<Self>; }
impl Handler<Order> for Site {
    type Result = ();
    fn handle(&mut self, order: Order, ctx: &mut Self::Context) {
        println!("handled: {}", order.0);
        if order.0 == "rest" { ctx.wait(clock::sleep(Duration::from_millis(1000)).into_actor(self)); }
    }
}
fn main() {
    System::new().block_on(async {
        let site = Site.start();
        site.do_send(Order("rest"));
        let asked = clock::timeout(Duration::from_millis(50), site.send(Order("asked with a time-out"))).await;
        println!("timed out: {}", asked.is_err());
        drop(site.send(Order("asked, answer not wanted")));
        site.do_send(Order("told"));
        clock::sleep(Duration::from_millis(1500)).await;
        println!("asked again: {:?}", site.send(Order("asked and waited for")).await);
    });
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='handled: rest
timed out: true
handled: told
handled: asked and waited for
asked again: Ok(())'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
