//! What a command hands back and how it reaches the user: text, or one JSON object on standard output.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::failure::{Failure, Status};

/// A command's answer.
#[derive(Debug)]
pub(crate) struct Report {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
    /// How the process ends.
    pub(crate) status: Status,
}

impl Report {
    /// An answer of a command that did what it was asked for.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, status: Status::Success }
    }
}

/// Characters of a name in a text that is not for a terminal, or for a wide one. JSON has names in full.
const MOST_NAME: usize = 48;
/// Characters that a name keeps on the narrowest terminal.
const LEAST_NAME: usize = 16;
/// Characters of a description.
const MOST_TEXT: usize = 400;

/// How to talk to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Whether the answer is to be one JSON object.
    pub(crate) json: bool,
    color: bool,
    /// Columns of the terminal that standard output is, if it is one.
    width: Option<usize>,
}

impl Console {
    /// Colour goes to terminals alone, and not where `NO_COLOR` is set.
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = ::console::Term::stdout().size_checked().filter(|size| is_terminal && size.1 > 0);
        Self { json, color: wanted && is_terminal, width: size.map(|(_, columns)| usize::from(columns)) }
    }

    /// For texts that don't know where they go.
    pub(crate) fn plain() -> Self {
        Self { json: false, color: false, width: None }
    }

    /// Prints the answer to standard output.
    pub(crate) fn answer(&self, report: &Report) {
        match self.json {
            true => print(&report.json.to_string()),
            false => print(&report.text),
        }
    }

    /// Prints the failure: to standard error, or as the one JSON object.
    pub(crate) fn fail(&self, failure: &Failure) {
        match self.json {
            true => print(&failure.to_json().to_string()),
            false => self.note(&format!("error: {failure}")),
        }
    }

    /// Prints a line to standard error.
    pub(crate) fn note(&self, line: &str) {
        // Where standard error is closed there is no one left to tell.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Prints to standard error what the user should know although the command goes on.
    pub(crate) fn warn(&self, line: &str) {
        self.note(&format!("warning: {line}"));
    }

    /// A name that a file holds, as text has it: a long one without its middle, and no character that a terminal obeys.
    pub(crate) fn name(&self, name: &str) -> String {
        let most = self.width.map_or(MOST_NAME, |width| (width / 3).clamp(LEAST_NAME, MOST_NAME));
        elide(name, most)
    }

    /// A longer text that a file holds.
    pub(crate) fn excerpt(&self, text: &str) -> String {
        elide(text, MOST_TEXT)
    }

    /// A bar on standard error for `steps` steps of work, seen on terminals alone.
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

    /// Rows under a heading, columns two blanks apart, columns of numbers to the right. On a terminal, the widest columns of
    /// text lose the middle of what they hold until all fit beside each other; the last one may go on in the next line.
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

/// Takes from the widest columns of text, but not from the last, until all of them fit or none has any more to spare.
fn narrow(widths: &mut [usize], numeric: &[bool], room: usize) {
    let blanks = 2 * widths.len().saturating_sub(1);
    let last = widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + blanks > room {
        let texts = (0..last).filter(|column| !numeric[*column] && widths[*column] > LEAST_NAME);
        let Some(widest) = texts.max_by_key(|column| widths[*column]) else { return };
        widths[widest] -= 1;
    }
}

/// A text of at most so many characters, in the middle of which `…` stands for the rest.
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

/// A reader that has gone, as `head` has, is no failure of ours.
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
