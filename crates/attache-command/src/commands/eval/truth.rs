//! The true classes of pictures: which label of a file belongs to which picture of a folder.
//!
//! The file has a line for each picture: either the label alone, in the order of the pictures' names, or the name of the
//! picture, a comma, tab or space, and the label.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::pictures;
use crate::failure::Failure;
use crate::io::files;

/// A picture with the label of its class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Labelled {
    pub(crate) picture: PathBuf,
    pub(crate) label: String,
    /// The line of the label in its file, from 1.
    pub(crate) line: usize,
}

/// The pictures of a data set that have labels, and what is wrong with the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pairs {
    pub(crate) labelled: Vec<Labelled>,
    pub(crate) problems: Vec<String>,
    /// All labels of the file, also those of pictures that are left out.
    pub(crate) labels: BTreeSet<String>,
}

/// Which pictures are evaluated.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection<'a> {
    /// A file with the numbers of pictures to leave out, from 1 in the order of names.
    pub(crate) denied: Option<&'a Path>,
    /// Most pictures, the first ones; `None` for all.
    pub(crate) most: Option<usize>,
}

/// Pairs the pictures of a folder with the lines of a file.
pub(crate) fn pair(folder: &Path, file: &Path, selection: &Selection<'_>) -> Result<Pairs, Failure> {
    let paths = pictures::of_folder(folder)?;
    let text = files::read_text(file)?;
    let lines: Vec<&str> = text.trim_start_matches('\u{feff}').trim_end().lines().map(str::trim).collect();
    if lines.iter().all(|line| line.is_empty()) {
        return Err(Failure::usage("there are no labels in it; write one a line").at(file.display()));
    }
    let mut pairs = match lines.iter().find(|line| !line.is_empty()).and_then(|line| named(line)) {
        Some(_) => by_name(folder, file, &paths, &lines),
        None => in_order(folder, file, &paths, &lines)?,
    };
    pairs.labels = pairs.labelled.iter().map(|labelled| labelled.label.clone()).collect();
    if let Some(denied) = selection.denied {
        let numbers = denied_numbers(denied, paths.len(), &mut pairs.problems)?;
        let denied: BTreeSet<&PathBuf> = numbers.iter().map(|number| &paths[number - 1]).collect();
        pairs.labelled.retain(|labelled| !denied.contains(&labelled.picture));
    }
    pairs.labelled.truncate(selection.most.unwrap_or(usize::MAX));
    Ok(pairs)
}

/// Splits a line that begins with the name of a picture.
fn named(line: &str) -> Option<(&str, &str)> {
    let pairs = [line.split_once(','), line.split_once('\t'), line.split_once(' ')];
    let pair = pairs.into_iter().flatten().find(|(name, _)| pictures::is_picture(name.trim()))?;
    Some((pair.0.trim(), pair.1.trim())).filter(|(_, label)| !label.is_empty())
}

fn by_name(folder: &Path, file: &Path, paths: &[PathBuf], lines: &[&str]) -> Pairs {
    let mut pairs = Pairs::default();
    let mut seen = BTreeSet::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let at = || format!("{}, line {}", file.display(), index + 1);
        let Some((name, label)) = named(line) else {
            pairs.problems.push(format!("{}: \"{line}\" is not the name of a picture and its label", at()));
            continue;
        };
        let picture = folder.join(name);
        if !picture.exists() {
            pairs.problems.push(format!("{}: there is no such picture ({})", picture.display(), at()));
        } else if !seen.insert(picture.clone()) {
            pairs.problems.push(format!("{}: {name} has a label already; this one is left out", at()));
        } else {
            pairs.labelled.push(Labelled { picture, label: label.to_owned(), line: index + 1 });
        }
    }
    let without = paths.iter().filter(|path| !seen.contains(*path));
    pairs.problems.extend(without.map(|path| format!("{}: it has no label in {}", path.display(), file.display())));
    pairs.labelled.sort_by(|one, other| one.picture.cmp(&other.picture));
    pairs
}

fn in_order(folder: &Path, file: &Path, paths: &[PathBuf], lines: &[&str]) -> Result<Pairs, Failure> {
    let mut pairs = Pairs::default();
    let places: Vec<Option<usize>> = match lines.len() <= paths.len() {
        true => (0..lines.len()).map(Some).collect(),
        false => {
            let (places, missing) = by_number(paths, lines.len()).ok_or_else(|| excess(file, paths, lines.len()))?;
            pairs.problems.extend(
                missing.iter().map(|name| format!("{}: there is no such picture", folder.join(name).display())),
            );
            places
        }
    };
    for (index, (place, line)) in places.iter().zip(lines).enumerate() {
        let Some(path) = place.and_then(|place| paths.get(place)) else { continue };
        if line.is_empty() {
            let problem = format!("{}, line {}: the label of {} is empty", file.display(), index + 1, path.display());
            pairs.problems.push(problem);
            continue;
        }
        pairs.labelled.push(Labelled { picture: path.clone(), label: (*line).to_owned(), line: index + 1 });
    }
    if let (Some(first), true) = (paths.get(lines.len()), lines.len() < paths.len()) {
        let rest = match paths.len() - lines.len() {
            1 => format!("{} has none", pictures::name(first)),
            count => format!("the last {count}, from {} on, have none", pictures::name(first)),
        };
        let counts = format!("{} labels for {} pictures", lines.len(), paths.len());
        pairs.problems.push(format!("{}: {counts}: {rest} and are left out", file.display()));
    }
    Ok(pairs)
}

/// Returns the error for more labels than pictures, where nothing says which picture is missing.
fn excess(file: &Path, paths: &[PathBuf], labels: usize) -> Failure {
    let text = format!("{labels} labels for {} pictures, so it is not clear which belong together", paths.len());
    Failure::usage(format!("{text}; write the name of the picture and a comma before each label")).at(file.display())
}

/// Finds the missing pictures of a folder whose pictures are numbered without gaps, for `count` labels. Returns the
/// place of each label's picture, and the names of the missing ones; `None` if the names are not numbered like that.
fn by_number(paths: &[PathBuf], count: usize) -> Option<(Vec<Option<usize>>, Vec<String>)> {
    let parts: Option<Vec<Numbered>> = paths.iter().map(|path| numbered(path)).collect();
    let parts = parts?;
    let (prefix, _, width, extension) = parts.first()?.clone();
    if parts.iter().any(|part| (&part.0, part.2, &part.3) != (&prefix, width, &extension)) {
        return None;
    }
    let (least, most) = (parts.iter().map(|part| part.1).min()?, parts.iter().map(|part| part.1).max()?);
    // Numbers begin at 0 or at 1, or else there is a number for each label from the first picture to the last.
    let mut begins: Vec<usize> = [0, 1].into_iter().filter(|begin| *begin <= least && begin + count > most).collect();
    if least > 1 && most - least == count - 1 {
        begins.push(least);
    }
    let [begin] = begins[..] else { return None };
    let known: BTreeMap<usize, usize> = parts.iter().enumerate().map(|(place, part)| (part.1, place)).collect();
    let places: Vec<Option<usize>> = (begin..begin + count).map(|number| known.get(&number).copied()).collect();
    let missing = (begin..begin + count).zip(&places).filter(|(_, place)| place.is_none());
    let missing = missing.map(|(number, _)| format!("{prefix}{number:0width$}.{extension}")).collect();
    Some((places, missing))
}

/// A name: what stands before its number, the number, how many digits it has, and the extension.
type Numbered = (String, usize, usize, String);

fn numbered(path: &Path) -> Option<Numbered> {
    let (stem, extension) = (path.file_stem()?.to_str()?, path.extension()?.to_str()?);
    let prefix = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let digits = &stem[prefix.len()..];
    Some((prefix.to_owned(), digits.parse().ok()?, digits.len(), extension.to_owned()))
}

/// Reads the numbers of pictures to leave out.
fn denied_numbers(path: &Path, count: usize, problems: &mut Vec<String>) -> Result<BTreeSet<usize>, Failure> {
    let text = files::read_text(path)?;
    let mut numbers = BTreeSet::new();
    for (index, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
        match line.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => {
                numbers.insert(number);
            }
            _ => problems.push(format!(
                "{}, line {}: \"{line}\" is not the number of a picture, from 1 to {count}",
                path.display(),
                index + 1
            )),
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Names of pictures with their labels.
    type Words = Vec<(String, String)>;

    /// Pairs pictures of these names with this text. Returns names and labels, and the problems.
    fn paired(names: &[&str], text: &str, denied: &str) -> Result<(Words, Vec<String>), Failure> {
        let folder = tempfile::tempdir().unwrap();
        let pictures = folder.path().join("pictures");
        fs::create_dir(&pictures).unwrap();
        names.iter().for_each(|name| fs::write(pictures.join(name), b"").unwrap());
        let [labels, list] = ["labels.txt", "denied.txt"].map(|name| folder.path().join(name));
        fs::write(&labels, text).unwrap();
        fs::write(&list, denied).unwrap();
        let selection = Selection { denied: Some(&list), most: None };
        let pairs = pair(&pictures, &labels, &selection)?;
        let labelled = pairs.labelled.iter().map(|it| (pictures::name(&it.picture), it.label.clone()));
        Ok((labelled.collect(), pairs.problems))
    }

    fn words(pairs: &[(String, String)]) -> Vec<String> {
        pairs.iter().map(|(name, label)| format!("{name}={label}")).collect()
    }

    #[test]
    fn labels_are_in_the_order_of_names() {
        let (pairs, problems) = paired(&["b.png", "a.png", "c.png"], "cat\r\ntwo words\n7\n\n", "2\n").unwrap();
        assert_eq!((words(&pairs), problems.len()), (vec!["a.png=cat".into(), "c.png=7".into()], 0));
    }

    #[test]
    fn labels_have_the_names_of_their_pictures() {
        let text = "c.png,tabby, tiger cat\na.png\tdog\nno.png,cat\nnonsense\na.png cat\n";
        let (pairs, problems) = paired(&["a.png", "b.png", "c.png"], text, "").unwrap();
        assert_eq!(words(&pairs), ["a.png=dog", "c.png=tabby, tiger cat"]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        for (problem, part) in
            problems.iter().zip(["no.png: there is no such", "line 4", "line 5", "b.png: it has no label"])
        {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_truncated_file_leaves_out_the_rest() {
        let (pairs, problems) = paired(&["a.png", "b.png", "c.png"], "1\n2\n", "9\n").unwrap();
        assert_eq!(words(&pairs), ["a.png=1", "b.png=2"]);
        assert!(problems[0].contains("2 labels for 3 pictures: c.png has none"), "{problems:?}");
        assert!(problems[1].contains("\"9\" is not the number of a picture, from 1 to 3"));
        assert!(paired(&["a.png"], "\n\n", "").is_err());
    }

    #[test]
    fn a_missing_picture_is_found_by_its_number() {
        let (pairs, problems) = paired(&["d_01.png", "d_03.png"], "1\n2\n3\n", "").unwrap();
        assert_eq!(words(&pairs), ["d_01.png=1", "d_03.png=3"]);
        assert!(problems[0].contains("d_02.png: there is no such picture"), "{problems:?}");
        let (pairs, _) = paired(&["2.png", "3.png"], "1\n2\n3\n", "").unwrap();
        assert_eq!(words(&pairs), ["2.png=2", "3.png=3"]);
        for names in [&["a.png", "c.png"][..], &["1.png", "3.jpg"], &["1.png", "2.png"], &["1.png", "9.png"]] {
            let message = paired(names, "1\n2\n3\n", "").unwrap_err().message;
            assert!(message.contains("3 labels for 2 pictures"), "{names:?}: {message}");
        }
    }
}
