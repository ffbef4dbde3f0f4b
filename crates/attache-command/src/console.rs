//! [`Report`], the result of a command, and [`Console`], which prints it as text or as one JSON object.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use ::console::measure_text_width;
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
    /// Whether the text is printed as it is, whatever the width of the terminal.
    pub(crate) is_verbatim: bool,
    /// What failed after the result was known, such as writing it to a file. It determines the exit status.
    pub(crate) failure: Option<Failure>,
}

impl Report {
    /// Creates the report of a command that succeeded.
    pub(crate) fn new(text: impl Into<String>, json: Value) -> Self {
        Self { text: text.into(), json, status: Status::Success, is_verbatim: false, failure: None }
    }

    /// Returns the same report with what failed after the result was known, which is printed after it.
    pub(crate) fn with_failure(self, failure: Option<Failure>) -> Self {
        Self { failure: failure.or(self.failure), ..self }
    }

    /// Returns the same report with a text whose lines must not be broken, such as a program.
    pub(crate) fn verbatim(self) -> Self {
        Self { is_verbatim: true, ..self }
    }
}

/// Maximum length of a name in text output, in characters. Narrow terminals get shorter names; JSON has names
/// in full.
const MOST_NAME: usize = 48;
/// Minimum length to which names are shortened on narrow terminals, in characters.
const LEAST_NAME: usize = 16;
/// Minimum width of text columns of tables that are too wide for the terminal, in characters.
const LEAST_CELL: usize = 8;
/// Maximum length of a longer text from a file in text output, such as a description, in characters.
const MOST_TEXT: usize = 400;

/// Prints results, errors and progress: as text or JSON, with or without colours, fitted to the terminal's
/// width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Whether the result is printed as one JSON object.
    pub(crate) json: bool,
    /// Whether warnings, log lines and progress are left out.
    quiet: bool,
    color: bool,
    /// Width of the terminal in characters, or what `COLUMNS` says; `None` if standard output is not a terminal.
    width: Option<usize>,
}

impl Console {
    /// Creates a console for standard output and standard error. Colours are used only on terminals, and not
    /// if `NO_COLOR` is set. `COLUMNS` overrides the width of the terminal.
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = ::console::Term::stdout().size_checked().filter(|size| is_terminal && size.1 > 0);
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = asked.filter(|columns| *columns > 0).or(size.map(|(_, columns)| usize::from(columns)));
        Self { json, quiet: false, color: wanted && is_terminal, width }
    }

    /// Creates a console for text whose destination is unknown: without colours and without a width to fit.
    pub(crate) fn plain() -> Self {
        Self { json: false, quiet: false, color: false, width: None }
    }

    /// Returns the same console, which prints nothing but results and errors if `quiet`.
    pub(crate) fn silenced(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Prints a command's result to standard output, in the requested form, and takes its JSON.
    pub(crate) fn answer(&self, report: &mut Report) -> io::Result<()> {
        match self.json {
            true => write_json(&object(report)),
            // Everything was printed while the command ran.
            false if report.text.is_empty() => Ok(()),
            false if report.is_verbatim => print(&report.text),
            false => print(&self.fitted(&report.text)),
        }
    }

    /// Returns the text with lines that are wider than the terminal broken between words. What follows is indented.
    fn fitted(&self, text: &str) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let fit = |line: &str| {
            if measure_text_width(line) <= width {
                return line.to_owned();
            }
            let indent = " ".repeat(line.len() - line.trim_start().len());
            let room = width.saturating_sub(indent.len() + 2);
            indent.clone() + &wrapped(line, room).join(&format!("\n{indent}  "))
        };
        text.lines().map(fit).collect::<Vec<_>>().join("\n")
    }

    /// Prints a failure to standard error, or with `--json` as the one object on standard output.
    pub(crate) fn fail(&self, failure: &Failure) {
        if !self.json || print(&failure.to_json().to_string()).is_err() {
            self.note(&format!("error: {failure}"));
        }
    }

    /// Prints a failure that came after the result to standard error. With `--json` the result has it.
    pub(crate) fn fail_after_result(&self, failure: &Failure) {
        if !self.json {
            self.note(&format!("error: {failure}"));
        }
    }

    /// Prints a line to standard error.
    fn note(&self, line: &str) {
        // Messages may have several lines, and names of files in them.
        let clean = line.split('\n').map(visible).collect::<Vec<_>>().join("\n");
        // If standard error is closed, there is nowhere left to report it.
        let _ = writeln!(io::stderr(), "{clean}");
    }

    /// Prints a warning to standard error.
    pub(crate) fn warn(&self, line: &str) {
        if !self.quiet {
            self.note(&format!("warning: {line}"));
        }
    }

    /// Says on standard error how far a long command is, on terminals only.
    pub(crate) fn say_progress(&self, line: &str) {
        if !self.quiet && io::stderr().is_terminal() {
            self.note(line);
        }
    }

    /// Prints lines of a result that others read while the command runs. With `--json` there are none.
    pub(crate) fn say(&self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { write_line(text) }
    }

    /// Prints TensorFlow Lite's log lines about delegation to standard error.
    pub(crate) fn log(&self, lines: &[String]) {
        if !self.quiet {
            lines.iter().for_each(|line| self.note(line));
        }
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
        let target = if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
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
    /// terminal the table fits its width: texts are shortened in the middle, those in the last column
    /// continue on further lines, and columns for which there is still no room follow in a second table with
    /// the same first column.
    pub(crate) fn table(&self, heading: &[&str], rows: &[Vec<String>]) -> String {
        let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let column =
            |(index, name): (usize, &&str)| Column::new(name, rows.iter().map(|row| cell(row, index)).collect());
        let columns: Vec<Column> = heading.iter().enumerate().map(column).collect();
        let room = self.width.unwrap_or(usize::MAX);
        let mut blocks = Vec::new();
        let mut rest = columns.get(1..).unwrap_or_default();
        let first = &columns[..1.min(columns.len())];
        loop {
            let fits = |count: &usize| widths(&block(first, &rest[..*count]), room).is_some();
            let count = (1..=rest.len()).rev().find(fits).unwrap_or(1.min(rest.len()));
            let mut lines = lines(&block(first, &rest[..count]), room);
            lines[0] = self.bold(&lines[0]);
            blocks.append(&mut lines);
            rest = &rest[count..];
            if rest.is_empty() {
                return blocks.join("\n");
            }
        }
    }
}

/// Returns the object of a report, with the failure that came after the result if there is one.
fn object(report: &mut Report) -> Value {
    let mut object = report.json.take();
    if let Some(failure) = &report.failure {
        object["error"] = failure.to_json()["error"].take();
    }
    object
}

/// A column of a table.
struct Column {
    /// The heading.
    name: String,
    cells: Vec<String>,
    /// Width in characters of the longest text.
    width: usize,
    is_numeric: bool,
}

impl Column {
    fn new(name: &str, cells: Vec<String>) -> Self {
        let name = name.to_owned();
        let width = cells.iter().chain([&name]).map(|text| measure_text_width(text)).max().unwrap_or(0);
        let is_number = |text: &String| text.parse::<f64>().is_ok() || ["", "-", "?"].contains(&text.as_str());
        let is_numeric = cells.iter().all(is_number);
        Self { name, cells, width, is_numeric }
    }
}

fn block<'a>(first: &'a [Column], rest: &'a [Column]) -> Vec<&'a Column> {
    first.iter().chain(rest).collect()
}

/// Returns the widths of columns that fit into `room` characters together: text columns are narrowed, the
/// widest first. `None` if they cannot be narrow enough.
fn widths(columns: &[&Column], room: usize) -> Option<Vec<usize>> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.width).collect();
    let room = room.saturating_sub(2 * columns.len().saturating_sub(1));
    let mut least = LEAST_NAME;
    while widths.iter().sum::<usize>() > room {
        let texts = (0..columns.len()).filter(|index| !columns[*index].is_numeric && widths[*index] > least);
        match texts.max_by_key(|index| widths[*index]) {
            Some(widest) => widths[widest] -= 1,
            None if least > LEAST_CELL => least = LEAST_CELL,
            None => return None,
        }
    }
    Some(widths)
}

/// Formats columns side by side. Those that do not fit into `room` characters are as wide as their texts.
fn lines(columns: &[&Column], room: usize) -> Vec<String> {
    let widths = widths(columns, room).unwrap_or_else(|| columns.iter().map(|column| column.width).collect());
    let last = columns.len().saturating_sub(1);
    let line = |texts: &[&str]| {
        let padded = texts.iter().enumerate().map(|(index, text)| {
            let is_whole = measure_text_width(text) <= widths[index];
            let text = if is_whole { (*text).to_owned() } else { elide(text, widths[index]) };
            let blanks = " ".repeat(widths[index].saturating_sub(measure_text_width(&text)));
            if columns[index].is_numeric { blanks + &text } else { text + &blanks }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())];
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let mut texts: Vec<&str> = columns.iter().map(|column| column.cells[row].as_str()).collect();
        let parts = wrapped(texts.last().copied().unwrap_or_default(), widths.last().copied().unwrap_or(0));
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                texts = vec![""; columns.len()];
            }
            if let Some(text) = texts.get_mut(last) {
                *text = part;
            }
            lines.push(line(&texts));
        }
    }
    lines
}

/// Splits a text between words into lines of at most `width` characters. A longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    if measure_text_width(text) <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        match line.is_empty() {
            true => *line = word.to_owned(),
            false if measure_text_width(line) + 1 + measure_text_width(word) <= width => *line += &format!(" {word}"),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Whether a terminal or a page obeys a character instead of showing it: control characters, and those that change the
/// direction of writing, break lines or have no width.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a text from a file, such as a name, with replacements for the characters that are obeyed instead of shown.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|character| if is_hidden(character) { '\u{fffd}' } else { character }).collect()
}

/// Shortens a text to `most` characters by replacing its middle with `…`. Control characters are replaced.
fn elide(text: &str, most: usize) -> String {
    let clean = |character: char| if is_hidden(character) { '\u{fffd}' } else { character };
    let count = text.chars().count();
    if count <= most {
        return text.chars().map(clean).collect();
    }
    let tail = most.saturating_sub(1) / 2;
    let head = most.saturating_sub(1 + tail);
    let ends = text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail));
    ends.map(clean).collect()
}

/// Returns a number with the noun that fits it.
pub(crate) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Prints to standard output.
fn print(text: &str) -> io::Result<()> {
    write_line(text.trim_end_matches('\n'))
}

/// Prints an object to standard output in one line, piece by piece, since it may be large.
fn write_json(object: &Value) -> io::Result<()> {
    let mut output = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut output, object)?;
    writeln!(output).and_then(|()| output.flush())
}

/// Prints a line to standard output at once.
fn write_line(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}").and_then(|()| output.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let console = Console { json: false, quiet: false, color: false, width: None };
        let rows = [vec!["a".to_owned(), "1.5".to_owned()], vec!["long".to_owned(), "20".to_owned()]];
        assert_eq!(console.table(&["name", "ms"], &rows), "name   ms\na     1.5\nlong   20");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let console = Console { json: false, quiet: false, color: false, width: Some(40) };
        let name = "x".repeat(70);
        let rows = [vec![name.clone(), "1.5".to_owned(), "a reason of any length".to_owned()]];
        let table = console.table(&["name", "ms", ""], &rows);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains('…') && lines[1].ends_with("  1.5  a reason of any"), "{table}");
        assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= 40), "{table}");
        assert_eq!(lines[2].trim(), "length");
        let wide = Console { width: None, ..console };
        assert!(wide.table(&["name", "ms", ""], &rows).contains(&name));
    }

    #[test]
    fn prose_is_broken_between_words() {
        let console = Console { json: false, quiet: false, color: false, width: Some(20) };
        let text = console.fitted("short\n  some words that are too many\nand_one_that_is_too_long");
        assert_eq!(text, "short\n  some words that\n    are too many\nand_one_that_is_too_long");
        assert_eq!(Console { width: None, ..console }.fitted("a b c d e f g h i j k l"), "a b c d e f g h i j k l");
    }

    #[test]
    fn columns_without_room_follow_below() {
        let console = Console { json: false, quiet: false, color: false, width: Some(20) };
        let rows = [vec!["1".to_owned(), "20.55".to_owned(), "30000.5".to_owned(), "4".to_owned()]];
        let table = console.table(&["", "first", "second", "third"], &rows);
        assert_eq!(table, "   first   second\n1  20.55  30000.5\n   third\n1      4");
        assert_eq!(console.table(&[], &[]), "");
    }

    #[test]
    fn names_lose_their_middle_and_control_no_terminal() {
        let console = Console { json: false, quiet: false, color: false, width: None };
        let name = format!("begin{}end", "x".repeat(600));
        let short = console.name(&name);
        assert!(short.starts_with("begin") && short.ends_with("end") && short.contains('…'), "{short}");
        assert_eq!(short.chars().count(), MOST_NAME);
        assert_eq!(console.name("\x1b[31m\na"), "\u{fffd}[31m\u{fffd}a");
        assert_eq!(visible("a\u{1}\u{202e}\u{2028}é漢"), "a\u{fffd}\u{fffd}\u{fffd}é漢");
        assert_eq!(Console { width: Some(20), ..console }.name(&name).chars().count(), LEAST_NAME);
        assert_eq!(elide("abc", 0), "…");
    }

    #[test]
    fn colour_is_for_terminals() {
        let plain = Console { json: false, quiet: false, color: false, width: None };
        assert_eq!(plain.red("x"), "x");
        assert_eq!(Console { color: true, ..plain }.red("x"), "\x1b[31mx\x1b[0m");
    }
}
