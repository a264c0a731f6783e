#!/usr/bin/env bash
# actix 0.13.5 (crates.io): the bound of a mailbox.
#
# One would expect: an actor with a mailbox for 16 messages takes 16 by try_send and refuses the next, so
# that a busy server pushes back; whether callers hold one address or clones of it does not matter.
# What it does: every clone of an address may put in one message more, full or not, and so may every
# clone of a Recipient. A handler that clones the address for each request (as a web framework's
# shared state invites to) is never refused: the mailbox has no bound at all.
#
# Seen, accepted of 1000 messages into a mailbox for 16, while nothing is handled:
#   one address          16
#   a clone of it for each, address or recipient: 1000
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
struct Request;
struct Intake;
impl Actor for Intake {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) { ctx.set_mailbox_capacity(16); }
}
impl Handler<Request> for Intake {
    type Result = ();
    fn handle(&mut self, _: Request, _: &mut Self::Context) {}
}
async fn accepted(by: impl Fn(&Addr<Intake>) -> Box<dyn Fn() -> bool>) -> usize {
    let intake = Intake.start();
    clock::sleep(Duration::from_millis(20)).await;
    let offer = by(&intake);
    (0..1000).filter(|_| offer()).count()
}
fn main() {
    System::new().block_on(async {
        let one = accepted(|addr| { let a = addr.clone(); Box::new(move || a.try_send(Request).is_ok()) }).await;
        println!("one address: {one}");
        let clones = accepted(|addr| { let a = addr.clone(); Box::new(move || a.clone().try_send(Request).is_ok()) }).await;
        println!("a clone of it for each: {clones}");
        let clones = accepted(|addr| { let r = addr.clone().recipient(); Box::new(move || r.clone().try_send(Request).is_ok()) }).await;
        println!("a clone of a recipient for each: {clones}");
    });
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='one address: 16
a clone of it for each: 1000
a clone of a recipient for each: 1000'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
