//! Tells what happens: live lines on a terminal, plain lines elsewhere, nothing
//! if only the report is wanted.

use std::io::Write;
use std::time::Instant;

use anstyle::{AnsiColor, Style};

use super::error::QuickstartError;
use crate::terminal::{self, Printer};

/// Orders to a terminal not to go on in the next line, and to do so again.
const NO_WRAP: &str = "?7l";
const WRAP: &str = "?7h";

type TellResult = Result<(), QuickstartError>;

/// Tells the story.
pub(super) struct Teller {
    out: Printer<Box<dyn Write + Send>>,
    begin: Instant,
    silent: bool,
    live: bool,
    /// A line that may still change is on the screen.
    open: bool,
    /// The last live text; not repeated where lines stay.
    last: String,
    step: u32,
}

impl Teller {
    /// `silent`: tells nothing.
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

    fn write(&mut self, text: &str) -> TellResult {
        if self.silent {
            return Ok(());
        }
        self.out.text(text).map_err(QuickstartError::Untold)
    }

    /// Leaves the changing line as it is.
    fn close_live(&mut self) -> TellResult {
        self.last.clear();
        if std::mem::take(&mut self.open) {
            self.write("\n")
        } else {
            Ok(())
        }
    }

    /// Takes the changing line away: what happened says more.
    fn erase_live(&mut self) -> TellResult {
        self.last.clear();
        if std::mem::take(&mut self.open) {
            self.write(terminal::clear_line())
        } else {
            Ok(())
        }
    }

    fn line(&mut self, text: &str) -> TellResult {
        let time = format!("{:>5.1}s", self.begin.elapsed().as_secs_f32());
        self.write(&format!("   {}  {text}\n", dim(&time)))
    }

    /// Begins a step, with what it is for.
    pub(super) fn step(&mut self, title: &str, why: &str) -> TellResult {
        self.close_live()?;
        self.step += 1;
        let title = terminal::painted(Style::new().bold(), &format!("{}. {title}", self.step));
        self.write(&format!("\n{title}\n"))?;
        for line in why.lines() {
            self.write(&format!("   {}\n", dim(line)))?;
        }
        Ok(())
    }

    /// Something happened; with the time since the beginning.
    pub(super) fn happened(&mut self, text: &str) -> TellResult {
        self.erase_live()?;
        self.line(text)
    }

    /// Lines as they are, indented.
    pub(super) fn lines(&mut self, text: &str) -> TellResult {
        self.close_live()?;
        let indented: String = text
            .lines()
            .map(|line| format!("           {line}\n"))
            .collect();
        self.write(&indented)
    }

    /// How far something is: `exact` changes in place on a terminal; elsewhere
    /// `rough` is a line of its own whenever it changes.
    pub(super) fn progress(&mut self, exact: &str, rough: &str) -> TellResult {
        if !self.live {
            if self.last != rough {
                self.line(rough)?;
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
        // A narrow terminal shows what fits, instead of one line after the other.
        let erase = terminal::clear_line();
        let time = dim(&time);
        let no_wrap = terminal::sequence(NO_WRAP);
        let wrap = terminal::sequence(WRAP);
        self.write(&format!("{erase}{no_wrap}   {time}  {exact}{wrap}"))
    }

    /// The last words, unindented.
    pub(super) fn end(&mut self, text: &str) -> TellResult {
        self.close_live()?;
        self.write(&format!("\n{text}"))
    }
}

/// For what matters less.
pub(super) fn dim(text: &str) -> String {
    terminal::painted(Style::new().dimmed(), text)
}

/// For what is well.
pub(super) fn good(text: &str) -> String {
    coloured(AnsiColor::Green, text)
}

/// For what is wrong.
pub(super) fn bad(text: &str) -> String {
    coloured(AnsiColor::Red, text)
}

fn coloured(colour: AnsiColor, text: &str) -> String {
    terminal::painted(colour.on_default().bold(), text)
}

/// Columns of words, each as wide as its widest.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let mut writer = tabwriter::TabWriter::new(Vec::new()).padding(2).ansi(true);
    for row in rows {
        // Writing to memory cannot fail.
        let cells: Vec<String> = row.iter().map(|text| terminal::cell(text)).collect();
        let _ = writeln!(writer, "{}", cells.join("\t"));
    }
    let bytes = writer.into_inner().unwrap_or_default();
    let text = String::from_utf8(bytes).unwrap_or_default();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// A bar of few cells, so that three fit a terminal side by side.
pub(super) fn bar(done: u64, of: u64) -> String {
    const CELLS: u64 = 6;
    let full = (done.saturating_mul(CELLS) / of.max(1)).min(CELLS);
    format!(
        "[{}]",
        (0..CELLS)
            .map(|at| if at < full { '#' } else { '.' })
            .collect::<String>()
    )
}
