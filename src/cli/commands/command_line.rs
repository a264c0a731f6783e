//! Command lines of components, as a shell would read them.

use cospan_api::v1::document::{ComponentDocument, ExecutableDocument};

/// Most characters of a command line: a script that is an argument would fill the screen.
const SHOWN: usize = 200;

/// Formats the program of a component with its arguments.
pub(super) fn format_command(component: &ComponentDocument) -> String {
    let program = match &component.executable {
        ExecutableDocument::AtSite(path) => path.to_string(),
        ExecutableDocument::Staged(file) => file
            .file
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    };
    let mut line = quote_word(&program);
    for argument in &component.arguments {
        line.push(' ');
        line.push_str(&quote_word(argument));
    }
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

/// Quotes a word for a shell, if it needs that.
fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        for (word, quoted) in [
            ("/bin/sh", "/bin/sh"),
            ("--steps=100", "--steps=100"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(quote_word(word), quoted);
        }
    }
}
