//! Free processors over time to come: a step function.
//!
//! The steps lie in stretches of bounded length. Each knows the most free processors on its steps,
//! so a search skips full stretches, and a change costs no more than the stretches that it touches.

/// Steps in a stretch before it is cut in two.
const STRETCH_MAX: usize = 64;

/// From `at` on, up to the next step, `free` processors are free. Below zero where more is reserved
/// than there is, after a failure or an overrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProfileStep {
    at: u64,
    free: i64,
}

#[derive(Debug, Clone)]
struct ProfileStretch {
    /// Never empty.
    steps: Vec<ProfileStep>,
    most: i64,
}

impl ProfileStretch {
    fn new(steps: Vec<ProfileStep>) -> Self {
        let mut stretch = Self { steps, most: 0 };
        stretch.update_most();
        stretch
    }

    fn update_most(&mut self) {
        self.most = self
            .steps
            .iter()
            .map(|step| step.free)
            .max()
            .unwrap_or(i64::MIN);
    }
}

/// The opening to look for: `processors` free from some instant in `from..before` on, for `length`
/// or up to `until`, whichever is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedOpening {
    pub(super) processors: i64,
    pub(super) length: u64,
    pub(super) from: u64,
    pub(super) before: u64,
    pub(super) until: u64,
}

/// Free processors as a function of time; instants are in ms.
#[derive(Debug, Clone)]
pub(super) struct FreeProcessorProfile {
    stretches: Vec<ProfileStretch>,
}

impl FreeProcessorProfile {
    /// Makes a profile with `free` processors from `at` on, for ever.
    pub(super) fn new(at: u64, free: i64) -> Self {
        Self {
            stretches: vec![ProfileStretch::new(vec![ProfileStep { at, free }])],
        }
    }

    /// Adds `change` from `from` to before `to`; `u64::MAX` means for ever.
    pub(super) fn add_change(&mut self, from: u64, to: u64, change: i64) {
        let from = from.max(self.stretches[0].steps[0].at);
        if from >= to {
            return;
        }
        self.cut_at(from);
        if to < u64::MAX {
            self.cut_at(to);
        }
        let first = self.stretch_index(from);
        for stretch in &mut self.stretches[first..] {
            if stretch.steps[0].at >= to {
                break;
            }
            for step in &mut stretch.steps {
                if step.at >= from && step.at < to {
                    step.free += change;
                }
            }
            stretch.update_most();
        }
        self.join_at(to);
        self.join_at(from);
    }

    /// Returns the least and most free processors between `from` and `to`.
    pub(super) fn free_range(&self, from: u64, to: u64) -> (i64, i64) {
        let mut least = i64::MAX;
        let mut most = i64::MIN;
        let first = self.stretch_index(from);
        let start = self.stretches[first]
            .steps
            .partition_point(|step| step.at <= from);
        let here = self.stretches[first].steps[start.saturating_sub(1)..].iter();
        let later = self.stretches[first + 1..]
            .iter()
            .flat_map(|stretch| &stretch.steps);
        for step in here.chain(later) {
            if step.at >= to {
                break;
            }
            least = least.min(step.free);
            most = most.max(step.free);
        }
        (least, most)
    }

    /// Returns the earliest opening, if there is one.
    pub(super) fn earliest_opening(&self, wanted: &WantedOpening) -> Option<u64> {
        let mut found: Option<u64> = None;
        let first = self.stretch_index(wanted.from);
        let mut start = self.stretches[first]
            .steps
            .partition_point(|step| step.at <= wanted.from)
            .saturating_sub(1);
        if wanted.from >= wanted.before {
            return None;
        }
        for stretch in &self.stretches[first..] {
            let skip = found.is_none() && stretch.most < wanted.processors;
            let steps = if skip { &[] } else { &stretch.steps[start..] };
            start = 0;
            for step in steps {
                if let Some(at) = found {
                    if step.at >= at.saturating_add(wanted.length).min(wanted.until) {
                        return found;
                    }
                    if step.free < wanted.processors {
                        found = None;
                    }
                } else if step.at >= wanted.before {
                    return None;
                } else if step.free >= wanted.processors {
                    found = Some(step.at.max(wanted.from));
                }
            }
        }
        found
    }

    /// Forgets everything before `now`.
    pub(super) fn advance_to(&mut self, now: u64) {
        let gone = self.stretch_index(now);
        self.stretches.drain(..gone);
        let stretch = &mut self.stretches[0];
        let passed = stretch
            .steps
            .partition_point(|step| step.at <= now)
            .saturating_sub(1);
        if passed > 0 {
            stretch.steps.drain(..passed);
            stretch.update_most();
        }
    }

    /// Returns the index of the stretch that holds `at`; the first if `at` is before all.
    fn stretch_index(&self, at: u64) -> usize {
        self.stretches
            .partition_point(|stretch| stretch.steps[0].at <= at)
            .saturating_sub(1)
    }

    /// Makes `at` the start of a step.
    fn cut_at(&mut self, at: u64) {
        let index = self.stretch_index(at);
        let steps = &mut self.stretches[index].steps;
        let Err(place) = steps.binary_search_by_key(&at, |step| step.at) else {
            return;
        };
        let free = steps[place.saturating_sub(1)].free;
        steps.insert(place, ProfileStep { at, free });
        if steps.len() > STRETCH_MAX {
            let rest = steps.split_off(STRETCH_MAX / 2);
            self.stretches[index].update_most();
            self.stretches.insert(index + 1, ProfileStretch::new(rest));
        }
    }

    /// Drops the step at `at` if nothing changes there.
    fn join_at(&mut self, at: u64) {
        let index = self.stretch_index(at);
        let steps = &self.stretches[index].steps;
        let Ok(place) = steps.binary_search_by_key(&at, |step| step.at) else {
            return;
        };
        let before = match (place, index) {
            (0, 0) => return,
            (0, _) => self.stretches[index - 1].steps.last(),
            _ => steps.get(place - 1),
        };
        if before.map(|step| step.free) != Some(steps[place].free) {
            return;
        }
        let stretch = &mut self.stretches[index];
        stretch.steps.remove(place);
        if stretch.steps.is_empty() {
            self.stretches.remove(index);
        } else {
            stretch.update_most();
        }
    }
}
