//! Plants bugs one after the other and tells which oracle finds each.
#![allow(clippy::print_stdout, reason = "an example for people")]

#[cfg(cospan_chaos)]
fn main() {
    use cospan_chaos_tests::laboratory::chaos::campaign::{Size, hunt};
    use cospan_domain::planted::Bug;
    use cospan_domain::units::DurationMs;
    let size = Size { jobs: 60, sites: 3, length: DurationMs::from_secs(6 * 3_600) };
    let only = std::env::args().nth(1).unwrap_or_default();
    let most = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(200);
    for bug in Bug::ALL.into_iter().filter(|bug| format!("{bug:?}").contains(&only)) {
        let begun = std::time::Instant::now();
        match hunt(bug, 1, most, size) {
            Some(found) => println!(
                "{bug:?} {} {}",
                found.seeds,
                found.said.chars().take(110).collect::<String>()
            ),
            None => println!("{bug:?} NOT FOUND in {most}"),
        }
        println!("   {:.1} s", begun.elapsed().as_secs_f64());
    }
}

#[cfg(not(cospan_chaos))]
fn main() {
    println!("needs a build with planted bugs: RUSTFLAGS=\"--cfg cospan_chaos\"");
}
