//! Converts shares to whole numbers of jobs.

/// Divides `jobs` in proportion to `shares`, with at least one job each, which requires no fewer
/// jobs than shares. The excess that these ones cause is taken from the others, again in
/// proportion.
pub(super) fn apportion_jobs(jobs: u64, shares: &[f64]) -> Vec<u64> {
    let mut counts: Vec<u64> = apportion_by_remainder(jobs, shares)
        .into_iter()
        .map(|count| count.max(1))
        .collect();
    let excess = counts.iter().sum::<u64>().saturating_sub(jobs);
    let spare: Vec<f64> = counts.iter().map(|count| (count - 1) as f64).collect();
    for (count, cut) in counts
        .iter_mut()
        .zip(apportion_by_remainder(excess, &spare))
    {
        *count = count.saturating_sub(cut).max(1);
    }
    counts
}

/// Assigns whole parts first; the rest goes to the largest fractions, one each.
fn apportion_by_remainder(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    if total == 0 || sum <= 0.0 {
        return vec![0; weights.len()];
    }
    let exact: Vec<f64> = weights
        .iter()
        .map(|weight| total as f64 * weight / sum)
        .collect();
    let mut parts: Vec<u64> = exact.iter().map(|part| part.floor() as u64).collect();
    let missing = total.saturating_sub(parts.iter().sum());
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    for place in order.into_iter().zip(0..missing).map(|(place, _)| place) {
        parts[place] += 1;
    }
    parts
}
