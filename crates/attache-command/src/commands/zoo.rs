//! `attache zoo`: lists the built-in models, or writes one to a file.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Command;
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::io::files;
use crate::io::places::Places;

#[derive(Args, Debug)]
pub(super) struct Zoo {
    /// Built-in model to write
    name: Option<String>,
    /// File to write it to
    #[arg(short, long, value_name = "FILE", requires = "name")]
    out: Option<PathBuf>,
}

impl Command for Zoo {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        let names: Vec<&str> = attache::zoo::names().collect();
        let Some(name) = self.name else {
            return Ok(Report::new(names.join("\n"), json!({ "models": names })));
        };
        if !names.contains(&name.as_str()) {
            let text = format!("there is no built-in model \"{name}\" (there are: {})", names.join(", "));
            return Err(Failure::usage(text));
        }
        let missing = || Failure::usage(format!("name a file for the built-in model \"{name}\" with --out FILE"));
        let out = self.out.ok_or_else(missing)?;
        Places::default().writes("--out", [out.as_path()]).check()?;
        let bytes = attache::zoo::build(&name).unwrap_or_default();
        files::write(&out, &bytes)?;
        let text = format!("{}: {name}, {} bytes", out.display(), bytes.len());
        Ok(Report::new(text, json!({ "model": name, "file": files::json(&out), "bytes": bytes.len() })))
    }
}
