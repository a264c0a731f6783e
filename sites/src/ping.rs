//! Running `ping`, and reading what it prints, for adapters that run it at their site.

use cospan_domain::units::DurationUs;

/// The longest round trip that counts, in ms.
const LONGEST_MS: f64 = 3_600_000.0;

/// Returns the ordinary command line without the host: three messages, a second apart, and an end
/// after ten seconds whatever happens.
pub fn ping_command() -> Vec<String> {
    ["ping", "-n", "-q", "-c", "3", "-w", "10"]
        .map(str::to_owned)
        .into()
}

/// Reads the shortest round trip of a summary: `rtt min/avg/max/mdev = 0.022/0.031/0.040/0.007 ms`
/// of iputils, `round-trip min/avg/max = ...` of busybox, inetutils and BSD. `None` if there is no
/// such line: nothing came back, or it is another program.
pub fn parse_shortest_round_trip(output: &str) -> Option<DurationUs> {
    output.lines().find_map(|line| {
        let (what, times) = line.split_once('=')?;
        let (kind, columns) = what.trim().split_once(' ')?;
        let is_summary = matches!(kind, "rtt" | "round-trip") && columns.starts_with("min/avg/max");
        // What iputils adds behind a comma is no time.
        let times = times.split(',').next()?.trim();
        let times = times.strip_suffix("ms").filter(|_| is_summary)?;
        let ms: f64 = times.split('/').next()?.trim().parse().ok()?;
        (0.0..=LONGEST_MS)
            .contains(&ms)
            .then(|| DurationUs((ms * 1_000.0).round() as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn microseconds_of(line: &str) -> Option<u64> {
        let before = "PING fs0 (10.141.0.1) 56(84) bytes of data.\n\n--- fs0 ping statistics ---\n";
        parse_shortest_round_trip(&format!(
            "{before}3 packets transmitted, 3 received\n{line}\n"
        ))
        .map(|us| us.0)
    }

    #[test]
    fn the_shortest_round_trip_of_each_kind_of_summary_is_read() {
        assert_eq!(
            microseconds_of("rtt min/avg/max/mdev = 0.022/0.031/0.040/0.007 ms"),
            Some(22)
        );
        assert_eq!(
            microseconds_of("rtt min/avg/max/mdev = 98.4/99/100.1/0.5 ms, pipe 2"),
            Some(98_400)
        );
        assert_eq!(
            microseconds_of("round-trip min/avg/max = 11.320/11.5/12.01 ms"),
            Some(11_320)
        );
        assert_eq!(
            microseconds_of("round-trip min/avg/max/stddev = 0.035/0.035/0.035/0.000 ms"),
            Some(35)
        );
    }

    #[test]
    fn what_says_nothing_of_a_round_trip_is_no_measurement() {
        for line in [
            "",
            "3 packets transmitted, 0 received, 100% packet loss, time 2043ms",
            "rtt min/avg/max/mdev = 0.022/0.031/0.040/0.007 s",
            "rtt min/avg/max/mdev = -1/0/0/0 ms",
            "rtt min/avg/max/mdev = inf/inf/inf/inf ms",
            "rtt min/avg/max/mdev = NaN/0/0/0 ms",
            "rtt min/avg/max/mdev = ms",
            "rtt max/avg/min = 3/2/1 ms",
            "best = 3/2/1 ms",
        ] {
            assert_eq!(microseconds_of(line), None, "{line}");
        }
    }
}
