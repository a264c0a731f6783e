//! Text from outside: cleaned for a record, or matched with the word that was meant.

use std::sync::Arc;

/// Most bytes that are kept of a text from outside; the rest is cut off.
pub const MAX_BYTES: usize = 512;

/// Returns the text with control characters as spaces, trimmed, and cut at [`MAX_BYTES`]. So a
/// record stays small and on one line, whatever a site sends.
pub fn clean_text(text: &Arc<str>) -> Arc<str> {
    if text.len() <= MAX_BYTES && !text.contains(char::is_control) && text.trim() == &**text {
        return text.clone();
    }
    let spaced: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let spaced = spaced.trim();
    if spaced.len() <= MAX_BYTES {
        return spaced.into();
    }
    let mark = "...";
    let end = (0..=MAX_BYTES - mark.len())
        .rev()
        .find(|&end| spaced.is_char_boundary(end));
    format!("{}{mark}", &spaced[..end.unwrap_or(0)]).into()
}

/// Returns the text, cut off after this many characters if it is longer.
pub fn shorten_text(text: &Arc<str>, most: usize) -> Arc<str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]).into(),
        None => text.clone(),
    }
}

/// Returns true if a character acts on a terminal, is invisible, or changes the form of others.
/// Joiners are among them: a name can be read without them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the known word that a wrong one was probably meant to be.
pub fn nearest_word(wrong: &str, known: &[String]) -> Option<String> {
    let wrong = wrong.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&wrong, &word.replace('-', "_")),
                word,
            )
        })
        .filter(|(distance, word)| {
            (*distance <= 1 + word.len() / 4 && *distance < wrong.len().max(word.len()))
                || (wrong.len() > 3 && wrong.starts_with(word.as_str()))
        })
        .min()
        .map(|(_, word)| word.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_site_said_becomes_one_line() {
        assert_eq!(
            &*clean_text(&"sbatch: error\nno such\tpartition\n".into()),
            "sbatch: error no such partition"
        );
    }

    #[test]
    fn a_text_that_is_fit_is_shared_not_copied() {
        let text: Arc<str> = "disk full".into();
        assert!(Arc::ptr_eq(&text, &clean_text(&text)));
    }

    #[test]
    fn a_long_text_begins_with_its_first_word_too() {
        let text: Arc<str> = format!("\u{1}{}", "a".repeat(600)).into();
        assert_eq!(
            *clean_text(&text),
            format!("{}...", "a".repeat(MAX_BYTES - 3))
        );
    }

    proptest! {
        #[test]
        fn any_text_becomes_short_and_plain(text in any::<String>(), times in 1_usize..40) {
            let kept_once = clean_text(&text.repeat(times).into());
            prop_assert!(kept_once.len() <= MAX_BYTES);
            prop_assert!(!kept_once.contains(char::is_control));
        }
    }
}
