//! `attache cache`: lists, verifies or clears the folder of stored plans and packed weights.

use std::path::PathBuf;
use std::time::SystemTime;

use attache::{CacheEntry, CacheError, CacheFolder};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Command;
use crate::console::{Console, Report};
use crate::failure::{Failure, Status};
use crate::io::files;

/// What to do with the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// List what is stored, the latest first
    List,
    /// Delete everything that is stored
    Clear,
    /// Read everything that is stored, and compare checksums
    Verify,
}

#[derive(Args, Debug)]
pub(super) struct Cache {
    /// What to do
    action: Action,
    /// The folder; by default the user's folder for caches
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Command for Cache {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        let none = || Failure::usage("this user has no folder for caches; name one with --cache DIR");
        let folder = self.cache.or_else(CacheFolder::user_folder).ok_or_else(none)?;
        if !folder.exists() {
            let text = format!("{}: nothing is stored", folder.display());
            return Ok(Report::new(text, json!({ "folder": folder, "entries": [] })));
        }
        if !folder.is_dir() {
            return Err(Failure::usage("this is a file; name a folder").at(folder.display()));
        }
        let cache = CacheFolder::open(&folder).map_err(|error| match error {
            CacheError::Io { source, .. } => files::unreadable(&folder, &source),
            error => attache::Error::from(error).into(),
        })?;
        match self.action {
            Action::List => list(&cache),
            Action::Clear => {
                let deleted = cache.clear().map_err(attache::Error::from)?;
                let text = format!("{}: {deleted} deleted", folder.display());
                Ok(Report::new(text, json!({ "folder": folder, "deleted": deleted })))
            }
            Action::Verify => verify(&cache),
        }
    }
}

fn list(cache: &CacheFolder) -> Result<Report, Failure> {
    let entries = cache.entries().map_err(attache::Error::from)?;
    let sum: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let lines = entries.iter().map(|entry| format!("{:>12}  {}  {}\n", entry.bytes, entry.file, described(entry)));
    let text = format!("{}{}: {} stored, {sum} bytes", lines.collect::<String>(), folder(cache), entries.len());
    let entries: Vec<Value> = entries.iter().map(object).collect();
    Ok(Report::new(text, json!({ "folder": cache.folder(), "bytes": sum, "entries": entries })))
}

fn verify(cache: &CacheFolder) -> Result<Report, Failure> {
    let entries = cache.entries().map_err(attache::Error::from)?;
    let (mut lines, mut objects, mut damaged) = (String::new(), Vec::new(), 0);
    for entry in &entries {
        let error = cache.verify(entry).err().map(|error| error.to_string());
        let mut object = object(entry);
        object["error"] = json!(error);
        objects.push(object);
        if let Some(error) = error {
            damaged += 1;
            lines += &format!("{error}\n");
        }
    }
    let remedy = if damaged == 0 { "" } else { "; these are made again when they are needed" };
    let text = format!("{lines}{}: {} stored, {damaged} damaged{remedy}", folder(cache), entries.len());
    let report = Report::new(text, json!({ "folder": cache.folder(), "damaged": damaged, "entries": objects }));
    Ok(Report { status: if damaged == 0 { Status::Success } else { Status::Comparison }, ..report })
}

fn folder(cache: &CacheFolder) -> String {
    cache.folder().display().to_string()
}

fn described(entry: &CacheEntry) -> &str {
    if entry.description.is_empty() { "damaged" } else { &entry.description }
}

fn object(entry: &CacheEntry) -> Value {
    let used = entry.used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |age| age.as_secs());
    json!({ "file": entry.file, "description": entry.description, "bytes": entry.bytes, "used_unix_seconds": used })
}
