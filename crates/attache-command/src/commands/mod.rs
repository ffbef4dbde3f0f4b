//! The table of commands, and [`run()`], which parses a command line, runs the command that it names, and
//! returns the exit status.

mod advise;
mod bench;
mod cache;
mod check;
mod completions;
mod devices;
mod diff;
mod dump;
mod eval;
mod inspect;
mod report;
mod run;
mod survey;
mod tflite;
mod zoo;

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser};
use tracing_subscriber::filter::LevelFilter;

use crate::console::{Console, Report};
use crate::failure::{Failure, Status};
use crate::io::files;
use crate::logging;

/// A command of `attache`, implemented by the structure of its arguments.
trait Command: Args {
    /// Runs the command and returns its result.
    fn run(self, console: &Console) -> Result<Report, Failure>;
}

/// A row of the table of commands: name, description in the help, and functions that define the arguments and
/// that parse and run the command.
struct Row {
    name: &'static str,
    about: &'static str,
    define: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches, &Console) -> Result<Report, Failure>,
}

const fn row<C: Command>(name: &'static str, about: &'static str) -> Row {
    Row { name, about, define: C::augment_args, run: parse_and_run::<C> }
}

fn parse_and_run<C: Command>(matches: &ArgMatches, console: &Console) -> Result<Report, Failure> {
    C::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?.run(console)
}

/// All commands, in the order in which the help lists them.
static TABLE: &[Row] = &[
    row::<run::Run>("run", "Run a model once and say what comes out"),
    row::<check::Check>("check", "Compare golden cases with what comes out here"),
    row::<diff::Diff>("diff", "Compare a delegate with the CPU, as a whole or operator by operator"),
    row::<advise::Advise>("advise", "Measure where and how a model runs best, and say which options to write"),
    row::<eval::Eval>("eval", "Say how right a model is on a data set"),
    row::<bench::Bench>("bench", "Measure how long a model takes and what it needs"),
    row::<report::ReportCommand>("report", "Measure models and write one page about them, or compare two such pages"),
    row::<inspect::Inspect>("inspect", "Say what a model file holds and what the GPU makes of it"),
    row::<survey::SurveyCommand>("survey", "Say of all models below a folder what they use and what is missing"),
    row::<devices::Devices>("devices", "List the GPUs of this machine"),
    row::<zoo::Zoo>("zoo", "List the built-in models, or write one to a file"),
    row::<cache::Cache>("cache", "List, verify or clear stored plans and packed weights"),
    row::<tflite::Tflite>("tflite", "Run a tool of TensorFlow Lite's, with its own flags and output"),
    row::<dump::Dump>("dump", "Print a stage of a model's way to the device"),
    row::<completions::Completions>("completions", "Print a script with which a shell completes this command"),
];

/// Run TensorFlow Lite models on the CPU and on any GPU
#[derive(Parser)]
#[command(name = "attache", version, after_help = EXIT_STATUSES)]
struct Attache {
    /// Print one JSON object to standard output, also for errors
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    /// Say more on standard error: -v what happens, -vv details, -vvv everything
    #[arg(short, long, global = true, display_order = 901, action = ArgAction::Count)]
    verbose: u8,
    /// Say nothing on standard error except errors
    #[arg(short, long, global = true, display_order = 902, conflicts_with = "verbose")]
    quiet: bool,
}

impl Attache {
    /// Returns the lowest level of messages that are logged.
    fn level(&self) -> LevelFilter {
        match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, 2) => LevelFilter::DEBUG,
            (false, _) => LevelFilter::TRACE,
        }
    }
}

const EXIT_STATUSES: &str = "Exit status: 0 all right, 1 a comparison failed, 2 usage, 3 the model is bad, \
    4 not supported or not delegated as required, 5 device.";

fn command_line() -> clap::Command {
    let subcommands = TABLE.iter().map(|row| (row.define)(clap::Command::new(row.name)).about(row.about));
    Attache::command().subcommands(subcommands).subcommand_required(true).arg_required_else_help(false)
}

/// Runs the command that the arguments name (the first is the program's own name), prints its result, and
/// returns the exit status.
pub(crate) fn run(arguments: Vec<OsString>) -> Status {
    if tflite::is_tool(&arguments) {
        logging::start(LevelFilter::WARN);
        let console = Console::new(false);
        return answer(tflite::run_as_tool(&arguments, &console), &console);
    }
    // Errors are printed as JSON on request even if the command line cannot be parsed.
    let console = Console::new(arguments.iter().any(|argument| argument == "--json"));
    let result = match command_line().try_get_matches_from(arguments) {
        Ok(matches) => dispatch(&matches, console),
        Err(error) => return answer_parser(&error, &console),
    };
    answer(result, &console)
}

/// Prints the result of a command or its failure and returns the exit status.
fn answer(result: Result<Report, Failure>, console: &Console) -> Status {
    let printed = result.and_then(|mut report| written(console.answer(&mut report)).map(|()| report));
    match printed {
        Ok(Report { failure: Some(failure), .. }) => {
            console.fail_after_result(&failure);
            failure.status()
        }
        Ok(report) => report.status,
        Err(failure) => {
            console.fail(&failure);
            failure.status()
        }
    }
}

fn dispatch(matches: &ArgMatches, console: Console) -> Result<Report, Failure> {
    let general = Attache::from_arg_matches(matches).map_err(|error| Failure::usage(error.to_string()))?;
    logging::start(general.level());
    let console = console.silenced(general.quiet);
    let named = matches.subcommand();
    let found = named.and_then(|(name, matches)| Some((TABLE.iter().find(|row| row.name == name)?, matches)));
    let (row, matches) = found.ok_or_else(|| Failure::usage("name a command; --help lists them"))?;
    (row.run)(matches, &console)
}

/// Converts the error of printing to standard output. A closed pipe, for example to `head`, is none.
fn written(printed: io::Result<()>) -> Result<(), Failure> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(files::unwritable(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}

/// Prints what the parser of the command line reports and returns the exit status. Help and version are
/// results; everything else is a usage error.
fn answer_parser(error: &clap::Error, console: &Console) -> Status {
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    match (is_answer, console.json) {
        (true, true) => {
            let object = match error.kind() {
                ErrorKind::DisplayVersion => serde_json::json!({ "version": env!("CARGO_PKG_VERSION") }),
                _ => serde_json::json!({ "help": error.to_string() }),
            };
            answer(Ok(Report::new("", object)), console)
        }
        (true, false) => match written(error.print()) {
            Ok(()) => Status::Success,
            Err(failure) => answer(Err(failure), console),
        },
        (false, false) => {
            let _ = error.print();
            Status::Usage
        }
        (false, true) => {
            let text = error.to_string();
            answer(Err(Failure::usage(text.trim().trim_start_matches("error: "))), console)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_defined() {
        command_line().debug_assert();
    }

    #[test]
    fn every_command_has_its_own_description() {
        for row in TABLE {
            let command = command_line();
            let about = command.find_subcommand(row.name).and_then(clap::Command::get_about).unwrap();
            assert_eq!(about.to_string(), row.about);
        }
    }
}
