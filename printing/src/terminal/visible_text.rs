//! The spelling of text that makes all of it visible.

use std::borrow::Cow;
use std::fmt::Write;

use cospan_domain::text::is_hidden;

/// The treatment of our own sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StyleTreatment {
    /// They become the sequences that terminals understand.
    Kept,
    /// They stay sealed: the text is printed later.
    Sealed,
    Dropped,
}

/// The treatment of ends of lines and of tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhitespaceTreatment {
    Kept,
    Spelt,
}

/// Writes a text so that all of it is visible; our own sequences begin with `seal`.
pub(super) fn write_visible(
    to: &mut String,
    text: &str,
    seal: &str,
    how: (StyleTreatment, WhitespaceTreatment),
) {
    let mut rest = text;
    while let Some(at) = rest.find(is_hidden) {
        let (before, from) = rest.split_at(at);
        to.push_str(before);
        if let Some(order) = from.strip_prefix(seal) {
            let end = order
                .find(|c: char| ('@'..='~').contains(&c))
                .map_or(order.len(), |at| at + 1);
            let (order, behind) = order.split_at(end);
            match how.0 {
                StyleTreatment::Kept => to.extend(["\x1b[", order]),
                StyleTreatment::Sealed => to.extend([seal, order]),
                StyleTreatment::Dropped => {}
            }
            rest = behind;
            continue;
        }
        let mut chars = from.chars();
        match chars.next() {
            Some(kept @ ('\n' | '\t')) if how.1 == WhitespaceTreatment::Kept => to.push(kept),
            Some(hidden) => write_escape(to, hidden),
            None => {}
        }
        rest = chars.as_str();
    }
    to.push_str(rest);
}

fn write_escape(to: &mut String, hidden: char) {
    match hidden {
        '\n' | '\t' | '\r' => to.extend(hidden.escape_default()),
        other => to.extend(other.escape_unicode()),
    }
}

/// Writes bytes that are no text.
pub(super) fn write_bytes(to: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing into a text cannot fail.
        let _ = write!(to, "\\x{byte:02x}");
    }
}

/// Removes our own sequences from data.
pub(super) fn without_sealed<'a>(bytes: &'a [u8], seal: &[u8]) -> Cow<'a, [u8]> {
    let Some(mut at) = bytes
        .contains(&seal[0])
        .then(|| find_seal(bytes, seal))
        .flatten()
    else {
        return Cow::Borrowed(bytes);
    };
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    loop {
        kept.extend_from_slice(&rest[..at]);
        let order = &rest[at + seal.len()..];
        let end = order.iter().position(|byte| (b'@'..=b'~').contains(byte));
        rest = end.map_or(&[], |end| &order[end + 1..]);
        match find_seal(rest, seal) {
            Some(found) => at = found,
            None => break,
        }
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

fn find_seal(bytes: &[u8], seal: &[u8]) -> Option<usize> {
    bytes.windows(seal.len()).position(|part| part == seal)
}

/// Writes a text on one line, with all of it visible.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    replace_characters(text, is_hidden, write_escape)
}

/// A JSON document with equal texts that hide nothing.
pub fn visible_json(document: &str) -> Cow<'_, str> {
    // Below a blank there is only layout: texts have it escaped already.
    replace_characters(document, is_hidden_in_document, |to, hidden| {
        for unit in hidden.encode_utf16(&mut [0; 2]) {
            let _ = write!(to, "\\u{unit:04x}");
        }
    })
}

/// Does the same for YAML that is written as JSON is: its texts are in double quotes.
pub fn visible_yaml(document: &str) -> Cow<'_, str> {
    replace_characters(document, is_hidden_in_document, |to, hidden| {
        let _ = match u32::from(hidden) {
            code @ ..=0xffff => write!(to, "\\u{code:04x}"),
            code => write!(to, "\\U{code:08x}"),
        };
    })
}

pub(super) fn is_hidden_in_document(c: char) -> bool {
    is_hidden(c) && c != '\n'
}

fn replace_characters(
    text: &str,
    which: impl Fn(char) -> bool,
    mut replace: impl FnMut(&mut String, char),
) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    let mut to = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if which(c) {
            replace(&mut to, c)
        } else {
            to.push(c)
        }
    }
    Cow::Owned(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{7f}\u{9b}\u{202e}\u{200b}\u{2028}\u{e0041}\"\\\n\u{1b}b";

    #[test]
    fn a_document_hides_nothing_and_says_the_same() {
        let exact = serde_json::json!({ "name": HOSTILE, HOSTILE: 1 });
        let text = serde_json::to_string_pretty(&exact).unwrap();
        let spelt = visible_json(&text);
        assert!(!spelt.contains(is_hidden_in_document), "{spelt:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&spelt).unwrap(),
            exact
        );
        let spelt = visible_yaml(&text);
        assert!(!spelt.contains(is_hidden_in_document), "{spelt:?}");
        assert_eq!(
            serde_saphyr::from_str::<serde_json::Value>(&spelt).unwrap(),
            exact
        );
    }

    #[test]
    fn what_hides_nothing_is_not_copied() {
        assert!(matches!(
            visible_json("{\n  \"a\": \"é\"\n}"),
            Cow::Borrowed(_)
        ));
        assert!(matches!(on_one_line("laplace"), Cow::Borrowed(_)));
        assert_eq!(on_one_line("a\nb"), "a\\nb");
    }
}
