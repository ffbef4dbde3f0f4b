//! [`Flags`], a command line in the form of TensorFlow Lite's tools: `--name=value`.
//!
//! Beside it, `--name value` is understood, and `--name` alone for a switch. A flag that is not in the tool's table is an
//! error that names the nearest one. A flag without an effect here is accepted, and [`Flags::notes`] says so.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

use crate::failure::Failure;
use crate::io::places::Places;

/// What the value of a flag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `true`, `false`, 1 or 0.
    Switch,
    /// A whole number of 32 bits.
    Whole,
    /// A finite number.
    Number,
    Text,
}

/// A row of a table of flags.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    kind: Kind,
    default: &'static str,
    /// The words with which a tool repeats the value at its start.
    label: &'static str,
    about: &'static str,
    /// Why the flag changes nothing; `None` if it does.
    idle: Option<&'static str>,
}

/// Returns a row for a flag with an effect.
pub(super) const fn flag(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    label: &'static str,
    about: &'static str,
) -> Flag {
    Flag { name, kind, default, label, about, idle: None }
}

/// Returns a row for a flag that is accepted and changes nothing, for this reason.
pub(super) const fn idle(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    label: &'static str,
    reason: &'static str,
) -> Flag {
    Flag { name, kind, default, label, about: reason, idle: Some(reason) }
}

/// The parsed command line of a tool.
#[derive(Clone, Debug)]
pub(super) struct Flags {
    tool: &'static str,
    table: Vec<&'static Flag>,
    /// The flags that the command line has, in its order, with their values in the form of [`Kind`].
    given: Vec<(&'static Flag, String)>,
    /// The names of flags that the command line has several times; the last one counts.
    repeated: Vec<&'static str>,
}

impl Flags {
    /// Parses the words after the tool's name.
    pub(super) fn parse(tool: &'static str, tables: &[&'static [Flag]], words: &[OsString]) -> Result<Self, Failure> {
        let table = tables.iter().flat_map(|table| table.iter()).collect();
        let mut flags = Self { tool, table, given: Vec::new(), repeated: Vec::new() };
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let word =
                word.to_str().ok_or_else(|| Failure::usage(format!("{word:?} is not UTF-8; rename the file")))?;
            let (name, value) = split(word).ok_or_else(|| flags.no_flag(word))?;
            let flag = flags.find(name).ok_or_else(|| flags.unknown(name))?;
            let next = words.peek().and_then(|next| next.to_str()).filter(|next| !next.starts_with("--"));
            let value = match (value, flag.kind) {
                (Some(value), _) => value.to_owned(),
                // What follows a switch is its value only if it can be one.
                (None, Kind::Switch) => {
                    let value = next.filter(|next| switch(next).is_some()).map(str::to_owned);
                    value.map_or_else(|| "true".to_owned(), |value| words.next().map_or(value.clone(), |_| value))
                }
                (None, _) => {
                    let value = next.map(str::to_owned);
                    words.next();
                    value.ok_or_else(|| Failure::usage(format!("--{name} has no value; write --{name}=VALUE")))?
                }
            };
            flags.set(flag, checked(flag, &value)?);
        }
        Ok(flags)
    }

    fn find(&self, name: &str) -> Option<&'static Flag> {
        self.table.iter().copied().find(|flag| flag.name == name)
    }

    fn set(&mut self, flag: &'static Flag, value: String) {
        if let Some(index) = self.given.iter().position(|(other, _)| other.name == flag.name) {
            self.given.remove(index);
            self.repeated.push(flag.name);
        }
        self.given.push((flag, value));
    }

    /// Returns the same flags with another value for one of them, which is written correctly.
    pub(super) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut flags = self.clone();
        if let Some(flag) = flags.find(name) {
            flags.given.retain(|(other, _)| other.name != name);
            flags.given.push((flag, value.to_owned()));
        }
        flags
    }

    /// Whether the command line has the flag.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Returns the place of the flag among those that the command line has.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.given.iter().position(|(flag, _)| flag.name == name)
    }

    /// Returns the value of a flag, or its default.
    pub(super) fn text(&self, name: &str) -> &str {
        let given = self.given.iter().find(|(flag, _)| flag.name == name).map(|(_, value)| value.as_str());
        given.unwrap_or_else(|| self.find(name).map_or("", |flag| flag.default))
    }

    /// Returns the value of a flag that is no empty text; `None` if it is.
    pub(super) fn some(&self, name: &str) -> Option<&str> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    /// Returns the value of a flag that the tool cannot do without.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        let tool = self.tool;
        self.some(name).ok_or_else(|| {
            Failure::usage(format!("{tool} needs --{name}=…; `attache tflite {tool} --help` lists all flags"))
        })
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    pub(super) fn whole(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// Returns the value of a flag that counts something: `None` for 0 and negative numbers.
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        usize::try_from(self.whole(name)).ok().filter(|count| *count > 0)
    }

    /// Returns the files that flags name: those that are written, and as read the values of all other flags that are the
    /// path of a file.
    pub(super) fn places(&self, written: &[&str]) -> Places {
        let texts = self.given.iter().filter(|(flag, _)| flag.kind == Kind::Text);
        texts.fold(Places::default(), |places, (flag, value)| {
            let (option, path) = (format!("--{}", flag.name), Some(Path::new(value)).filter(|_| !value.is_empty()));
            if written.contains(&flag.name) { places.writes(&option, path) } else { places.reads(&option, path) }
        })
    }

    /// Returns lines with the values of the flags that were given, or of all with `verbose`.
    pub(super) fn echo(&self) -> Vec<String> {
        let verbose = self.is("verbose");
        let mut lines = vec![format!("Log parameter values verbosely: [{}]", u8::from(verbose))];
        if !self.repeated.is_empty() {
            lines.insert(0, format!("Duplicate flags: {}", self.repeated.join(",")));
        }
        let shown = self.table.iter().filter(|flag| !["verbose", "help"].contains(&flag.name));
        let shown = shown.filter(|flag| verbose || self.is_given(flag.name));
        lines.extend(shown.map(|flag| {
            let value = self.text(flag.name);
            let value = match flag.kind {
                Kind::Switch => {
                    if value == "true" {
                        "1"
                    } else {
                        "0"
                    }
                }
                _ => value,
            };
            format!("{}: [{value}]", flag.label)
        }));
        lines
    }

    /// Returns a line for each flag of the command line that changes nothing here, with the reason.
    pub(super) fn notes(&self) -> Vec<String> {
        let note = |flag: &Flag| flag.idle.map(|reason| format!("--{} changes nothing: {reason}", flag.name));
        self.given.iter().filter_map(|(flag, _)| note(flag)).collect()
    }

    /// Returns the description of all flags.
    pub(super) fn help(&self, about: &str) -> String {
        let mut text = format!("{about}\n\nUsage: {} --name=value …\n\n", self.tool);
        let heads: Vec<String> = self.table.iter().map(|flag| head(flag)).collect();
        for is_idle in [false, true] {
            text += if is_idle { "\nAccepted, and without effect here:\n" } else { "Flags:\n" };
            for (flag, head) in self.table.iter().zip(&heads).filter(|(flag, _)| flag.idle.is_some() == is_idle) {
                let _ = writeln!(text, "  {head:44} {}", flag.about);
            }
        }
        text
    }

    /// Returns the error for a word that is no flag.
    fn no_flag(&self, word: &str) -> Failure {
        let first = self.table.iter().find(|flag| flag.kind == Kind::Text).map_or("name", |flag| flag.name);
        Failure::usage(format!("\"{word}\" is no flag of {}; flags are written --{first}=VALUE", self.tool))
    }

    /// Returns the error for a flag that is not in the table.
    fn unknown(&self, name: &str) -> Failure {
        let tool = self.tool;
        let nearest = self.table.iter().min_by_key(|flag| distance(flag.name, name)).map_or("help", |flag| flag.name);
        Failure::usage(format!("--{name} is no flag of {tool}; the nearest is --{nearest}, and --help lists all"))
    }
}

/// Splits `--name=value` or `--name`; `None` for anything else.
fn split(word: &str) -> Option<(&str, Option<&str>)> {
    let rest = word.strip_prefix("--").filter(|rest| !rest.is_empty())?;
    Some(rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value))))
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Checks a value and returns it in one form: switches as `true` and `false`.
fn checked(flag: &Flag, value: &str) -> Result<String, Failure> {
    let name = flag.name;
    let wrong = |what: &str| Failure::usage(format!("--{name}={value}: it must be {what}"));
    match flag.kind {
        Kind::Switch => switch(value).map(|is_on| is_on.to_string()).ok_or_else(|| wrong("true, false, 1 or 0")),
        Kind::Whole => value
            .parse::<i32>()
            .map(|number| number.to_string())
            .map_err(|_| wrong("a whole number of at most 32 bits")),
        Kind::Number => {
            let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(|number| number.to_string()).ok_or_else(|| wrong("a finite number"))
        }
        Kind::Text => Ok(value.to_owned()),
    }
}

/// Returns a flag with its kind and default, as help shows it.
fn head(flag: &Flag) -> String {
    let value = match flag.kind {
        Kind::Switch => "true|false",
        Kind::Whole => "N",
        Kind::Number => "X",
        Kind::Text => "TEXT",
    };
    let default = if flag.default.is_empty() { String::new() } else { format!(" [{}]", flag.default) };
    format!("--{}={value}{default}", flag.name)
}

/// Returns how many letters have to be inserted, removed or replaced to make one word of another.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, against) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *against);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Flag] = &[
        flag("graph", Kind::Text, "", "Graph", "the model"),
        flag("num_runs", Kind::Whole, "50", "Min num runs", "runs"),
        flag("min_secs", Kind::Number, "1", "Min runs duration (seconds)", "seconds"),
        flag("use_gpu", Kind::Switch, "false", "Use gpu", "the GPU"),
        flag("verbose", Kind::Switch, "false", "Verbose", "all"),
        idle("use_nnapi", Kind::Switch, "false", "Use NNAPI", "there is none"),
    ];

    fn parse(words: &[&str]) -> Result<Flags, Failure> {
        Flags::parse("benchmark_model", &[TABLE], &words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_written_in_three_ways() {
        let flags = parse(&["--graph=a=b.tflite", "--num_runs", "-7", "--use_gpu", "--min_secs=1e-1"]).unwrap();
        assert_eq!((flags.text("graph"), flags.whole("num_runs"), flags.is("use_gpu")), ("a=b.tflite", -7, true));
        assert_eq!((flags.number("min_secs"), flags.is("verbose"), flags.count("num_runs")), (0.1, false, None));
        let flags = parse(&["--use_gpu", "0", "--graph", "x", "--use_nnapi=1"]).unwrap();
        assert_eq!((flags.is("use_gpu"), flags.some("graph"), flags.whole("num_runs")), (false, Some("x"), 50));
        assert_eq!(flags.notes(), ["--use_nnapi changes nothing: there is none"]);
        let flags = parse(&["--use_gpu", "--graph", "x"]).unwrap();
        assert_eq!((flags.is("use_gpu"), flags.text("graph")), (true, "x"));
        assert!(flags.position("use_gpu") < flags.position("graph"));
    }

    #[test]
    fn the_echo_has_what_was_given() {
        let flags = parse(&["--use_gpu=1", "--graph=x", "--use_gpu=false"]).unwrap();
        let expected =
            ["Duplicate flags: use_gpu", "Log parameter values verbosely: [0]", "Graph: [x]", "Use gpu: [0]"];
        assert_eq!(flags.echo(), expected);
        assert_eq!(parse(&["--verbose=true"]).unwrap().echo().len(), TABLE.len());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |words: &[&str]| parse(words).unwrap_err().message;
        assert!(message(&["--num_run=3"]).contains("the nearest is --num_runs"));
        assert!(message(&["--user_gpu"]).contains("the nearest is --use_gpu"));
        assert!(message(&["model.tflite"]).contains("\"model.tflite\" is no flag"));
        assert!(message(&["--num_runs=many"]).contains("--num_runs=many: it must be a whole number"));
        assert!(message(&["--min_secs=nan"]).contains("a finite number"));
        assert!(message(&["--use_gpu=yes"]).contains("true, false, 1 or 0"));
        assert!(message(&["--graph"]).contains("--graph has no value"));
        assert!(message(&["--graph", "--use_gpu"]).contains("--graph has no value"));
        assert!(parse(&[]).unwrap().required("graph").unwrap_err().message.contains("needs --graph="));
    }

    #[test]
    fn distances_count_edits() {
        assert_eq!([distance("kitten", "sitting"), distance("", "abc"), distance("a", "a")], [3, 3, 0]);
    }
}
