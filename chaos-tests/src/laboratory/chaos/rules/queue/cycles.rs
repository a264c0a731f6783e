//! The cycle of the placement queues, written down turn by turn, and which of its settings make
//! sense together.

use cospan_domain::job::spec::Priority;
use cospan_domain::queue::{
    HoardParameters, ParameterError, ParameterWarning, QueueParameters, Turns,
};
use cospan_domain::units::{DurationMs, PerMillion};
use rand::Rng;
use rand::rngs::StdRng;

/// Most rounds or scans of one kind, as the reference has it.
const MOST: u32 = 1_000;

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(walked(chance));
    found.extend(comes_again(chance));
    found.extend(checked(chance));
    found.extend(usual());
    found
}

fn weights(chance: &mut StdRng, most: u32) -> QueueParameters {
    let mut weight = || chance.random_range(1..=most);
    let [n1, n2, n3, n4, n_h, n_l] = std::array::from_fn(|_| weight());
    QueueParameters { n1, n2, n3, n4, n_h, n_l, ..QueueParameters::default() }
}

/// Each turn of a cycle: whose it is, and the number of its run within its round.
fn cycle(queue: &QueueParameters) -> Vec<(Priority, u32)> {
    let (mut turns, mut run) = (Vec::new(), 0);
    let high = [(Priority::SuperHigh, queue.n1), (Priority::High, queue.n2)];
    let low = [(Priority::Low, queue.n3), (Priority::SuperLow, queue.n4)];
    for (rounds, scans) in [(queue.n_h, high), (queue.n_l, low)] {
        for (class, count) in (0..rounds).flat_map(|_| scans) {
            turns.extend((0..count).map(|_| (class, run)));
            run += 1;
        }
    }
    turns
}

fn walked(chance: &mut StdRng) -> Option<String> {
    let queue = weights(chance, 4);
    let turns = cycle(&queue);
    let length = queue.cycle_length();
    if length != turns.len() as u64 {
        return Some(format!("a cycle of {queue:?} has {length} scans, not {}", turns.len()));
    }
    for position in 0..2 * turns.len() {
        let at = position % turns.len();
        let (class, run) = turns[at];
        let left = turns[at..].iter().take_while(|(_, other)| *other == run).count() as u64;
        let is = (queue.class_at(position as u64), queue.run_at(position as u64));
        if is != (class, left) {
            return Some(format!("{is:?} at {position}, not {class} for {left}: {queue:?}"));
        }
    }
    let mut pointer = Turns::new(&queue);
    let mut at = 0;
    for _ in 0..4 {
        let ahead = |class: &Priority| {
            (0..turns.len()).find(|ahead| turns[(at + ahead) % turns.len()].0 == *class)
        };
        let mut order = Priority::ALL;
        order.sort_by_key(ahead);
        let is = pointer.order(&queue);
        if is != order {
            return Some(format!("{is:?} come next at {at}, not {order:?}: {queue:?}"));
        }
        let class = Priority::ALL[chance.random_range(0..4)];
        let skipped = ahead(&class)?;
        let taken = pointer.take(&queue, |other| other == class);
        if taken != Some(class) || pointer.take(&queue, |_| false).is_some() {
            return Some(format!("{class} alone waits, and {taken:?} has its turn"));
        }
        at = (at + skipped + 1) % turns.len();
    }
    None
}

/// After a cycle everything is as it was, whoever waits.
fn comes_again(chance: &mut StdRng) -> Option<String> {
    let queue = weights(chance, 3);
    let [one, other] = [0, 1].map(|_| Priority::ALL[chance.random_range(0..4)]);
    let (alone, by_clock) = (chance.random_bool(0.5), chance.random_bool(0.5));
    let waits = |class: Priority| !alone || class == one;
    let count = cycle(&queue).into_iter().filter(|(class, _)| waits(*class)).count();
    let mut turns = Turns::new(&queue);
    let mut once = || {
        if by_clock {
            (0..count).for_each(|_| _ = turns.take(&queue, waits));
        }
        for _ in (0..queue.n_h * queue.n_l).filter(|_| !by_clock && one != other) {
            turns.placed(&queue, one, 1);
            turns.placed(&queue, other, 1);
        }
        turns.clone()
    };
    let (_, first, second) = (once(), once(), once());
    (first != second).then(|| format!("a cycle leads from {first:?} to {second:?}: {queue:?}"))
}

/// Settings at and just outside their bounds: the first that is wrong is told.
fn checked(chance: &mut StdRng) -> Option<String> {
    let mut queue = weights(chance, 3);
    let odd = [0, 1, MOST, MOST + 1][chance.random_range(0..4)];
    match chance.random_range(0..12) {
        0 => queue.n_h = odd,
        1 => queue.n_l = odd,
        2 => queue.n1 = odd,
        3 => queue.n2 = odd,
        4 => queue.n3 = odd,
        5 => queue.n4 = odd,
        6 => queue.scan_interval = DurationMs(u64::from(odd)),
        7 => queue.promote_after = Some(odd),
        8 => queue.turn_processors = odd,
        _ => {}
    }
    let (told, expected) = (queue.validate(), judge(&queue));
    let right = match (&told, &expected) {
        (Err(told), Err(expected)) => is_error(told, expected),
        (Ok(told), Ok(expected)) => {
            told.len() == expected.len() && told.iter().zip(expected).all(|(t, e)| is_warning(t, e))
        }
        _ => false,
    };
    (!right).then(|| format!("{queue:?} is judged {told:?}, not {expected:?}"))
}

/// A setting, its value, and a word of what is said of it.
type Remark = (&'static str, String, String);

fn is_error(told: &ParameterError, (setting, given, word): &Remark) -> bool {
    let text = told.to_string();
    told.setting == *setting
        && told.given == *given
        && told.rule.contains(word.as_str())
        && [*setting, given, &told.rule].iter().all(|part| text.contains(*part))
}

fn is_warning(told: &ParameterWarning, (setting, given, word): &Remark) -> bool {
    let text = told.to_string();
    told.setting == *setting
        && told.given == *given
        && told.remark.contains(word.as_str())
        && [*setting, given, &told.remark].iter().all(|part| text.contains(*part))
}

fn judge(queue: &QueueParameters) -> Result<Vec<Remark>, Remark> {
    let names = ["n_h", "n_l", "n1", "n2", "n3", "n4"];
    let values = [queue.n_h, queue.n_l, queue.n1, queue.n2, queue.n3, queue.n4];
    for (name, value) in names.into_iter().zip(values) {
        if value == 0 || value > MOST {
            return Err((name, value.to_string(), MOST.to_string()));
        }
    }
    if queue.n_l > queue.n_h {
        return Err(("n_h", queue.n_h.to_string(), format!("n_l ({})", queue.n_l)));
    }
    if queue.scan_interval.0 == 0 {
        return Err(("scan_interval", "0s".into(), "above 0".into()));
    }
    if queue.promote_after == Some(0) {
        return Err(("promote_after", "0".into(), "at least 1".into()));
    }
    if queue.turn_processors == 0 {
        return Err(("turn_processors", "0".into(), "at least 1".into()));
    }
    let mut odd = Vec::new();
    if queue.n2 > queue.n1 {
        odd.push(("n2", queue.n2.to_string(), format!("super-high ({})", queue.n1)));
    }
    if queue.n4 > queue.n3 {
        odd.push(("n4", queue.n4.to_string(), format!("low ({})", queue.n3)));
    }
    Ok(odd)
}

/// What the reference says holds where nothing is set.
fn usual() -> Option<String> {
    let hoard = HoardParameters {
        after: Some(DurationMs(600_000)),
        share: PerMillion(500_000),
        time: DurationMs(1_800_000),
    };
    let is = QueueParameters::default();
    let weights = [is.n_h, is.n_l, is.n1, is.n2, is.n3, is.n4];
    let right = weights == [1; 6]
        && is.scan_interval == DurationMs(60_000)
        && is.promote_after.is_none()
        && is.max_placement_tries.is_none()
        && is.events
        && is.hoard == hoard;
    (!right).then(|| format!("without settings {is:?}"))
}
