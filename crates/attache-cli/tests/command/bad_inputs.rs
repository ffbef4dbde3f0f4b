//! Runs the command on bad inputs. Tables list command lines, each with its exit status and with what the message
//! must contain: the thing at fault, and the remedy.
//!
//! Each line must fail within seconds, with one short message and no trace of a panic, and leave the folder in which
//! it runs as it was.

mod files;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Scratch;
use tables::{Bad, TABLES};

/// Maximum number of lines of a message, with those that show the usage.
const MOST_LINES: usize = 6;
/// Maximum duration of a command, also in unoptimized builds on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Number of bytes of a file that are compared.
const MOST_BYTES: u64 = 1 << 16;

/// Returns the command with these arguments, which finds software adapters only and runs in the folder. `''` is an
/// empty argument.
fn attache(folder: &Scratch, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.args(line.split_whitespace().map(|word| word.trim_matches('\''))).current_dir(folder.path(""));
    command.env_remove("ATTACHE_SOFTWARE").env_remove("COLUMNS").env_remove("RUST_LOG").env("RUST_BACKTRACE", "1");
    command.env("XDG_CACHE_HOME", std::env::temp_dir().join("attache-tests"));
    command.env("VK_LOADER_DRIVERS_SELECT", "*lvp*").env("LIBGL_ALWAYS_SOFTWARE", "1");
    command
}

/// Returns the size and the first bytes of each file below the folder; `None` for folders, links and pipes.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<(u64, Vec<u8>)>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("an entry");
        if kind.is_dir() {
            found.extend(content(&path));
        }
        let is_read = kind.is_file() && kind.len() < MOST_BYTES;
        let bytes = if is_read { fs::read(&path).unwrap_or_default() } else { Vec::new() };
        found.insert(path, kind.is_file().then_some((kind.len(), bytes)));
    }
    found
}

/// Returns what is wrong with the answer to a bad command line.
fn wrong((line, status, parts): &Bad, output: &Output, message: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if output.status.code() != Some(*status) {
        wrong.push(format!("{:?} instead of {status}", output.status));
    }
    wrong.extend(parts.iter().filter(|part| !message.contains(**part)).map(|part| format!("no \"{part}\"")));
    let traces = ["panicked", "backtrace", "os error", "src/"];
    wrong.extend(traces.iter().filter(|trace| message.contains(**trace)).map(|trace| format!("\"{trace}\"")));
    if message.lines().filter(|text| !text.is_empty()).count() > MOST_LINES {
        wrong.push("too many lines".to_owned());
    }
    if parts.len() < 2 {
        wrong.push(format!("the table names no thing and remedy for {line}"));
    }
    wrong
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns what is wrong with the answers to a bad command line, as text and as JSON.
fn judged(folder: &Scratch, bad: &Bad) -> Vec<String> {
    let start = Instant::now();
    let run =
        |more: &str| attache(folder, &format!("{} {more}", bad.0)).stdin(Stdio::null()).output().expect("it runs");
    let (plain, json) = (run(""), run("--json"));
    let (stdout, stderr) = (text(&plain.stdout), text(&plain.stderr));
    // A case that fails is a result, not an error of the command.
    let is_result = bad.1 == 1;
    let (message, other) = if is_result { (&stdout, &stderr) } else { (&stderr, &stdout) };
    let mut found = wrong(bad, &plain, message);
    if !other.is_empty() || is_result == message.starts_with("error: ") {
        found.push(format!("{stdout:?} on standard output and {stderr:?} on standard error"));
    }
    let object: Value = serde_json::from_slice(&json.stdout).unwrap_or_default();
    let key = if is_result { &object["failures"][0]["message"] } else { &object["error"]["message"] };
    let message = key.as_str().unwrap_or_default();
    let parts = if is_result { &[] } else { bad.2 };
    if json.status != plain.status || !parts.iter().all(|part| message.contains(part)) || !json.stderr.is_empty() {
        found.push(format!("{object} as JSON, {}", text(&json.stderr)));
    }
    if start.elapsed() > MOST_TIME {
        found.push(format!("it took {:?}", start.elapsed()));
    }
    let said = |wrong: String| format!("attache {}: {wrong}: {}", bad.0, text(&plain.stderr));
    found.into_iter().map(said).collect()
}

/// Checks all command lines of a table.
fn check(table: &[Bad]) {
    let folder = files::folder();
    let before = content(Path::new(&folder.path("")));
    let mut wrong = Vec::new();
    for bad in table {
        wrong.extend(judged(&folder, bad));
        let after = content(Path::new(&folder.path("")));
        if after != before {
            let changed = after.iter().filter(|(path, file)| before.get(*path) != Some(*file)).map(|(path, _)| path);
            wrong.push(format!("attache {}: it changed {:?}", bad.0, changed.collect::<Vec<_>>()));
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_at_least_forty() {
    let lines: Vec<&str> = TABLES.iter().flat_map(|(_, table)| table.iter().map(|bad| bad.0)).collect();
    assert!(lines.len() >= 40, "{}", lines.len());
    for command in ["run", "bench", "inspect", "diff", "check", "zoo", "dump", "completions", "devices", "cache"] {
        assert!(lines.iter().any(|line| line.split(' ').next() == Some(command)), "{command}");
    }
}

#[test]
fn bad_inputs_are_named_with_a_remedy_and_leave_nothing_behind() {
    std::thread::scope(|scope| {
        let running = TABLES.iter().map(|(name, table)| (name, scope.spawn(|| check(table)))).collect::<Vec<_>>();
        for (name, thread) in running {
            thread.join().unwrap_or_else(|panic| panic!("{name}:\n{}", panic.downcast_ref::<String>().expect("text")));
        }
    });
}

/// Checks a file without read permission. Root may read every file, so that nothing is checked for root here; a unit
/// test of the command checks the message.
#[cfg(unix)]
#[test]
fn what_may_not_be_read_is_said_to_be() {
    use std::os::unix::fs::PermissionsExt;
    let folder = files::folder();
    for file in ["relu.tflite", "x.npy", "three.txt"] {
        fs::set_permissions(folder.path(file), fs::Permissions::from_mode(0o000)).expect("permissions");
    }
    if fs::File::open(folder.path("relu.tflite")).is_ok() {
        return;
    }
    for (line, file) in [
        ("run relu.tflite", "relu.tflite"),
        ("run add.tflite -d cpu -i x.npy", "x.npy"),
        ("run scores.tflite -d cpu -l three.txt", "three.txt"),
    ] {
        let answer = attache(&folder, line).output().expect("it runs");
        let said = text(&answer.stderr);
        let is_named = said.contains(&format!("{file}: permission denied; make it readable"));
        assert!(answer.status.code() == Some(2) && is_named, "{line}: {said}");
    }
}

/// Checks that output to a pipe that nobody reads is no error, and causes no panic.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_error() {
    let folder = files::folder();
    for line in ["run relu.tflite -d cpu", "inspect relu.tflite", "completions bash", "--help", "zoo", "--json zoo"] {
        let mut command = attache(&folder, line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        drop(child.stdout.take());
        let answer = child.wait_with_output().expect("it ends");
        assert_eq!((answer.status.code(), text(&answer.stderr).as_str()), (Some(0), ""), "{line}");
    }
}

/// Checks that a result is printed although a file for it cannot be written, and that no other file is left.
#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_printed() {
    let folder = files::folder();
    let before = content(Path::new(&folder.path("")));
    for (line, part, key) in [
        ("run pixels.tflite -d cpu -i cat.png --draw full.png", "outputs are not written\n", "outputs"),
        ("run pixels.tflite -d cpu -i cat.png -o new/er --draw full.png", "outputs are not written\n", "outputs"),
        ("bench relu.tflite -d cpu -n 1 --warmup 0 -o /dev/full --svg new.svg", "end to end", "e2e_ms"),
    ] {
        let answer = attache(&folder, line).output().expect("it runs");
        let said = text(&answer.stderr);
        let is_said =
            said.starts_with("error: ") && said.ends_with("the disk is full; make room, or name another place\n");
        assert!(answer.status.code() == Some(2) && is_said, "{line}: {said}");
        assert!(text(&answer.stdout).contains(part), "{line}: {}", text(&answer.stdout));
        let answer = attache(&folder, &format!("{line} --json")).output().expect("it runs");
        let object: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
        assert!(
            answer.status.code() == Some(2) && answer.stderr.is_empty() && !object[key].is_null(),
            "{line}: {object}"
        );
        assert!(object["error"]["message"].as_str().is_some_and(|text| text.contains("disk is full")), "{object}");
        assert!(content(Path::new(&folder.path(""))) == before, "{line}: a file is left");
    }
}

/// Checks that output that is lost is an error.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let folder = files::folder();
    for line in
        ["run relu.tflite -d cpu", "inspect relu.tflite", "completions bash", "zoo --json", "--help", "--version"]
    {
        let full = fs::File::create("/dev/full").expect("a device");
        let answer = attache(&folder, line).stdout(full).output().expect("it runs");
        let said = "error: standard output: the disk is full; make room, or name another place\n";
        assert_eq!((answer.status.code(), text(&answer.stderr).as_str()), (Some(2), said), "{line}");
    }
}
