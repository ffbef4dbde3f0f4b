//! `attache cache`: lists, verifies or clears the folder of stored plans and packed weights.

use std::path::PathBuf;
use std::time::SystemTime;

use attache::{CacheEntry, CacheError, CacheFolder, Model};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Command;
use crate::console::{Console, Report};
use crate::failure::{Failure, Status};
use crate::io::files;
use crate::io::source::Source;

/// What to do with the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// List what is stored, the latest first
    List,
    /// Delete everything that is stored
    Clear,
    /// Read everything that is stored, and compare checksums; with a MODEL, also compare its weights
    Verify,
}

#[derive(Args, Debug)]
pub(super) struct Cache {
    /// What to do
    action: Action,
    /// With `verify`: a model whose weights must be those that are stored under its token
    model: Option<PathBuf>,
    /// With a MODEL: the token that the program gives it; by default, tokens of all models of its structure are checked
    #[arg(long, value_name = "TOKEN", requires = "model")]
    model_token: Option<String>,
    /// The folder; by default the user's folder for caches
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

impl Command for Cache {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        if self.model.is_some() && self.action != Action::Verify {
            return Err(Failure::usage("only `attache cache verify` takes a model; leave it out"));
        }
        let model = self.model.map(|model| Source::find(&model)?.open()).transpose()?;
        let none = || Failure::usage("this user has no folder for caches; name one with --cache DIR");
        let folder = self.cache.or_else(CacheFolder::user_folder).ok_or_else(none)?;
        if !folder.exists() {
            let text = format!("{}: nothing is stored", folder.display());
            return Ok(Report::new(text, json!({ "folder": files::json(&folder), "entries": [] })));
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
                Ok(Report::new(text, json!({ "folder": files::json(&folder), "deleted": deleted })))
            }
            Action::Verify => verify(&cache, model.as_ref(), self.model_token.as_deref()),
        }
    }
}

fn list(cache: &CacheFolder) -> Result<Report, Failure> {
    let entries = cache.entries().map_err(attache::Error::from)?;
    let sum: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let lines = entries.iter().map(|entry| format!("{:>12}  {}  {}\n", entry.bytes, entry.file, described(entry)));
    let text = format!("{}{}: {} stored, {sum} bytes", lines.collect::<String>(), folder(cache), entries.len());
    let entries: Vec<Value> = entries.iter().map(object).collect();
    Ok(Report::new(text, json!({ "folder": files::json(cache.folder()), "bytes": sum, "entries": entries })))
}

fn verify(cache: &CacheFolder, model: Option<&Model>, token: Option<&str>) -> Result<Report, Failure> {
    let entries = cache.entries().map_err(attache::Error::from)?;
    let (mut lines, mut objects, mut damaged, mut others) = (String::new(), Vec::new(), 0, 0);
    for entry in &entries {
        let whole = cache.verify(entry).inspect_err(|_| damaged += 1);
        let same_weights = || model.map_or(Ok(()), |model| cache.verify_weights(entry, model, token));
        let verified = whole.and_then(|()| same_weights().inspect_err(|_| others += 1));
        let error = verified.err().map(|error| error.to_string());
        let mut object = object(entry);
        object["error"] = json!(error);
        objects.push(object);
        if let Some(error) = error {
            lines += &format!("{error}\n");
        }
    }
    let remedy = if damaged == 0 { "" } else { "; these are made again when they are needed" };
    let of_others = if model.is_none() { String::new() } else { format!(", {others} of other weights") };
    let text = format!("{lines}{}: {} stored, {damaged} damaged{remedy}{of_others}", folder(cache), entries.len());
    let object = json!({ "folder": files::json(cache.folder()), "damaged": damaged, "of_other_weights": others, "entries": objects });
    let status = if damaged + others == 0 { Status::Success } else { Status::Comparison };
    Ok(Report { status, ..Report::new(text, object) })
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
