//! Checks the source for the structure rules in `ARCHITECTURE.md` and `CONTRIBUTING.md`.

mod edges;
mod links;
mod mentions;
mod modules;
mod names;
mod paths;
mod rooms;
mod sizes;
mod unsafety;

use anyhow::{Result, ensure};

/// A structure rule, with the function that finds where it is broken.
pub(crate) struct Rule {
    /// The statement of the rule, as it is printed.
    pub(crate) about: &'static str,
    /// Returns the places that break the rule, one text per place.
    find: fn() -> Result<Vec<String>>,
}

/// All structure rules, in the order in which they are checked.
pub(crate) static RULES: &[Rule] = &[
    Rule { about: "crates depend only on the crates that the architecture allows", find: edges::find },
    Rule { about: "an operator is mentioned outside its own file in at most two lines", find: mentions::find },
    Rule { about: "rooms import only from rooms before them, and modules in no circle", find: rooms::find },
    Rule { about: "no hand-written source file has more than 800 lines", find: sizes::files },
    Rule { about: "no function has more than 80 lines without a reason", find: sizes::functions },
    Rule { about: "no two public types have the same name", find: names::find },
    Rule { about: "no file names a path of somebody's machine", find: paths::find },
    Rule { about: "links in the documentation lead somewhere", find: links::find },
    Rule {
        about: "`unsafe` stands where docs/security.md lists it, with a reason at each block",
        find: unsafety::find,
    },
];

/// Checks all rules and prints whether each is kept. If any is broken, returns an error that lists all
/// places.
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
