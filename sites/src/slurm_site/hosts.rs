//! Lists of hosts as Slurm writes them: `n[01-03,7],login`.

use std::collections::BTreeSet;

/// The most hosts that a list may have.
const HOSTS_MAX: usize = 1 << 17;

/// Parses a list of hosts; `None` if it is none, or longer than any.
pub(super) fn parse_host_list(list: &str) -> Option<BTreeSet<String>> {
    let mut hosts = BTreeSet::new();
    if matches!(list, "" | "(null)" | "None assigned") {
        return Some(hosts);
    }
    for word in split_list(list)? {
        expand_host_word(String::new(), word, &mut hosts)?;
    }
    Some(hosts)
}

/// Splits a list at the commas that are in no brackets.
fn split_list(list: &str) -> Option<Vec<&str>> {
    let mut words = Vec::new();
    let mut begin = 0;
    let mut is_inside = false;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if !is_inside => is_inside = true,
            b']' if is_inside => is_inside = false,
            b'[' | b']' => return None,
            b',' if !is_inside => {
                words.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    words.push(&list[begin..]);
    let is_whole = !is_inside && words.iter().all(|word| !word.is_empty());
    is_whole.then_some(words)
}

/// Adds the hosts that a word stands for, with `before` in front.
fn expand_host_word(before: String, word: &str, hosts: &mut BTreeSet<String>) -> Option<()> {
    let Some((head, rest)) = word.split_once('[') else {
        hosts.insert(before + word);
        return (hosts.len() <= HOSTS_MAX).then_some(());
    };
    let (ranges, tail) = rest.split_once(']')?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if !is_number(first) || !is_number(last) {
            return None;
        }
        let from: usize = first.parse().ok()?;
        let to: usize = last.parse().ok()?;
        if to.checked_sub(from)? >= HOSTS_MAX {
            return None;
        }
        let width = first.len();
        for number in from..=to {
            expand_host_word(format!("{before}{head}{number:0width$}"), tail, hosts)?;
        }
    }
    Some(())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted_hosts(text: &str) -> Option<Vec<String>> {
        parse_host_list(text).map(|hosts| hosts.into_iter().collect())
    }

    #[test]
    fn ranges_in_brackets_are_hosts_each() {
        assert_eq!(sorted_hosts("gamma0").unwrap(), ["gamma0"]);
        assert_eq!(
            sorted_hosts("n[08-10,2],login").unwrap(),
            ["login", "n08", "n09", "n10", "n2"]
        );
        assert_eq!(
            sorted_hosts("r[1-2]n[1,3]").unwrap(),
            ["r1n1", "r1n3", "r2n1", "r2n3"]
        );
        assert_eq!(sorted_hosts("(null)").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_no_list_is_none() {
        for odd in [
            "n[1-",
            "n[]",
            "n[3-1]",
            "n[a-b]",
            "n]1[",
            "a,,b",
            "n[[1]]",
            "n[0-99999999999]",
        ] {
            assert_eq!(sorted_hosts(odd), None, "{odd}");
        }
        assert_eq!(sorted_hosts("n[0-99999]m[0-99999]"), None, "too many");
    }
}
