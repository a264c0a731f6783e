//! Step functions of time, and their reduction to the columns of a picture.

use cospan_domain::units::Timestamp;

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReportSpan {
    /// First instant.
    pub(super) from: Timestamp,
    /// End, not included.
    pub(super) to: Timestamp,
}

impl ReportSpan {
    /// The length in milliseconds; 0 if it ends before it begins.
    pub(super) fn length_ms(self) -> u64 {
        self.to.since(self.from).0
    }

    /// The part that lies in both, perhaps empty.
    pub(super) fn intersection(self, outer: ReportSpan) -> ReportSpan {
        let from = self.from.max(outer.from);
        ReportSpan {
            from,
            to: self.to.min(outer.to).max(from),
        }
    }
}

/// A value that holds from an instant until that of the next step.
pub(super) trait StepValue {
    /// Begin of the step.
    fn at(&self) -> Timestamp;
}

/// The steps with the time for which each holds within `span`; those that do not hold at all are
/// left out. Before the first step there is nothing.
pub(super) fn segments<S: StepValue>(
    steps: &[S],
    span: ReportSpan,
) -> impl Iterator<Item = (ReportSpan, &S)> {
    steps.iter().enumerate().filter_map(move |(index, step)| {
        let to = steps.get(index + 1).map_or(span.to, StepValue::at);
        let held = ReportSpan {
            from: step.at(),
            to,
        }
        .intersection(span);
        (held.length_ms() > 0).then_some((held, step))
    })
}

/// Mean over time of each part of a step function, taken over all of `span`.
pub(super) fn time_means<const N: usize, S: StepValue>(
    steps: &[S],
    span: ReportSpan,
    parts: impl Fn(&S) -> [u32; N],
) -> [f64; N] {
    let mut means = [0.0; N];
    for (held, step) in segments(steps, span) {
        let share = held.length_ms() as f64 / span.length_ms() as f64;
        add_weighted(&mut means, parts(step), share);
    }
    means
}

/// Mean over time in each of `columns` equal columns of `span`. Areas are kept, however many steps
/// fall into a column.
pub(super) fn column_means<const N: usize, S: StepValue>(
    steps: &[S],
    span: ReportSpan,
    columns: usize,
    parts: impl Fn(&S) -> [u32; N],
) -> Vec<[f64; N]> {
    let mut means = vec![[0.0; N]; columns];
    let scale = TimeColumns { span, columns };
    for (held, step) in segments(steps, span) {
        let from = scale.position_of(held.from);
        let to = scale.position_of(held.to);
        let last = (to.ceil() as usize).min(columns);
        for (column, mean) in means.iter_mut().enumerate().take(last).skip(from as usize) {
            let covered = to.min((column + 1) as f64) - from.max(column as f64);
            add_weighted(mean, parts(step), covered.max(0.0));
        }
    }
    means
}

/// The course of a line within one column: enough to draw it as if all its points had been drawn
/// (Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColumnLine {
    /// Index of the column, from 0.
    pub(super) column: usize,
    /// Value on entering the column.
    pub(super) first: u32,
    /// Least value in it.
    pub(super) least: u32,
    /// Greatest value in it.
    pub(super) greatest: u32,
    /// Value on leaving it.
    pub(super) last: u32,
}

/// The line of a step function in those of `columns` equal columns of `span`
/// in which it is defined and its value is new.
pub(super) fn column_lines<S: StepValue>(
    steps: &[S],
    span: ReportSpan,
    columns: usize,
    value: impl Fn(&S) -> u32,
) -> Vec<ColumnLine> {
    let scale = TimeColumns { span, columns };
    let mut lines: Vec<ColumnLine> = Vec::new();
    for (held, step) in segments(steps, span) {
        let column = scale.column_at(held.from);
        let new = value(step);
        match lines.last_mut() {
            Some(line) if line.column == column => {
                line.least = line.least.min(new);
                line.greatest = line.greatest.max(new);
                line.last = new;
            }
            _ => lines.push(ColumnLine {
                column,
                first: new,
                least: new,
                greatest: new,
                last: new,
            }),
        }
    }
    lines
}

/// A span of time cut into equal columns.
struct TimeColumns {
    span: ReportSpan,
    columns: usize,
}

impl TimeColumns {
    /// The column that an instant falls into.
    fn column_at(&self, at: Timestamp) -> usize {
        let offset = u128::from(at.since(self.span.from).0) * self.columns as u128;
        let column = offset / u128::from(self.span.length_ms().max(1));
        usize::try_from(column)
            .unwrap_or(usize::MAX)
            .min(self.columns.saturating_sub(1))
    }

    /// The position of an instant, in columns from the left.
    fn position_of(&self, at: Timestamp) -> f64 {
        let whole = self.span.length_ms().max(1) as f64;
        at.since(self.span.from).0 as f64 / whole * self.columns as f64
    }
}

/// Adds `weight` times `parts` to `sums`.
fn add_weighted<const N: usize>(sums: &mut [f64; N], parts: [u32; N], weight: f64) {
    for (sum, part) in sums.iter_mut().zip(parts) {
        *sum += f64::from(part) * weight;
    }
}
