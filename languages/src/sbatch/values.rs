//! Values of options, parsed as `sbatch` parses them.

use cospan_domain::units::Bytes;
pub(super) use cospan_sites::slurm_site::parse_time;

use cospan_api::v1::runner::{ReceiverName, SignalName};

/// Mebibytes, or with a unit: `4G`, `512M`, `1T`. 0 for all that there is.
pub(super) fn parse_memory(text: &str) -> Option<Bytes> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "K" | "KB" => 10,
        "" | "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return None,
    };
    parse_whole(digits)?.checked_mul(1 << shift).map(Bytes)
}

/// A count of at least one.
pub(super) fn parse_count(text: &str) -> Option<u32> {
    parse_number(text).filter(|count| *count > 0)
}

/// A count, or 0.
fn parse_number(text: &str) -> Option<u32> {
    parse_whole(text).and_then(|count| u32::try_from(count).ok())
}

/// The fewest and the most nodes of `2` or `2-4`.
pub(super) fn parse_nodes(text: &str) -> Option<(u32, u32)> {
    let (fewest, most) = text.split_once('-').unwrap_or((text, text));
    let fewest = parse_count(fewest)?;
    let most = parse_count(most)?;
    (fewest <= most).then_some((fewest, most))
}

/// A number of graphics processors, and their kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GpuDemand {
    pub(super) count: u32,
    pub(super) kinds: Vec<String>,
}

/// `2`, `a100:2`, `a100:1,v100:1`.
pub(super) fn parse_gpus(text: &str) -> Option<GpuDemand> {
    text.split(',')
        .try_fold(GpuDemand::default(), |mut all, one| {
            let number = match one.rsplit_once(':') {
                Some((kind, number)) => {
                    all.kinds.push(kind.to_owned());
                    number
                }
                None => one,
            };
            all.count = all.count.checked_add(parse_number(number)?)?;
            Some(all)
        })
}

/// Processors among what each task gets: `cpu=4`, `cpu:4,gres/gpu:1`.
pub(super) fn parse_processors_of_tres(text: &str) -> Option<u32> {
    let mut parts = text.split(',');
    parts.find_map(|part| parse_count(part.strip_prefix("cpu")?.strip_prefix(['=', ':'])?))
}

/// Graphics processors among generic resources: `gpu`, `gpu:2`, `gpu:a100`, `gpu:a100:2`,
/// `licence:1`.
pub(super) fn parse_gpus_of_gres(text: &str) -> Option<GpuDemand> {
    text.split(',')
        .try_fold(GpuDemand::default(), |mut all, one| {
            let one = one.trim_start_matches("gres/");
            let parts: Vec<&str> = one.split([':', '=']).collect();
            let number = match parts[..] {
                ["gpu"] => "1",
                ["gpu", number] if parse_whole(number).is_some() => number,
                ["gpu", kind] => {
                    all.kinds.push(kind.to_owned());
                    "1"
                }
                ["gpu", kind, number] => {
                    all.kinds.push(kind.to_owned());
                    number
                }
                ["gpu", ..] | [""] => return None,
                _ => return Some(all),
            };
            all.count = all.count.checked_add(parse_number(number)?)?;
            Some(all)
        })
}

/// A signal, its seconds before the end, and who gets it: `USR1@120`, `B:10`, `TERM`. Without `B:`
/// Slurm sends it to the steps alone, with it to the script alone.
pub(super) fn parse_signal(text: &str) -> Option<(SignalName, u64, ReceiverName)> {
    let (flags, text) = text.rsplit_once(':').unwrap_or(("", text));
    if !["", "B", "R", "BR", "RB"].contains(&flags) {
        return None;
    }
    let to = if flags.contains('B') {
        ReceiverName::Script
    } else {
        ReceiverName::Steps
    };
    let (name, seconds) = match text.split_once('@') {
        Some((name, seconds)) => (name, parse_whole(seconds)?),
        None => (text, 60),
    };
    let name = match name.strip_prefix("SIG").unwrap_or(name) {
        "USR1" | "10" => SignalName::Usr1,
        "USR2" | "12" => SignalName::Usr2,
        "TERM" | "15" => SignalName::Term,
        "INT" | "2" => SignalName::Int,
        "HUP" | "1" => SignalName::Hup,
        _ => return None,
    };
    Some((name, seconds, to))
}

/// The exported names, with their values if given.
pub(super) fn parse_export(text: &str) -> Option<Vec<(String, Option<String>)>> {
    let mut items = Vec::new();
    let mut item = String::new();
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ',') => items.push(std::mem::take(&mut item)),
            _ => item.push(c),
        }
    }
    items.push(item);
    items
        .into_iter()
        .map(|item: String| {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (item, None),
            };
            let mut bytes = name.bytes();
            let begins = bytes
                .next()
                .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
            let is_name = begins && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
            // A variable of another name has no value here, and is left out.
            (is_name || (value.is_none() && !name.is_empty())).then_some((name, value))
        })
        .collect()
}

fn parse_whole(text: &str) -> Option<u64> {
    let is_number =
        !text.is_empty() && text.len() <= 12 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_mebibytes_unless_it_says_otherwise() {
        for (text, bytes) in [
            ("512", 512 << 20),
            ("512M", 512 << 20),
            ("4G", 4 << 30),
            ("4gb", 4 << 30),
            ("1T", 1 << 40),
            ("2048K", 2 << 20),
            ("0", 0),
        ] {
            assert_eq!(parse_memory(text), Some(Bytes(bytes)), "{text}");
        }
        for text in ["", "G", "4X", "-4G", "4.5G", "999999999999T"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }

    #[test]
    fn graphics_processors_are_counted_with_their_kinds() {
        let of = |count, kinds: &[&str]| {
            Some(GpuDemand {
                count,
                kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            })
        };
        assert_eq!(parse_gpus("2"), of(2, &[]));
        assert_eq!(parse_gpus("a100:2,v100:1"), of(3, &["a100", "v100"]));
        assert_eq!(parse_gpus("a100"), None);
        assert_eq!(parse_gpus("0"), of(0, &[]));
        assert_eq!(parse_gpus_of_gres("gpu:0"), of(0, &[]));
        assert_eq!(parse_gpus_of_gres("cpu=4,gres/gpu=2"), of(2, &[]));
        assert_eq!(parse_processors_of_tres("gres/gpu:1,cpu:4"), Some(4));
        assert_eq!(parse_processors_of_tres("gres/gpu:1"), None);
        assert_eq!(parse_gpus_of_gres("gpu"), of(1, &[]));
        assert_eq!(parse_gpus_of_gres("gpu:2,shard:4"), of(2, &[]));
        assert_eq!(parse_gpus_of_gres("gres/gpu:a100"), of(1, &["a100"]));
        assert_eq!(parse_gpus_of_gres("gpu:a100:4"), of(4, &["a100"]));
        assert_eq!(parse_gpus_of_gres("craynetwork:1"), of(0, &[]));
        assert_eq!(parse_gpus_of_gres("gpu:a:b:c"), None);
    }

    #[test]
    fn nodes_are_a_number_or_a_range() {
        assert_eq!(
            (parse_nodes("2"), parse_nodes("2-4")),
            (Some((2, 2)), Some((2, 4)))
        );
        assert_eq!(
            (parse_nodes("4-2"), parse_nodes("0"), parse_nodes("2-")),
            (None, None, None)
        );
    }

    #[test]
    fn a_signal_is_known_by_name_and_number() {
        let steps = ReceiverName::Steps;
        for (text, meant) in [
            ("USR1@120", (SignalName::Usr1, 120, steps)),
            ("R:10@30", (SignalName::Usr1, 30, steps)),
            ("B:SIGTERM", (SignalName::Term, 60, ReceiverName::Script)),
            ("RB:2@9", (SignalName::Int, 9, ReceiverName::Script)),
        ] {
            assert_eq!(parse_signal(text), Some(meant), "{text}");
        }
        for wrong in ["KILL@9", "USR1@", "", "X:USR1"] {
            assert_eq!(parse_signal(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn exported_variables_are_told_apart() {
        let pair = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
        assert_eq!(
            parse_export("ALL,A=1,B='x,y',C").unwrap(),
            [
                pair("ALL", None),
                pair("A", Some("1")),
                pair("B", Some("x,y")),
                pair("C", None)
            ]
        );
        assert_eq!(parse_export("A-B=1"), None);
        assert_eq!(parse_export(""), None);
    }
}
