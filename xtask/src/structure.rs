//! The rules of structure that `ARCHITECTURE.md` and `CONTRIBUTING.md` state, as checks of the source.

mod edges;
mod mentions;
mod modules;
mod paths;
mod rooms;
mod sizes;
mod unsafety;

use anyhow::{Result, ensure};

/// One rule.
pub(crate) struct Rule {
    /// What must hold.
    pub(crate) about: &'static str,
    /// Where it doesn't.
    find: fn() -> Result<Vec<String>>,
}

/// Every rule.
pub(crate) static RULES: &[Rule] = &[
    Rule { about: "crates depend only on the crates that the architecture allows", find: edges::find },
    Rule { about: "an operator is mentioned outside its own file in at most two lines", find: mentions::find },
    Rule { about: "rooms import only from rooms before them, and modules in no circle", find: rooms::find },
    Rule { about: "no hand-written source file has more than 800 lines", find: sizes::find },
    Rule { about: "no file names a path of somebody's machine", find: paths::find },
    Rule {
        about: "`unsafe` stands where docs/security.md lists it, with a reason at each block",
        find: unsafety::find,
    },
];

/// Runs every rule; an error where one is broken, with all places.
pub(crate) fn run() -> Result<()> {
    rooms::print()?;
    let mut broken = Vec::new();
    for rule in RULES {
        let places = (rule.find)()?;
        println!("{}: {}", rule.about, if places.is_empty() { "yes" } else { "NO" });
        broken.extend(places.into_iter().map(|place| format!("{}: {place}", rule.about)));
    }
    ensure!(broken.is_empty(), "{} places break a rule:\n{}", broken.len(), broken.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_keeps_its_rules() {
        if let Err(error) = super::run() {
            panic!("{error:#}");
        }
    }
}
