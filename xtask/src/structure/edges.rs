//! Checks that the crates of the workspace depend only on the crates that they may depend on.

use anyhow::Result;
use serde_json::Value;

use crate::check::packages;

/// Each crate with the crates of the workspace that it may depend on, without the prefix `attache-`. All
/// crates except the command's may also depend on `attache-base`, which has the shared types.
static ALLOWED: &[(&str, &[&str])] = &[
    ("attache", &["gpu", "gpu-ir", "graph", "kernels", "model", "ops", "passes"]),
    ("attache-abi", &["attache"]),
    ("attache-base", &[]),
    ("attache-c", &["attache", "abi", "external"]),
    // Its tests make models with the library.
    ("attache-cli", &["command", "attache", "external"]),
    ("attache-command", &["attache", "external"]),
    // Its tests load it as a delegate of others.
    ("attache-delegate", &["attache", "abi", "external"]),
    ("attache-example-delegate", &["attache"]),
    ("attache-examples", &["attache", "example-delegate"]),
    ("attache-external", &["attache", "abi"]),
    ("attache-gpu", &["gpu-ir"]),
    ("attache-gpu-ir", &[]),
    ("attache-graph", &["gpu-ir"]),
    ("attache-kernels", &[]),
    ("attache-model", &[]),
    // Its tests let the nodes of called subgraphs take the place of calls.
    ("attache-ops", &["gpu-ir", "graph", "kernels", "model", "passes"]),
    ("attache-passes", &["graph"]),
    ("attache-python", &["attache", "abi", "command", "external"]),
    ("xtask", &[]),
];

/// External crates that only one crate of the workspace may use, since it isolates the others from them. Tests may use
/// them.
static OWNED: &[(&str, &str)] = &[
    ("ash", "attache-gpu"),
    ("clap", "attache-command"),
    ("flatbuffers", "attache-model"),
    ("maud", "attache-command"),
    ("memmap2", "attache-model"),
    ("naga", "attache-gpu"),
    ("numpy", "attache-python"),
    ("plotters", "attache-command"),
    ("pyo3", "attache-python"),
    ("wgpu", "attache-gpu"),
];

/// Returns the dependencies that are not allowed, as text.
pub(super) fn find() -> Result<Vec<String>> {
    Ok(packages()?.iter().flat_map(forbidden).collect())
}

fn forbidden(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!("{name} is not in the table of crates (xtask/src/structure/edges.rs)")];
    };
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let wrong = dependencies.filter(|dependency| {
        let of_tests = dependency["kind"] == "dev";
        let dependency = dependency["name"].as_str().unwrap_or_default();
        let ours = dependency.starts_with("attache");
        !(of_tests && !ours || is_allowed(name, allowed, dependency))
    });
    let wrong = wrong.filter_map(|dependency| dependency["name"].as_str());
    wrong.map(|dependency| format!("{name} depends on {dependency}")).collect()
}

fn is_allowed(name: &str, allowed: &[&str], dependency: &str) -> bool {
    match dependency.strip_prefix("attache-").or((dependency == "attache").then_some(dependency)) {
        Some("base") => !["attache-cli", "attache-command"].contains(&name),
        Some(short) => allowed.contains(&short),
        None => OWNED.iter().all(|(owned, owner)| *owned != dependency || *owner == name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forbidden_edges_are_found() {
        let package = |name: &str, dependencies: &[&str]| {
            let dependencies: Vec<_> = dependencies.iter().map(|name| json!({ "name": name })).collect();
            forbidden(&json!({ "name": name, "dependencies": dependencies }))
        };
        assert!(package("attache-ops", &["attache-base", "attache-graph", "half"]).is_empty());
        assert_eq!(package("attache-gpu", &["attache-graph", "wgpu"]), ["attache-gpu depends on attache-graph"]);
        assert_eq!(package("attache-ops", &["wgpu"]), ["attache-ops depends on wgpu"]);
        assert_eq!(
            package("attache-command", &["attache", "attache-base"]),
            ["attache-command depends on attache-base"]
        );
        assert_eq!(package("attache-new", &[]).len(), 1);
    }
}
