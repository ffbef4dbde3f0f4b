//! Generates the checked-in files that are derived from other files, and checks that they are up to date.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::compact::compact;
use crate::{TESTED, cargo, root, speed_chart};

/// The version of `flatc` whose generated code fits the `flatbuffers` crate of the workspace.
const FLATC: &str = "25.12.19";

/// A FlatBuffers schema from which code is generated.
struct Schema {
    /// The name of `schema/NAME.fbs` and of the code that is generated from it.
    name: &'static str,
    /// Arguments of `flatc` in addition to those for every schema.
    arguments: &'static [&'static str],
}

const SCHEMAS: [Schema; 2] = [
    Schema { name: "metadata", arguments: &[] },
    // The model writer needs the structs with owned fields.
    Schema { name: "tflite", arguments: &["--gen-object-api"] },
];

impl Schema {
    fn source(&self) -> PathBuf {
        model_crate().join("schema").join(self.name).with_extension("fbs")
    }

    fn generated(&self, ending: &str) -> PathBuf {
        model_crate().join("src/generated").join(format!("{}{ending}", self.name))
    }

    fn hash(&self) -> Result<String> {
        let source = self.source();
        Ok(fnv1a(&std::fs::read(&source).with_context(|| source.display().to_string())?))
    }

    fn is_current(&self) -> Result<bool> {
        let path = self.generated(".hash");
        let stated = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(stated.trim() == self.hash()?)
    }

    fn generate(&self) -> Result<()> {
        let mut flatc = Command::new("flatc");
        flatc.arg("--rust").args(self.arguments).arg("-o").arg(model_crate().join("src/generated")).arg(self.source());
        let status = flatc.status()?;
        ensure!(status.success(), "{flatc:?}: {status}");
        let path = self.generated("_generated.rs");
        let code = std::fs::read_to_string(&path)?;
        // Removes the attribute, because other crates construct the structs with literals.
        let lines = code.split_inclusive('\n').filter(|line| line.trim_end() != "#[non_exhaustive]");
        std::fs::write(&path, compact(&lines.collect::<String>()))?;
        Ok(std::fs::write(self.generated(".hash"), format!("{}\n", self.hash()?))?)
    }
}

/// Generates all files. Code from schemas is generated only if the right version of `flatc` is installed.
pub(crate) fn run() -> Result<()> {
    let found = flatc_version();
    for schema in &SCHEMAS {
        if found.as_deref() == Some(FLATC) {
            schema.generate()?;
            println!("generated {}", schema.generated("_generated.rs").display());
        } else if !schema.is_current()? {
            let found = found.as_deref().unwrap_or("none");
            bail!("{} changed: its code needs flatc {FLATC} (here: {found})", schema.source().display());
        }
    }
    std::fs::write(root().join(speed_chart::PATH), speed_chart::text()?)?;
    println!("generated {}", speed_chart::PATH);
    // Uses the features of the whole workspace, so that nothing is rebuilt.
    let mut manual = cargo();
    manual.args(["test", "--quiet"]).args(TESTED).args(["--test", "manual"]).env("ATTACHE_GENERATE", "1");
    let status = manual.status()?;
    ensure!(status.success(), "{manual:?}: {status}");
    println!("generated docs/operators.md");
    Ok(())
}

/// Checks that the code of each schema was generated from the current schema, and that the chart shows the current
/// figures. (The test `manual` of `attache-ops` checks that the manual is up to date.)
pub(crate) fn check() -> Result<()> {
    let remedy = "run `cargo xtask generate`";
    for schema in &SCHEMAS {
        ensure!(
            schema.is_current()?,
            "{} is not what its code was generated from; {remedy}",
            schema.source().display()
        );
    }
    let chart = std::fs::read_to_string(root().join(speed_chart::PATH)).unwrap_or_default();
    ensure!(chart == speed_chart::text()?, "{} is not what docs/performance.md says; {remedy}", speed_chart::PATH);
    Ok(())
}

fn model_crate() -> PathBuf {
    root().join("crates/attache-model")
}

fn flatc_version() -> Option<String> {
    let output = Command::new("flatc").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().last().map(str::to_owned)
}

/// Returns the 64-bit FNV-1a hash as 16 hexadecimal digits.
fn fnv1a(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_fnv() {
        assert_eq!(fnv1a(b""), "cbf29ce484222325");
        assert_eq!(fnv1a(b"a"), "af63dc4c8601ec8c");
    }
}
