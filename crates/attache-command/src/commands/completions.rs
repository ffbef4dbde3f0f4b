//! `attache completions`: prints a script with which a shell completes commands and options.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use super::Command;
use crate::console::{Console, Report};
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(super) struct Completions {
    /// Shell for which the script is
    shell: Shell,
}

const HELP: &str = "For instance:
  attache completions bash > ~/.local/share/bash-completion/completions/attache
  attache completions zsh > \"${fpath[1]}/_attache\"
  attache completions fish > ~/.config/fish/completions/attache.fish";

impl Command for Completions {
    fn run(self, _: &Console) -> Result<Report, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command_line(), "attache", &mut script);
        let text = String::from_utf8_lossy(&script).into_owned();
        let json = json!({ "shell": self.shell.to_string(), "text": text });
        Ok(Report::new(text, json).verbatim())
    }
}
