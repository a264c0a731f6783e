#!/usr/bin/env bash
# sled 0.34.7 (crates.io): a subscription to changes, read with a time-out.
#
# One would expect: subscriber.next_timeout() gives each change, Timeout while there is none, and
# Disconnected once the tree is gone, as a channel does.
# What it does: one write that changes nothing (a removal of an absent key, an insert of the value
# that is already there) makes it say Disconnected though the tree lives; from then on it says so at
# every call, and never gives another event. A failed compare-and-swap does no such thing. The same
# subscription read as a blocking iterator passes over such writes and gives all the rest. A loop
# that watches leases with a time-out, to look at the clock in between, goes deaf or gives up at
# the first harmless write.
#
# Seen, after one such write and then insert("b"), three calls each:
#   remove absent  Disconnected Disconnected Disconnected
#   same value     Disconnected Disconnected Disconnected
#   failed swap    b Timeout Timeout
#   nothing        b Timeout Timeout
#   iterator over all of these: the four real changes
set -euo pipefail
dir=$(mktemp -d); trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src"
printf '%s\n' '[package]' 'name = "finding"' 'edition = "2021"' '[dependencies]' \
  'sled = "=0.34.7"' > "$dir/Cargo.toml"
cat > "$dir/src/main.rs" <<'R'
use std::time::Duration;
fn main() {
    let db = sled::Config::new().temporary(true).open().unwrap();
    db.insert("a", "1").unwrap();
    let all = db.watch_prefix("");
    let reader = std::thread::spawn(move || {
        let keys = all.map(|event| String::from_utf8_lossy(event.key()).into_owned());
        keys.take_while(|key| key != "end").collect::<Vec<_>>().join(" ")
    });
    let see = |name: &str, write: &dyn Fn()| {
        let mut events = db.watch_prefix("");
        write();
        db.insert("b", name).unwrap();
        let seen: Vec<String> = (0..3).map(|_| match events.next_timeout(Duration::from_millis(100)) {
            Ok(event) => String::from_utf8_lossy(event.key()).into_owned(),
            Err(error) => format!("{error:?}"),
        }).collect();
        println!("{name}: {}", seen.join(" "));
    };
    see("remove absent", &|| { db.remove("absent").unwrap(); });
    see("same value", &|| { db.insert("a", "1").unwrap(); });
    see("failed swap", &|| { db.compare_and_swap("a", Some("9"), Some("2")).unwrap().unwrap_err(); });
    see("nothing", &|| {});
    db.insert("end", "").unwrap();
    println!("iterator: {}", reader.join().unwrap());
}
R
seen=$(CARGO_TARGET_DIR="$dir/target" cargo run -q --manifest-path "$dir/Cargo.toml")
expected='remove absent: Disconnected Disconnected Disconnected
same value: Disconnected Disconnected Disconnected
failed swap: b Timeout Timeout
nothing: b Timeout Timeout
iterator: b b b b'
diff <(echo "$expected") <(echo "$seen") || { echo 'It behaves otherwise now.' >&2; exit 1; }
echo "$seen"
