//! Hashes the sources that make plans and packed weights, so that what another version stored is not used.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates whose sources decide what is stored.
const CRATES: [&str; 8] = [
    "attache",
    "attache-base",
    "attache-gpu",
    "attache-gpu-ir",
    "attache-graph",
    "attache-kernels",
    "attache-ops",
    "attache-passes",
];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    for name in CRATES {
        // Packages of a registry have one version of each other, so their own version says it all.
        let sources = here.join("..").join(name).join("src");
        if sources.is_dir() {
            println!("cargo::rerun-if-changed={}", sources.display());
            hash(&sources, &mut hasher)?;
        }
    }
    // Compiler options decide, for example, whether a product and a sum are fused.
    for variable in ["CARGO_CFG_TARGET_ARCH", "CARGO_ENCODED_RUSTFLAGS"] {
        env::var(variable).unwrap_or_default().hash(&mut hasher);
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=ATTACHE_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Hashes the names and contents of all files below a folder, in alphabetical order.
fn hash(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    for path in paths.collect::<io::Result<BTreeSet<PathBuf>>>()? {
        if path.is_dir() {
            hash(&path, hasher)?;
        } else {
            path.file_name().hash(hasher);
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
