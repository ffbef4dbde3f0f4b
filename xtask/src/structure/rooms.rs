//! Checks the imports between "rooms", the top-level modules of a crate in the order in which data passes
//! through them. A room imports only from rooms before it, and there are no circular imports between modules.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::modules::{Module, Modules};
use crate::source::{Source, sources};

/// The checked crates, each with its rooms in order.
static ROOMS: &[(&str, &[&str])] = &[
    (
        "attache",
        &[
            "profile",
            "cache",
            "delegate",
            "error",
            "cost",
            "limits",
            "report",
            "partition",
            "runtime",
            "interpreter",
            "stages",
            "diff",
            "gpu",
            "zoo",
        ],
    ),
    (
        "attache-command",
        &[
            "logging",
            "failure",
            "console",
            "io",
            "draw",
            "measure",
            "arguments",
            "device",
            "inputs",
            "inspect",
            "commands",
        ],
    ),
    ("attache-gpu", &["kernel", "fuse", "wgsl", "variants", "layout", "plan", "device", "bind", "execute"]),
    ("attache-ops", &["subgraphs", "definition", "resolver", "shared", "operators", "packed", "import"]),
];

/// Returns the imports against the order, and the circular imports.
pub(super) fn find() -> Result<Vec<String>> {
    let sources = sources()?;
    Ok(ROOMS.iter().flat_map(|(name, rooms)| broken(name, rooms, &sources)).collect())
}

/// Prints the rooms of each crate, each with the rooms from which it imports.
pub(super) fn print() -> Result<()> {
    let sources = sources()?;
    for (name, rooms) in ROOMS {
        println!("rooms of {name}:");
        let mut edges = BTreeMap::<String, BTreeSet<String>>::new();
        for (from, to) in Modules::of(name, &sources).imports() {
            edges.entry(room(&from)).or_default().insert(room(&to));
        }
        for room in *rooms {
            let others = edges.remove(*room).unwrap_or_default();
            let others: Vec<&str> =
                rooms.iter().copied().filter(|other| other != room && others.contains(*other)).collect();
            println!("  {room:12} {}", if others.is_empty() { "-".to_owned() } else { others.join(", ") });
        }
    }
    Ok(())
}

fn broken(name: &str, rooms: &[&str], sources: &[Source]) -> Vec<String> {
    let modules = Modules::of(name, sources);
    let place = |module: &Module| rooms.iter().position(|known| *known == room(module));
    let mut found = Vec::new();
    for (from, to) in modules.imports() {
        let (from_text, to_text) = (from.join("::"), to.join("::"));
        match (place(&from), place(&to)) {
            (Some(from), Some(to)) if to <= from => {}
            (Some(_), Some(_)) => found.push(format!("{name}: {from_text} imports from {to_text}, which comes later")),
            (None, _) if !from.is_empty() => found.push(format!("{name}: {from_text} is in no room")),
            _ => {}
        }
    }
    let circles = modules.circles();
    found.extend(circles.iter().map(|circle| {
        let members: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        format!("{name}: a circle of imports: {}", members.join(", "))
    }));
    found
}

/// Returns the room of a module: the first name of its path.
fn room(module: &Module) -> String {
    module.first().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_against_the_order_are_found() {
        let file = |path: &str, text: &str| Source::new(format!("crates/x/src/{path}"), text);
        let sources = [
            file("lib.rs", "mod first;\nmod second;\nmod third;"),
            file("first/mod.rs", "use crate::second::late;"),
            file("second.rs", "use crate::first::early;"),
            file("third.rs", "use crate::first::early;"),
        ];
        assert_eq!(
            broken("x", &["first", "second"], &sources),
            [
                "x: first imports from second, which comes later",
                "x: third is in no room",
                "x: a circle of imports: first, second",
            ]
        );
    }
}
