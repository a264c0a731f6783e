//! The map in characters.

use cospan_simulator::simulate::report::{MapPoint, map_scale};

const WIDTH: usize = 60;
const HEIGHT: usize = 18;

/// Plots sites as letters in the order of `points`, chosen ones in capitals, and the job as `+` at
/// the origin; `*` where several have one position.
pub(super) fn plot_map(points: &[MapPoint]) -> String {
    let end_x = map_scale(points.iter().map(|p| p.x).fold(0.0, f64::max));
    let end_y = map_scale(points.iter().map(|p| p.y).fold(0.0, f64::max));
    let mut grid = vec![vec![' '; WIDTH + 1]; HEIGHT + 1];
    grid[0][0] = '+';
    let mut legend = String::new();
    for (index, point) in points.iter().enumerate() {
        let column = (point.x / end_x * WIDTH as f64).round() as usize;
        let line = (point.y / end_y * HEIGHT as f64).round() as usize;
        let sign = site_sign(index, point.is_chosen);
        let spot = &mut grid[line.min(HEIGHT)][column.min(WIDTH)];
        *spot = if matches!(*spot, ' ' | '+') {
            sign
        } else {
            '*'
        };
        legend.push_str(&format!("  {sign} {}", point.name));
        legend.push_str(if point.is_chosen { " (chosen)" } else { "" });
    }
    let mut text = format!("  y: what the data costs, up to {end_y}\n");
    for line in grid.iter().rev() {
        let line: String = line.iter().collect();
        text.push_str(&format!("  |{}\n", line.trim_end()));
    }
    text.push_str(&format!("  +{}\n", "-".repeat(WIDTH + 1)));
    text.push_str(&format!(
        "   0: the job; x: what the site lacks, up to {end_x}\n\n{legend}\n"
    ));
    text
}

/// Returns one of twenty-six letters, then dots.
fn site_sign(index: usize, is_chosen: bool) -> char {
    let letter = u8::try_from(index)
        .ok()
        .and_then(|index| b'a'.checked_add(index));
    match letter.filter(u8::is_ascii_lowercase) {
        Some(letter) if is_chosen => char::from(letter).to_ascii_uppercase(),
        Some(letter) => char::from(letter),
        None => '.',
    }
}
