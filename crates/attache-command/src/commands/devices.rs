//! `attache devices`: lists the GPUs of this machine, each once per graphics interface.

use clap::Args;
use serde_json::json;

use super::Command;
use crate::console::{Console, Report};
use crate::device::{Adapter, adapters};
use crate::failure::Failure;

#[derive(Args, Debug)]
pub(super) struct Devices {}

impl Command for Devices {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        let adapters = adapters();
        Ok(Report::new(text(console, &adapters), json!({ "devices": adapters })))
    }
}

fn text(console: &Console, adapters: &[Adapter]) -> String {
    if adapters.is_empty() {
        return "no GPU, and no software in its place".to_owned();
    }
    adapters.iter().map(|adapter| describe(console, adapter)).collect::<Vec<_>>().join("\n")
}

fn describe(console: &Console, adapter: &Adapter) -> String {
    let Adapter { name, backend, driver, device_type, is_software, features, limits, unusable } = adapter;
    let software = if *is_software { "; used only when asked for" } else { "" };
    let limits: Vec<_> = limits.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let mut lines = vec![format!("{} ({backend}, {device_type}{software})", console.bold(name))];
    let parts = [
        ("cannot be used", unusable.clone().unwrap_or_default()),
        ("driver", driver.clone()),
        ("features", features.join(", ")),
        ("limits", limits.join(", ")),
    ];
    lines.extend(parts.iter().filter(|part| !part.1.is_empty()).map(|(what, text)| format!("  {what}: {text}")));
    lines.join("\n")
}
