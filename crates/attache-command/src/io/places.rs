//! [`Places`], the files that a command line names. Before the work begins they show that every output can be written, that
//! no two outputs are one file, and that no output is a file that the command reads.

use std::path::{Path, PathBuf};

use super::files;
use crate::failure::Failure;

/// The files that a command line names, each with the option that names it.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Files that are read.
    inputs: Vec<Place>,
    /// Folders of which files are read.
    folders: Vec<(Place, Reads)>,
    /// Files that are written.
    outputs: Vec<Place>,
}

/// Whether the command reads files of a name.
type Reads = fn(&str) -> bool;

#[derive(Debug)]
struct Place {
    option: String,
    /// The path as it is given.
    path: PathBuf,
    /// The path of the file itself, the same for all paths that lead to it.
    ///
    /// Hard links to one file differ: a file is replaced by renaming, so that its other names keep the old content.
    real: PathBuf,
}

impl Place {
    fn new(option: &str, path: &Path) -> Self {
        Self { option: option.to_owned(), path: path.to_owned(), real: files::place(path) }
    }
}

impl Places {
    /// Adds files that the command reads. Names of built-in models, pipes and devices are none.
    pub(crate) fn reads<'a>(mut self, option: &str, paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let paths = paths.into_iter().filter(|path| path.is_file());
        self.inputs.extend(paths.map(|path| Place::new(option, path)));
        self
    }

    /// Adds a folder of which the command reads the files with such names.
    pub(crate) fn reads_below(mut self, option: &str, folder: Option<&Path>, is_read: Reads) -> Self {
        self.folders.extend(folder.map(|path| (Place::new(option, path), is_read)));
        self
    }

    /// Adds files that the command writes.
    pub(crate) fn writes<'a>(mut self, option: &str, paths: impl IntoIterator<Item = &'a Path>) -> Self {
        self.outputs.extend(paths.into_iter().map(|path| Place::new(option, path)));
        self
    }

    /// Returns an error if an output cannot be written, or if [`Places::check_distinct`] returns one.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.check_distinct()?;
        self.outputs.iter().try_for_each(|output| files::probe(&output.path))
    }

    /// Returns an error if two outputs are one file, or if an output is a file that the command reads.
    pub(crate) fn check_distinct(&self) -> Result<(), Failure> {
        // Pipes and devices may be written several times.
        let outputs = || self.outputs.iter().enumerate().filter(|(_, output)| !files::is_special(&output.path));
        outputs().try_for_each(|(index, output)| match self.same(output, index) {
            Some(text) => Err(Failure::usage(text).at(output.path.display())),
            None => Ok(()),
        })
    }

    /// Says what else the output with this index is; `None` if it is nothing else.
    fn same(&self, output: &Place, index: usize) -> Option<String> {
        let option = &output.option;
        let is_same = |other: &&Place| other.real == output.real;
        if let Some(other) = self.outputs[..index].iter().find(is_same) {
            let text = format!("two options name this file, {} and {option}", other.option);
            return Some(format!("{text}; name another for one of them"));
        }
        let read = self.inputs.iter().find(is_same).or_else(|| self.folder_of(output))?;
        let text = format!("{option} would replace this file, which the command reads ({})", read.option);
        Some(format!("{text}; name another file for {option}"))
    }

    /// Returns the folder of which the command reads this output.
    fn folder_of(&self, output: &Place) -> Option<&Place> {
        let name = output.real.file_name().filter(|_| output.path.is_file())?.to_str()?;
        let is_within = |(folder, is_read): &&(Place, Reads)| output.real.starts_with(&folder.real) && is_read(name);
        self.folders.iter().find(is_within).map(|(folder, _)| folder)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn no_output_is_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        fs::write(&input, b"x").unwrap();
        let text = |places: Places| places.check().err().map_or(String::new(), |failure| failure.message);
        let reading = || Places::default().reads("--truth", [input.as_path()]);
        assert_eq!(text(reading().writes("--out", [output.as_path()])), "");
        let roundabout = folder.path().join(".").join("in");
        let told = text(reading().writes("--out", [roundabout.as_path()]));
        assert!(told.contains("--out would replace this file, which the command reads (--truth)"), "{told}");
        let told = text(reading().writes("--svg", [output.as_path()]).writes("--out", [output.as_path()]));
        assert!(told.contains("two options name this file, --svg and --out; name another"), "{told}");
        assert_eq!(text(Places::default().reads("MODEL", [output.as_path()]).writes("-o", [output.as_path()])), "");
        assert!(!output.exists());
    }

    #[test]
    fn pictures_of_a_folder_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [picture, new, table] = ["a.png", "b.png", "a.json"].map(|name| folder.path().join(name));
        fs::write(&picture, b"x").unwrap();
        fs::write(&table, b"x").unwrap();
        let checked = |path: &Path| {
            let places = Places::default().reads_below("--images", Some(folder.path()), |name| name.ends_with("png"));
            places.writes("--out", [path]).check()
        };
        assert!(checked(&picture).is_err_and(|failure| failure.message.contains("(--images)")));
        assert!(checked(&new).is_ok() && checked(&table).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_the_same_file_and_devices_to_none() {
        let folder = tempfile::tempdir().unwrap();
        let [input, link] = ["in", "link"].map(|name| folder.path().join(name));
        fs::write(&input, b"x").unwrap();
        std::os::unix::fs::symlink(&input, &link).unwrap();
        assert!(Places::default().reads("MODEL", [input.as_path()]).writes("--out", [link.as_path()]).check().is_err());
        let null = Path::new("/dev/null");
        let places = Places::default().reads("--labels", [null]).writes("--out", [null]).writes("--svg", [null]);
        assert!(places.check().is_ok());
        // Nothing can be made here, not even by root.
        let proc = Path::new("/proc/self");
        assert!(!proc.is_dir() || Places::default().writes("--out", [proc.join("x").as_path()]).check().is_err());
    }
}
