//! Checks that no two public types have the same name, so that a name has one meaning across the workspace.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::source::{Source, sources, words};

/// Names that several public types may share, each with the reason.
static SHARED: &[(&str, &str)] =
    &[("Tensor", "a model's tensor, as the file describes it and in the graph that is imported from the file")];

/// The keywords that declare a type.
const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Returns the names that several public types share without an exception, and the exceptions that no longer
/// apply.
pub(super) fn find() -> Result<Vec<String>> {
    Ok(broken(SHARED, &sources()?))
}

fn broken(shared: &[(&str, &str)], sources: &[Source]) -> Vec<String> {
    let mut types = BTreeMap::<&str, Vec<&str>>::new();
    for source in sources {
        public_types(&source.bare).for_each(|name| types.entry(name).or_default().push(&source.path));
    }
    types.retain(|_, paths| paths.len() > 1);
    let is_shared = |name: &str| shared.iter().any(|(other, _)| *other == name);
    let twins = types.iter().filter(|(name, _)| !is_shared(name));
    let twins = twins.map(|(name, paths)| format!("`{name}` is declared in {}", paths.join(" and in ")));
    let idle = shared.iter().filter(|(name, _)| !types.contains_key(name));
    twins.chain(idle.map(|(name, _)| format!("`{name}` is an exception, but there is only one"))).collect()
}

/// Returns the names of the public types that a file declares. `bare` is the file without comments and
/// strings.
fn public_types(bare: &str) -> impl Iterator<Item = &str> {
    words(bare, "pub").filter_map(move |place| {
        let mut words = bare[place + "pub".len()..].split_whitespace().filter(|word| *word != "unsafe");
        KEYWORDS.contains(&words.next()?).then_some(())?;
        let name = words.next()?;
        let name = name.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
        // A macro's variable has no name here.
        (!name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_types_of_one_name_are_found() {
        let file = |path: &str, text: &str| Source::new(format!("crates/{path}"), text);
        let sources = [
            file(
                "a/src/lib.rs",
                "pub struct Plan<T> { pub kind: Kind }\npub(crate) enum Kind {}\npub type Cost = u64;",
            ),
            file(
                "b/src/lib.rs",
                "pub unsafe trait Plan: Send {}\npub enum Kind {}\n// pub struct Cost;\npub fn cost() {}",
            ),
        ];
        let twins = "`Plan` is declared in crates/a/src/lib.rs and in crates/b/src/lib.rs";
        assert_eq!(broken(&[], &sources), [twins]);
        assert_eq!(broken(&[("Plan", "one meaning")], &sources), [] as [&str; 0]);
        assert_eq!(broken(&[("Cost", "none")], &sources), [twins, "`Cost` is an exception, but there is only one"],);
    }
}
