//! The turns of the queues: the weighted cycle of scans, and its use for freed capacity.

use super::queue_parameters::QueueParameters;
use crate::job::spec::Priority;

/// The cycle's pointer, and what each queue has left of its turn.
///
/// Scans by the clock take one turn each (KOALA, section 4.4). Freed capacity is given out by
/// deficit round robin over the same cycle. A turn is worth `turn_processors`, and a queue keeps
/// its turn until that is used up. A queue that can use nothing now is passed over without gaining
/// credit. What it overdraws it pays back from its next turns. The pointer lives across events, so
/// that small pieces of capacity are shared by weight as one large piece would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTurns {
    position: u64,
    credit: [i64; 4],
}

impl QueueTurns {
    /// Starts at the beginning of a cycle.
    pub fn new(parameters: &QueueParameters) -> Self {
        let mut turns = Self {
            position: 0,
            credit: [0; 4],
        };
        turns.begin_turn(parameters);
        turns
    }

    /// Returns the queue that has its turn.
    pub fn current_class(&self, parameters: &QueueParameters) -> Priority {
        parameters.class_at(self.position)
    }

    /// Takes one turn of the cycle for the first queue with a job to try; an empty queue takes no
    /// turn (vector QS-5).
    pub fn take_turn_of_occupied(
        &mut self,
        parameters: &QueueParameters,
        occupied: impl Fn(Priority) -> bool,
    ) -> Option<Priority> {
        let class = self
            .upcoming_order(parameters)
            .into_iter()
            .find(|&class| occupied(class))?;
        self.move_to(parameters, class);
        self.advance_position(parameters);
        Some(class)
    }

    /// Returns the queues in the order in which their next turns come.
    pub fn upcoming_order(&self, parameters: &QueueParameters) -> [Priority; 4] {
        let mut order = Priority::ALL;
        order.sort_by_key(|&class| self.turns_until(parameters, class));
        order
    }

    /// Returns true if a queue's turn, now or when it comes, leaves it anything to spend.
    pub fn has_credit(&self, parameters: &QueueParameters, class: Priority) -> bool {
        let credit = self.credit[class as usize];
        if self.current_class(parameters) == class {
            credit > 0
        } else {
            credit.min(0) + i64::from(parameters.turn_processors) > 0
        }
    }

    /// Charges a queue for a job that was placed. If the queue had nothing to spend, no other could
    /// use the capacity, and its debt is forgiven.
    pub fn charge_placed(
        &mut self,
        parameters: &QueueParameters,
        class: Priority,
        processors: u64,
    ) {
        if !self.has_credit(parameters, class) {
            self.credit[class as usize] = i64::from(parameters.turn_processors);
        }
        self.move_to(parameters, class);
        let cost = i64::try_from(processors).unwrap_or(i64::MAX);
        let credit = &mut self.credit[class as usize];
        *credit = credit.saturating_sub(cost);
        while self.credit[self.current_class(parameters) as usize] <= 0 {
            self.advance_position(parameters);
        }
    }

    /// Moves to the next turn of this queue. The queues in between are passed over: their turns
    /// gain them nothing, but pay back what they overdrew.
    fn move_to(&mut self, parameters: &QueueParameters, class: Priority) {
        if self.current_class(parameters) == class {
            return;
        }
        while self.current_class(parameters) != class {
            let turns = parameters.turn_count_at(self.position);
            let credit = &mut self.credit[self.current_class(parameters) as usize];
            if *credit < 0 {
                let paid = i64::from(parameters.turn_processors) * turns as i64;
                *credit = credit.saturating_add(paid).min(0);
            }
            self.position = (self.position + turns) % parameters.cycle_length();
        }
        self.begin_turn(parameters);
    }

    fn advance_position(&mut self, parameters: &QueueParameters) {
        self.position = (self.position + 1) % parameters.cycle_length();
        self.begin_turn(parameters);
    }

    /// Drops what was not spent of the last turn; debts remain.
    fn begin_turn(&mut self, parameters: &QueueParameters) {
        let credit = &mut self.credit[self.current_class(parameters) as usize];
        *credit = (*credit).min(0) + i64::from(parameters.turn_processors);
    }

    /// Returns the number of turns until one of this queue; a cycle has one of each.
    fn turns_until(&self, parameters: &QueueParameters, class: Priority) -> u64 {
        let mut ahead = 0;
        while ahead < parameters.cycle_length() {
            if parameters.class_at(self.position + ahead) == class {
                return ahead;
            }
            ahead += parameters.turn_count_at(self.position + ahead);
        }
        0
    }
}
