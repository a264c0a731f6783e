#!/usr/bin/env bash
# actix 0.13.5 (crates.io): ctx.notify and ctx.run_later of a busy actor.
#
# One would expect: ctx.notify(message) queues a message for the actor itself, behind those that wait
# now and before those that come later; a timer that is due gets its turn between two messages.
# What it does: what an actor sends itself by notify, and its timers, are looked at only when the
# mailbox is empty. A message sent by somebody else afterwards is handled before it, and as
# long as messages come in as fast as they are handled, neither a notify nor a time-out of the
# actor's own ever has its turn. ctx.address().do_send(message) does queue in order.
#
# Seen, for 500 queued messages of which the first notifies its own actor and sets a timer of 1 ms:
#   do_send to itself comes after 500 messages, in order
#   a message sent by the last but one, long after the notify, comes before it
#   notify and the timer come last, though the timer was due after a few messages
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
enum Note { Work, ByNotify, ByDoSend, Late }
#[derive(Default)]
struct Busy { worked: u32 }
impl Actor for Busy { type Context = Context<Self>; }
impl Handler<Note> for Busy {
    type Result = ();
    fn handle(&mut self, note: Note, ctx: &mut Self::Context) {
        match note {
            Note::Work => {
                self.worked += 1;
                if self.worked == 1 {
                    ctx.notify(Note::ByNotify);
                    ctx.run_later(Duration::from_millis(1), |me, _| println!("timer after {}", me.worked));
                    ctx.address().do_send(Note::ByDoSend);
                }
                // Fifty milliseconds of work, in which the timer is long due.
                std::thread::sleep(Duration::from_micros(100));
                if self.worked == 499 { ctx.address().do_send(Note::Late); }
            }
            Note::ByNotify => println!("notify after {}", self.worked),
            Note::ByDoSend => println!("do_send after {}", self.worked),
            Note::Late => println!("sent much later, after {}", self.worked),
        }
    }
}
fn main() {
    System::new().block_on(async {
        let busy = Busy::default().start();
        for _ in 0..500 { busy.do_send(Note::Work); }
        clock::sleep(Duration::from_millis(500)).await;
    });
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='do_send after 500
sent much later, after 500
notify after 500
timer after 500'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
