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

/// How to talk to the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Whether the answer is to be one JSON object.
    pub(crate) json: bool,
    color: bool,
}

impl Console {
    /// Colour goes to terminals alone, and not where `NO_COLOR` is set.
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, color: wanted && io::stdout().is_terminal() }
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

    /// Rows under a heading, columns two blanks apart, columns of numbers to the right.
    pub(crate) fn table(&self, heading: &[&str], rows: &[Vec<String>]) -> String {
        let columns = 0..heading.len();
        let cell = |row: &'_ Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = columns
            .clone()
            .map(|column| rows.iter().map(|row| width(&cell(row, column))).chain([width(heading[column])]).max())
            .map(Option::unwrap_or_default)
            .collect();
        let is_number = |text: &str| text.parse::<f64>().is_ok() || ["", "-", "?"].contains(&text);
        let numeric: Vec<bool> =
            columns.clone().map(|column| rows.iter().all(|row| is_number(&cell(row, column)))).collect();
        let line = |cells: Vec<String>| {
            let padded = cells.into_iter().enumerate().map(|(column, text)| {
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
        let console = Console { json: false, color: false };
        let rows = [vec!["a".to_owned(), "1.5".to_owned()], vec!["long".to_owned(), "20".to_owned()]];
        assert_eq!(console.table(&["name", "ms"], &rows), "name   ms\na     1.5\nlong   20");
    }

    #[test]
    fn colour_is_for_terminals() {
        let plain = Console { json: false, color: false };
        assert_eq!(plain.red("x"), "x");
        assert_eq!(Console { color: true, ..plain }.red("x"), "\x1b[31mx\x1b[0m");
    }
}
