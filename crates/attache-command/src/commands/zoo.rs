//! `attache zoo`: lists the built-in models, or writes one to a file.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Command;
use crate::console::{Console, Report};
use crate::failure::Failure;
use crate::io::files;

#[derive(Args, Debug)]
pub(super) struct Zoo {
    /// Built-in model to write
    #[arg(requires = "out")]
    name: Option<String>,
    /// File to write it to
    #[arg(short, long, value_name = "FILE", requires = "name")]
    out: Option<PathBuf>,
}

impl Command for Zoo {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        let names: Vec<&str> = attache::zoo::names().collect();
        let (Some(name), Some(out)) = (self.name, self.out) else {
            return Ok(Report::new(names.join("\n"), json!({ "models": names })));
        };
        let unknown =
            || Failure::usage(format!("there is no built-in model \"{name}\" (there are: {})", names.join(", ")));
        let bytes = attache::zoo::build(&name).ok_or_else(unknown)?;
        files::write(&out, &bytes)?;
        let text = format!("{}: {name}, {} bytes", out.display(), bytes.len());
        Ok(Report::new(text, json!({ "model": name, "file": files::json(&out), "bytes": bytes.len() })))
    }
}
