//! Checks the plug-in in LiteRT, where Python has it.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{root, tested_libraries};

/// The Python that has LiteRT, unless the variable `ATTACHE_PYTHON` names one.
const PYTHON: &str = "python3";

/// Runs the golden cases and random graphs in LiteRT with the plug-in, and makes and destroys it many times.
pub(crate) fn check() -> Result<()> {
    let python = std::env::var("ATTACHE_PYTHON").unwrap_or_else(|_| PYTHON.to_owned());
    let import = Command::new(&python).args(["-c", "import ai_edge_litert, numpy"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!(
            "LEFT OUT, as {python} has no ai_edge_litert (ATTACHE_PYTHON names another Python): the plug-in in LiteRT"
        );
        return Ok(());
    }
    let library = tested_libraries().join("libattache_delegate.so");
    let folder = root().join("conformance");
    let script = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.current_dir(&folder).arg("plugin.py").arg(&library);
        run(command.args(["--option", "software=true"]).args(arguments))
    };
    script(&["--option", "quantized=exact", "compare", "graphs", "cases"])?;
    script(&["cycles", "graphs/f32/graph_0000/model.tflite", "--count", "300"])
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
