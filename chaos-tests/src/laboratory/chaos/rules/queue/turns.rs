//! Whose turn it is among the placement queues: the cycle is walked turn by turn.

use cospan_domain::job::spec::Priority;
use cospan_domain::queue::{QueueParameters, Turns};
use rand::Rng;
use rand::rngs::StdRng;

/// Jobs placed or scans made in one case.
const STEPS: usize = 24;

/// The cycle, turn by turn, and what each queue may spend.
pub(super) struct Cycle {
    pub(super) turns: Vec<Priority>,
    pub(super) at: usize,
    credit: [i64; 4],
    worth: i64,
}

impl Cycle {
    pub(super) fn new(queue: &QueueParameters) -> Self {
        let round = |first: Priority, scans: u32, second: Priority, more: u32| {
            let firsts = std::iter::repeat_n(first, scans as usize);
            firsts.chain(std::iter::repeat_n(second, more as usize)).collect::<Vec<_>>()
        };
        let high = round(Priority::SuperHigh, queue.n1, Priority::High, queue.n2);
        let low = round(Priority::Low, queue.n3, Priority::SuperLow, queue.n4);
        let turns = [high.repeat(queue.n_h as usize), low.repeat(queue.n_l as usize)].concat();
        let mut cycle = Self { turns, at: 0, credit: [0; 4], worth: queue.turn_processors.into() };
        cycle.begin();
        cycle
    }

    pub(super) fn now(&self) -> Priority {
        self.turns[self.at]
    }

    fn begin(&mut self) {
        let credit = &mut self.credit[self.now() as usize];
        *credit = (*credit).min(0) + self.worth;
    }

    fn next(&mut self) {
        self.at = (self.at + 1) % self.turns.len();
    }

    /// Turns that are passed over gain nothing, but pay back what was overdrawn.
    fn go_to(&mut self, class: Priority) {
        if self.now() == class {
            return;
        }
        while self.now() != class {
            let credit = &mut self.credit[self.now() as usize];
            if *credit < 0 {
                *credit = (*credit + self.worth).min(0);
            }
            self.next();
        }
        self.begin();
    }

    pub(super) fn has_credit(&self, class: Priority) -> bool {
        let credit = self.credit[class as usize];
        if self.now() == class { credit > 0 } else { credit.min(0) + self.worth > 0 }
    }

    pub(super) fn place(&mut self, class: Priority, processors: u64) {
        if !self.has_credit(class) {
            self.credit[class as usize] = self.worth;
        }
        self.go_to(class);
        self.credit[class as usize] -= i64::try_from(processors).unwrap_or(i64::MAX);
        while self.credit[self.now() as usize] <= 0 {
            self.next();
            self.begin();
        }
    }

    /// Scans by the clock: the first queue in turn that has anybody.
    pub(super) fn take(&mut self, occupied: [bool; 4]) -> Option<Priority> {
        let count = self.turns.len();
        let ahead = (0..count).map(|ahead| self.turns[(self.at + ahead) % count]);
        let class = ahead.into_iter().find(|class| occupied[*class as usize])?;
        self.go_to(class);
        self.next();
        self.begin();
        Some(class)
    }
}

pub(super) fn wrong(chance: &mut StdRng) -> Vec<String> {
    let mut weight = || chance.random_range(1..=3);
    let [n1, n2, n3, n4] = std::array::from_fn(|_| weight());
    let (n_h, n_l) = (weight(), weight());
    let turn_processors = [1, 4, 16][chance.random_range(0..3)];
    let queue =
        QueueParameters { n_h, n_l, n1, n2, n3, n4, turn_processors, ..QueueParameters::default() };
    let (mut turns, mut cycle) = (Turns::new(&queue), Cycle::new(&queue));
    for step in 0..STEPS {
        let class = Priority::ALL[chance.random_range(0..4)];
        let agree = if chance.random_bool(0.7) {
            let processors = chance.random_range(1..=24);
            turns.placed(&queue, class, processors);
            cycle.place(class, processors);
            true
        } else {
            let occupied: [bool; 4] = std::array::from_fn(|_| chance.random_bool(0.5));
            let taken = turns.take(&queue, |class| occupied[class as usize]);
            taken == cycle.take(occupied)
        };
        let credits = Priority::ALL.map(|class| turns.has_credit(&queue, class));
        let expected = Priority::ALL.map(|class| cycle.has_credit(class));
        if !agree || turns.current(&queue) != cycle.now() || credits != expected {
            return vec![format!("whose turn it is after {step} steps with {queue:?}: {turns:?}")];
        }
    }
    Vec::new()
}
