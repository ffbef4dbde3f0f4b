//! Finds links in Markdown files that lead nowhere in the repository.

use anyhow::Result;

use crate::root;
use crate::source::{read, tracked};

/// The address under which the repository's files are shown. Pages of the guide link with it to files outside of the
/// guide, so that the links also work in the book that is made of them.
const ONLINE: &str = "https://github.com/attache-rs/attache/blob/main/";

/// The folder of the guide's pages.
const GUIDE: &str = "docs/guide/src/";

/// Returns the links whose file or heading does not exist, and relative links that lead out of the guide.
pub(super) fn find() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in tracked()?.into_iter().filter(|path| path.ends_with(".md")) {
        for link in links(&read(&path)?) {
            let Some((file, heading)) = target(&path, &link) else { continue };
            let fault = match root().join(&file) {
                _ if path.starts_with(GUIDE) && !link.starts_with(ONLINE) && !file.starts_with(GUIDE) => {
                    format!("leads out of the guide; write {ONLINE}{file}")
                }
                whole if !whole.exists() => format!("there is no {file}"),
                _ if heading.is_empty() || headings(&read(&file)?).contains(&heading) => continue,
                _ => format!("{file} has no heading #{heading}"),
            };
            found.push(format!("{path}: {link}: {fault}"));
        }
    }
    Ok(found)
}

/// Returns the targets of all links and pictures outside of code blocks.
fn links(text: &str) -> Vec<String> {
    let after = |line: &str| -> Vec<String> {
        line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
    };
    prose(text).flat_map(after).collect()
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the file of the repository and the heading in it that a link on the page `path` leads to; `None` for a link
/// to elsewhere.
fn target(path: &str, link: &str) -> Option<(String, String)> {
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let parts: Vec<&str> = match file.strip_prefix(ONLINE) {
        Some(file) => file.split('/').collect(),
        None if file.contains(':') => return None,
        None if file.is_empty() => path.split('/').collect(),
        None => path.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().chain(file.split('/')).collect(),
    };
    let mut whole: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            ".." => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    Some((whole.join("/"), heading.to_owned()))
}

/// Returns the names under which a page's headings are linked: lower-case, without punctuation, with hyphens for spaces.
fn headings(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    prose(text).filter(|line| line.starts_with('#')).map(heading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let text = "![a](b.png) and [c](d.md#e)\n```\n[f](g)\n```\n";
        assert_eq!(links(text), ["b.png", "d.md#e"]);
    }

    #[test]
    fn targets_are_relative_to_the_page() {
        let to = |link: &str| target("docs/guide/page.md", link).map(|(file, heading)| format!("{file} {heading}"));
        assert_eq!(to("../a.md#b").as_deref(), Some("docs/a.md b"));
        assert_eq!(to("#b").as_deref(), Some("docs/guide/page.md b"));
        assert_eq!(to(&format!("{ONLINE}README.md")).as_deref(), Some("README.md "));
        assert_eq!(to("https://host.example/a.md"), None);
    }

    #[test]
    fn headings_are_named_as_on_the_web() {
        assert_eq!(headings("# Start-up, and caches\n## `unsafe`\n"), ["start-up-and-caches", "unsafe"]);
    }
}
