//! Prints the events: live lines on a terminal, plain lines elsewhere, nothing if only the report
//! is wanted.

use std::io::Write;
use std::time::Instant;

use anstyle::{AnsiColor, Style};

use super::quickstart_error::QuickstartError;
use cospan_printing::terminal::{self, TerminalPrinter};

/// Sequences that make a terminal not wrap lines, and wrap them again.
const NO_WRAP: &str = "?7l";
const WRAP: &str = "?7h";

type NarratorResult = Result<(), QuickstartError>;

/// Prints the story.
pub(super) struct DemoNarrator {
    out: TerminalPrinter<Box<dyn Write + Send>>,
    begin: Instant,
    silent: bool,
    live: bool,
    /// True while a line that may still change is on the screen.
    open: bool,
    /// The last live text; not repeated where lines stay.
    last: String,
    step: u32,
}

impl DemoNarrator {
    /// `silent`: prints nothing.
    pub(super) fn new(silent: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let live = terminal::has_live_output() && !dumb;
        let begin = Instant::now();
        let last = String::new();
        Self {
            out: terminal::stdout(),
            begin,
            silent,
            live,
            open: false,
            last,
            step: 0,
        }
    }

    fn write_text(&mut self, text: &str) -> NarratorResult {
        if self.silent {
            return Ok(());
        }
        self.out.print_text(text).map_err(QuickstartError::Untold)
    }

    /// Leaves the changing line as it is.
    fn close_live(&mut self) -> NarratorResult {
        self.last.clear();
        if std::mem::take(&mut self.open) {
            self.write_text("\n")
        } else {
            Ok(())
        }
    }

    /// Erases the changing line: the event that follows says more.
    fn erase_live(&mut self) -> NarratorResult {
        self.last.clear();
        if std::mem::take(&mut self.open) {
            self.write_text(terminal::clear_line())
        } else {
            Ok(())
        }
    }

    fn write_line(&mut self, text: &str) -> NarratorResult {
        let time = format!("{:>5.1}s", self.begin.elapsed().as_secs_f32());
        self.write_text(&format!("   {}  {text}\n", dim(&time)))
    }

    /// Begins a step, with its purpose.
    pub(super) fn begin_step(&mut self, title: &str, why: &str) -> NarratorResult {
        self.close_live()?;
        self.step += 1;
        let title = terminal::paint(Style::new().bold(), &format!("{}. {title}", self.step));
        self.write_text(&format!("\n{title}\n"))?;
        for line in why.lines() {
            self.write_text(&format!("   {}\n", dim(line)))?;
        }
        Ok(())
    }

    /// Prints an event with the time since the beginning.
    pub(super) fn print_event(&mut self, text: &str) -> NarratorResult {
        self.erase_live()?;
        self.write_line(text)
    }

    /// Prints lines as they are, indented.
    pub(super) fn print_lines(&mut self, text: &str) -> NarratorResult {
        self.close_live()?;
        let indented: String = text
            .lines()
            .map(|line| format!("           {line}\n"))
            .collect();
        self.write_text(&indented)
    }

    /// Prints progress: `exact` changes in place on a terminal; elsewhere `rough` is printed on its
    /// own line whenever it changes.
    pub(super) fn show_progress(&mut self, exact: &str, rough: &str) -> NarratorResult {
        if !self.live {
            if self.last != rough {
                self.write_line(rough)?;
                self.last = rough.to_owned();
            }
            return Ok(());
        }
        if self.last == exact && self.open {
            return Ok(());
        }
        self.last = exact.to_owned();
        self.open = true;
        let time = format!("{:>5.1}s", self.begin.elapsed().as_secs_f32());
        // A narrow terminal shows the part that fits, instead of one line after the other.
        let erase = terminal::clear_line();
        let time = dim(&time);
        let no_wrap = terminal::escape_sequence(NO_WRAP);
        let wrap = terminal::escape_sequence(WRAP);
        self.write_text(&format!("{erase}{no_wrap}   {time}  {exact}{wrap}"))
    }

    /// Prints the last words, unindented.
    pub(super) fn print_closing_words(&mut self, text: &str) -> NarratorResult {
        self.close_live()?;
        self.write_text(&format!("\n{text}"))
    }
}

/// The style of unimportant text.
pub(super) fn dim(text: &str) -> String {
    terminal::paint(Style::new().dimmed(), text)
}

/// The style of good news.
pub(super) fn good(text: &str) -> String {
    coloured(AnsiColor::Green, text)
}

/// The style of bad news.
pub(super) fn bad(text: &str) -> String {
    coloured(AnsiColor::Red, text)
}

fn coloured(colour: AnsiColor, text: &str) -> String {
    terminal::paint(colour.on_default().bold(), text)
}

/// Aligns words in columns, each as wide as its widest word.
pub(super) fn align_columns(rows: &[Vec<String>]) -> String {
    let mut writer = tabwriter::TabWriter::new(Vec::new()).padding(2).ansi(true);
    for row in rows {
        // Writing to memory cannot fail.
        let cells: Vec<String> = row.iter().map(|text| terminal::table_cell(text)).collect();
        let _ = writeln!(writer, "{}", cells.join("\t"));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// A progress bar of few cells, so that three fit side by side on a terminal.
pub(super) fn progress_bar(done: u64, of: u64) -> String {
    const CELLS: u64 = 6;
    let full = (done.saturating_mul(CELLS) / of.max(1)).min(CELLS);
    format!(
        "[{}]",
        (0..CELLS)
            .map(|at| if at < full { '#' } else { '.' })
            .collect::<String>()
    )
}
