//! [`Walk`], everything below a folder.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What there is below a folder. Links to folders are followed, and each folder is visited once, so that links in a circle
/// end.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// The folders, with that in which the walk began.
    pub(crate) folders: Vec<PathBuf>,
    /// Everything else: files, links that lead nowhere, pipes, devices.
    pub(crate) entries: Vec<PathBuf>,
    /// Folders that cannot be read.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// Folders that are to be visited.
#[derive(Default)]
struct Pending {
    folders: Vec<PathBuf>,
    /// Links to folders. They come last and in order, so that what several paths lead to always has the same one.
    links: BTreeSet<PathBuf>,
}

impl Walk {
    pub(crate) fn below(folder: &Path) -> Self {
        let (mut walk, mut seen) = (Self::default(), BTreeSet::new());
        let mut pending = Pending { folders: vec![folder.to_owned()], ..Pending::default() };
        while let Some(folder) = pending.folders.pop().or_else(|| pending.links.pop_first()) {
            let is_new = fs::canonicalize(&folder).map(|real| seen.insert(real));
            match is_new.and_then(|is_new| if is_new { walk.visit(&folder, &mut pending) } else { Ok(()) }) {
                Ok(()) => (),
                Err(error) => walk.unreadable.push((folder, error)),
            }
        }
        walk.entries.sort();
        walk
    }

    fn visit(&mut self, folder: &Path, pending: &mut Pending) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            match () {
                () if kind.is_dir() => pending.folders.push(path),
                () if kind.is_symlink() && path.is_dir() => drop(pending.links.insert(path)),
                () => self.entries.push(path),
            }
        }
        self.folders.push(folder.to_owned());
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_folder_is_visited_once() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/file"), b"").unwrap();
        fs::write(other.path().join("far"), b"").unwrap();
        for (target, link) in [("..", "a/up"), ("a/b", "0"), ("nowhere", "dangling"), ("circle", "circle")] {
            symlink(target, path(link)).unwrap();
        }
        symlink(other.path(), path("y")).unwrap();
        symlink(other.path(), path("x")).unwrap();
        let walk = Walk::below(folder.path());
        assert_eq!(walk.entries, ["a/b/file", "circle", "dangling", "x/far"].map(path));
        assert_eq!((walk.folders.len(), walk.unreadable.len()), (4, 0));
        let missing = Walk::below(&path("nowhere"));
        assert_eq!((missing.folders.len(), missing.unreadable.len()), (0, 1));
    }
}
