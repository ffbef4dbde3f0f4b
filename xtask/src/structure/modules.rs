//! [`Modules`], the modules of a crate and their imports from each other, read from the sources for the rule
//! about rooms.
//!
//! An import is any path that begins with `crate`, `self` or `super`, in a `use` or elsewhere, except in tests. It
//! refers to the module that defines the item; re-exports are followed.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::Source;

/// The path of a module within its crate, empty for the root.
pub(super) type Module = Vec<String>;

/// The modules of one crate and their imports.
pub(super) struct Modules {
    /// For each module, the names that its `use` declarations import, with the path of the imported item from
    /// the root.
    names: BTreeMap<Module, BTreeMap<String, Module>>,
    /// For each module, the paths from the root that its code contains, in `use` declarations and elsewhere.
    paths: BTreeMap<Module, BTreeSet<Module>>,
}

impl Modules {
    /// Reads the modules of a crate from its sources in `crates/NAME/src/`.
    pub(super) fn of(name: &str, sources: &[Source]) -> Self {
        let folder = format!("crates/{name}/src/");
        let mut modules = Self { names: BTreeMap::new(), paths: BTreeMap::new() };
        for source in sources {
            let Some(path) = source.path.strip_prefix(&folder) else { continue };
            let module = module(path);
            let text = &source.bare;
            for (place, path) in paths(text) {
                let Some(path) = absolute(&module, &path) else { continue };
                modules.paths.entry(module.clone()).or_default().insert(path.path.clone());
                if in_use(text, place) {
                    modules.names.entry(module.clone()).or_default().insert(path.name, path.path);
                }
            }
            // The path of a `use` may also begin with a submodule of this module.
            for path in uses(text) {
                let full = Imported { path: [module.as_slice(), &path.path].concat(), name: path.name };
                modules.names.entry(module.clone()).or_default().entry(full.name).or_insert(full.path);
            }
            modules.paths.entry(module.clone()).or_default();
            modules.names.entry(module).or_default();
        }
        modules
    }

    /// Returns each import as a pair of the importing and the imported module. Imports from submodules and
    /// from enclosing modules do not count.
    pub(super) fn imports(&self) -> BTreeSet<(Module, Module)> {
        let mut found = BTreeSet::new();
        for (module, paths) in &self.paths {
            for path in paths {
                let target = self.definition(path, 8);
                if !target.starts_with(module) && !module.starts_with(&target) {
                    found.insert((module.clone(), target));
                }
            }
        }
        found
    }

    /// Returns the module that defines the item of a path. Follows at most `depth` re-exports.
    fn definition(&self, path: &[String], depth: usize) -> Module {
        let mut module = Module::new();
        for (index, name) in path.iter().enumerate() {
            let inner = [module.as_slice(), std::slice::from_ref(name)].concat();
            if self.paths.contains_key(&inner) {
                module = inner;
                continue;
            }
            let exported = self.names.get(&module).and_then(|names| names.get(name));
            return match exported {
                Some(target) if depth > 0 && target != &inner => {
                    self.definition(&[target.as_slice(), &path[index + 1..]].concat(), depth - 1)
                }
                _ => module,
            };
        }
        module
    }

    /// Returns the sets of modules that import each other in a circle.
    pub(super) fn circles(&self) -> Vec<Vec<Module>> {
        let imports = self.imports();
        let reached = |from: &Module| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(module) = open.pop() {
                for (_, to) in imports.range((module.clone(), Module::new())..).take_while(|(from, _)| from == module) {
                    if seen.insert(to) {
                        open.push(to);
                    }
                }
            }
            seen
        };
        let all: BTreeMap<&Module, BTreeSet<&Module>> =
            self.paths.keys().map(|module| (module, reached(module))).collect();
        let mut circles: Vec<Vec<Module>> = Vec::new();
        for (module, seen) in &all {
            if !seen.contains(module) || circles.iter().flatten().any(|other| other == *module) {
                continue;
            }
            circles
                .push(seen.iter().filter(|other| all[*other].contains(module)).map(|other| (*other).clone()).collect());
        }
        circles
    }
}

/// An item that a `use` imports, by its path.
struct Imported {
    path: Module,
    /// The name under which the item is imported.
    name: String,
}

/// Returns the module of a file, given by the file's path within `src/`.
fn module(path: &str) -> Module {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(path, "lib" | "main") { Module::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Returns the path of an import from the root of the crate; `None` if it leaves the crate. `module` contains
/// the import.
fn absolute(module: &[String], path: &Imported) -> Option<Imported> {
    let (first, mut rest) = path.path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => &[][..],
        "self" => module,
        _ => module.split_last()?.1,
    };
    while let Some(("super", after)) = rest.split_first().map(|(name, after)| (name.as_str(), after)) {
        (base, rest) = (base.split_last()?.1, after);
    }
    Some(Imported { path: [base, rest].concat(), name: path.name.clone() })
}

/// Returns all paths in `text` that begin with `crate`, `self` or `super`, one for each leaf of a group, with
/// their byte positions.
fn paths(text: &str) -> Vec<(usize, Imported)> {
    let starts = ["crate::", "self::", "super::"].into_iter().flat_map(|start| text.match_indices(start));
    let is_part = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let starts = starts.map(|(at, _)| at).filter(|at| !is_part(&text[..*at]));
    starts.flat_map(|at| leaves(&text[at..]).into_iter().map(move |leaf| (at, leaf))).collect()
}

/// Returns the paths of `use` declarations that do not begin with `crate`, `self` or `super`.
fn uses(text: &str) -> Vec<Imported> {
    let declarations = text.match_indices("use ").filter(|(at, _)| {
        let before = text[..*at].trim_end_matches(' ');
        before.is_empty() || before.ends_with(['\n', ')']) || before.ends_with("pub")
    });
    let trees = declarations.map(|(at, word)| text[at + word.len()..].trim_start());
    let own = trees.filter(|tree| !["crate::", "self::", "super::"].iter().any(|start| tree.starts_with(start)));
    own.flat_map(leaves).collect()
}

/// Whether the path at the byte position `place` is the first one of a `use`.
fn in_use(text: &str, place: usize) -> bool {
    text[..place].trim_end().ends_with("use")
}

/// Returns the leaves of the tree of paths at the start of the text, such as `a::b` and `a::c` of
/// `a::{b, c}`.
fn leaves(text: &str) -> Vec<Imported> {
    let mut found = Vec::new();
    tree(text, &mut Vec::new(), &mut found);
    found
}

/// Adds the leaves of the tree at the start of the text, whose paths begin with `base`, to `found`. Returns
/// the text after the tree.
fn tree<'a>(text: &'a str, base: &mut Module, found: &mut Vec<Imported>) -> &'a str {
    let depth = base.len();
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(group) = after.strip_prefix('{').filter(|_| word.is_empty()) {
            rest = group;
            while let Some(inner) = rest.trim_start().strip_prefix(',').or_else(|| Some(rest.trim_start())) {
                let inner = inner.trim_start();
                if inner.is_empty() || inner.starts_with('}') {
                    rest = inner.strip_prefix('}').unwrap_or_default();
                    break;
                }
                let next = tree(inner, base, found);
                if next.len() == inner.len() {
                    rest = next;
                    break;
                }
                rest = next;
            }
            break;
        }
        // At the end of a path, `self` refers to the module before it.
        let is_itself = word == "self" && base.len() > depth.max(1);
        let is_name = !matches!(word, "" | "*") && !is_itself;
        if is_name {
            base.push(word.to_owned());
        }
        if let Some(inner) = after.strip_prefix("::") {
            rest = inner;
            continue;
        }
        rest = after;
        let renamed = after.trim_start().strip_prefix("as ").map(str::trim_start);
        let name = renamed.map(|name| {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            rest = &name[end..];
            name[..end].to_owned()
        });
        let name = name.or_else(|| base.last().cloned()).unwrap_or_default();
        found.push(Imported { path: base.clone(), name });
        break;
    }
    base.truncate(depth);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(module: &[String]) -> String {
        module.join("::")
    }

    fn modules() -> Modules {
        let file = |path: &str, text: &str| Source::new(format!("crates/x/src/{path}"), text);
        Modules::of(
            "x",
            &[
                file("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::Thing;\n"),
                file("a/mod.rs", "mod inner;\npub(crate) use inner::{Deep, other as renamed};\n"),
                file(
                    "a/inner.rs",
                    "use super::x;\nuse crate::{Thing, c::{self, y}};\n#[cfg(test)]\nmod tests { use crate::b::no; }",
                ),
                file("b.rs", "use crate::a::Deep;\nfn f() { crate::a::renamed(); }"),
                file("c.rs", "fn f() { super::Thing::new(); }"),
            ],
        )
    }

    #[test]
    fn imports_lead_to_where_things_are_defined() {
        let imports: Vec<String> =
            modules().imports().iter().map(|(from, to)| format!("{} -> {}", text(from), text(to))).collect();
        assert_eq!(imports, ["a::inner -> b", "a::inner -> c", "b -> a::inner", "c -> b"]);
    }

    #[test]
    fn circles_are_found() {
        let circles: Vec<Vec<String>> =
            modules().circles().iter().map(|circle| circle.iter().map(|module| text(module)).collect()).collect();
        assert_eq!(circles, [["a::inner", "b", "c"]]);
    }
}
