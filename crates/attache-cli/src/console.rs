//! [`Report`], the result of a command, and [`Console`], which prints it as text or as one JSON object.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::failure::{Failure, Status};

/// The result of a command in both forms of output, and the exit status.
#[derive(Debug)]
pub(crate) struct Report {
    /// The text that is printed without `--json`.
    pub(crate) text: String,
    /// The object that is printed with `--json`.
    pub(crate) json: Value,
    /// The exit status.
    pub(crate) status: Status,
}

impl Report {
    /// Creates the report of a command that succeeded.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, status: Status::Success }
    }
}

/// Maximum length of a name in text output, in characters. Narrow terminals get shorter names; JSON has names
/// in full.
const MOST_NAME: usize = 48;
/// Minimum length to which names are shortened on narrow terminals, in characters.
const LEAST_NAME: usize = 16;
/// Maximum length of a longer text from a file in text output, such as a description, in characters.
const MOST_TEXT: usize = 400;

/// Prints results, errors and progress: as text or JSON, with or without colours, fitted to the terminal's
/// width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Whether the result is printed as one JSON object.
    pub(crate) json: bool,
    color: bool,
    /// Width of the terminal in characters; `None` if standard output is not a terminal.
    width: Option<usize>,
}

impl Console {
    /// Creates a console for standard output and standard error. Colours are used only on terminals, and not
    /// if `NO_COLOR` is set.
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = ::console::Term::stdout().size_checked().filter(|size| is_terminal && size.1 > 0);
        Self { json, color: wanted && is_terminal, width: size.map(|(_, columns)| usize::from(columns)) }
    }

    /// Creates a console for text whose destination is unknown: without colours and without a width to fit.
    pub(crate) fn plain() -> Self {
        Self { json: false, color: false, width: None }
    }

    /// Prints a command's result to standard output, in the requested form.
    pub(crate) fn answer(&self, report: &Report) {
        match self.json {
            true => print(&report.json.to_string()),
            false => print(&report.text),
        }
    }

    /// Prints a failure to standard error, or with `--json` as the one object on standard output.
    pub(crate) fn fail(&self, failure: &Failure) {
        match self.json {
            true => print(&failure.to_json().to_string()),
            false => self.note(&format!("error: {failure}")),
        }
    }

    /// Prints a line to standard error.
    pub(crate) fn note(&self, line: &str) {
        // If standard error is closed, there is nowhere left to report it.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Prints a warning to standard error.
    pub(crate) fn warn(&self, line: &str) {
        self.note(&format!("warning: {line}"));
    }

    /// Returns a name from a file in the form for text output: long names lose their middle, control
    /// characters are replaced.
    pub(crate) fn name(&self, name: &str) -> String {
        let most = self.width.map_or(MOST_NAME, |width| (width / 3).clamp(LEAST_NAME, MOST_NAME));
        elide(name, most)
    }

    /// Returns a longer text from a file, such as a description, in the form for text output: long texts lose
    /// their middle, control characters are replaced.
    pub(crate) fn excerpt(&self, text: &str) -> String {
        elide(text, MOST_TEXT)
    }

    /// Returns a progress bar with `steps` steps on standard error. It is visible on terminals only.
    pub(crate) fn progress(&self, steps: usize) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}").expect("the template is right");
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn red(&self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(&self, text: &str) -> String {
        self.paint("32", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Formats a table with a heading, columns two spaces apart, and numeric columns right-aligned. On a
    /// terminal, texts in the widest columns are shortened in the middle until all columns fit; the last
    /// column may wrap.
    pub(crate) fn table(&self, heading: &[&str], rows: &[Vec<String>]) -> String {
        let columns = 0..heading.len();
        let cell = |row: &'_ Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = columns
            .clone()
            .map(|column| rows.iter().map(|row| width(&cell(row, column))).chain([width(heading[column])]).max())
            .map(Option::unwrap_or_default)
            .collect();
        let is_number = |text: &str| text.parse::<f64>().is_ok() || ["", "-", "?"].contains(&text);
        let numeric: Vec<bool> =
            columns.clone().map(|column| rows.iter().all(|row| is_number(&cell(row, column)))).collect();
        if let Some(room) = self.width {
            narrow(&mut widths, &numeric, room);
        }
        let last = heading.len().saturating_sub(1);
        let line = |cells: Vec<String>| {
            let padded = cells.into_iter().enumerate().map(|(column, text)| {
                let fits = column == last || width(&text) <= widths[column];
                let text = if fits { text } else { elide(&text, widths[column]) };
                let blanks = " ".repeat(widths[column].saturating_sub(width(&text)));
                if numeric[column] { blanks + &text } else { text + &blanks }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = vec![self.bold(&line(heading.iter().map(|text| text.to_string()).collect()))];
        lines.extend(rows.iter().map(|row| line(columns.clone().map(|column| cell(row, column)).collect())));
        lines.join("\n")
    }
}

/// Reduces the widths of the widest text columns, except the last, until all columns fit into `room`
/// characters or none can be narrowed further.
fn narrow(widths: &mut [usize], numeric: &[bool], room: usize) {
    let blanks = 2 * widths.len().saturating_sub(1);
    let last = widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + blanks > room {
        let texts = (0..last).filter(|column| !numeric[*column] && widths[*column] > LEAST_NAME);
        let Some(widest) = texts.max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

/// Shortens a text to `most` characters by replacing its middle with `…`. Control characters are replaced.
fn elide(text: &str, most: usize) -> String {
    let clean = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    let count = text.chars().count();
    if count <= most {
        return text.chars().map(clean).collect();
    }
    let tail = most.saturating_sub(1) / 2;
    let head = most.saturating_sub(1 + tail);
    let ends = text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail));
    ends.map(clean).collect()
}

/// Prints to standard output. A closed pipe, for example to `head`, is not an error.
fn print(text: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{}", text.trim_end_matches('\n')).and_then(|()| output.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let console = Console { json: false, color: false, width: None };
        let rows = [vec!["a".to_owned(), "1.5".to_owned()], vec!["long".to_owned(), "20".to_owned()]];
        assert_eq!(console.table(&["name", "ms"], &rows), "name   ms\na     1.5\nlong   20");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let console = Console { json: false, color: false, width: Some(40) };
        let name = "x".repeat(70);
        let rows = [vec![name.clone(), "1.5".to_owned(), "a reason of any length".to_owned()]];
        let table = console.table(&["name", "ms", ""], &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains('…') && lines[1].ends_with("  1.5  a reason of any length"), "{table}");
        assert_eq!(lines[1].split("  ").next().unwrap().chars().count(), LEAST_NAME);
        let wide = Console { width: None, ..console };
        assert!(wide.table(&["name", "ms", ""], &rows).contains(&name));
    }

    #[test]
    fn names_lose_their_middle_and_control_no_terminal() {
        let console = Console { json: false, color: false, width: None };
        let name = format!("begin{}end", "x".repeat(600));
        let short = console.name(&name);
        assert!(short.starts_with("begin") && short.ends_with("end") && short.contains('…'), "{short}");
        assert_eq!(short.chars().count(), MOST_NAME);
        assert_eq!(console.name("\x1b[31m\na"), "\u{fffd}[31m\u{fffd}a");
        assert_eq!(Console { width: Some(20), ..console }.name(&name).chars().count(), LEAST_NAME);
        assert_eq!(elide("abc", 0), "…");
    }

    #[test]
    fn colour_is_for_terminals() {
        let plain = Console { json: false, color: false, width: None };
        assert_eq!(plain.red("x"), "x");
        assert_eq!(Console { color: true, ..plain }.red("x"), "\x1b[31mx\x1b[0m");
    }
}
