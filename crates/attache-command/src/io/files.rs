//! Reads and writes files that the command line names. Only regular files are read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::Failure;

/// Maximum size of a text file in bytes: far more than any list of labels or measurement has.
const MOST_TEXT: u64 = 256 << 20;
/// Maximum size in bytes of a file that is not text, the same as the default limit of a tensor.
const MOST_BYTES: u64 = 16 << 30;

/// Returns a path as JSON text. Names that are not UTF-8, which JSON cannot hold and serde refuses with a panic of `json!`,
/// get replacement characters, as in messages. Every path in JSON comes from here.
pub(crate) fn json(path: &Path) -> Value {
    path.to_string_lossy().into()
}

/// Returns an error if `path` is not a readable regular file. The error says what it is instead.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let wrong = |text: &str| Err(Failure::usage(text).at(path.display()));
    let kind = fs::metadata(path).map_err(|error| unreadable(path, &error))?.file_type();
    match () {
        () if kind.is_dir() => wrong("this is a directory; name a file"),
        () if !kind.is_file() => wrong("this is a pipe or a device; copy what it gives to a file and name that"),
        () => File::open(path).map(drop).map_err(|error| unreadable(path, &error)),
    }
}

/// Reads all bytes of a regular file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_at_most(path, MOST_BYTES)
}

/// Reads a regular file of text in UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let not_text = |_| Failure::usage("this is not text in UTF-8; save it as such").at(path.display());
    String::from_utf8(read_at_most(path, MOST_TEXT)?).map_err(not_text)
}

fn read_at_most(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    check(path)?;
    let size = fs::metadata(path).map_err(|error| unreadable(path, &error))?.len();
    if size > most {
        let text = format!("the file has {size} bytes, and the limit is {most}; name a smaller one");
        return Err(Failure::usage(text).at(path.display()));
    }
    fs::read(path).map_err(|error| unreadable(path, &error))
}

/// Returns the error for a file or folder that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let text = match error.kind() {
        ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => format!("this is a link to {}, which is not there; name another file", target.display()),
            Err(_) => "there is no such file; check the path".to_owned(),
        },
        ErrorKind::PermissionDenied => "permission denied; make it readable, or name a copy that is".to_owned(),
        ErrorKind::NotADirectory => "a part of this path is a file, not a directory; check the path".to_owned(),
        _ => format!("it cannot be read: {}; name another file", reason(error)),
    };
    Failure::usage(text).at(path.display())
}

/// Returns the text of an error without the system's number for it.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Writes a file, replacing an existing one, as [`write_all`] does.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write_all(&[(path, bytes)])
}

/// Writes several files, as [`write_all`] does, after making the `folder` if it does not exist. If that fails, no
/// folder is left either.
pub(crate) fn write_all_in(folder: Option<&Path>, files: &[(&Path, &[u8])]) -> Result<(), Failure> {
    let mut folder = folder.map(Folder::make).transpose()?;
    write_all(files)?;
    folder.iter_mut().for_each(|folder| folder.made.clear());
    Ok(())
}

/// Writes several files, replacing existing ones. The bytes are first written to temporary files beside them.
/// If that fails for one, none of the files is created or changed. The temporary files are then renamed.
pub(crate) fn write_all(files: &[(&Path, &[u8])]) -> Result<(), Failure> {
    check_destinations(files.iter().map(|(path, _)| *path))?;
    let mut ready = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        let written = Draft::write(path, bytes).map_err(|error| unwritable(path, &error))?;
        ready.push((path, written));
    }
    ready.into_iter().try_for_each(|(path, draft)| draft.finish().map_err(|error| unwritable(path, &error)))
}

/// Returns an error if files cannot be written at all of these paths, or if two of them are the same.
fn check_destinations<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    paths.into_iter().try_for_each(|path| match seen.insert(place(path)) {
        true => check_destination(path),
        false if is_special(path) => Ok(()),
        false => Err(Failure::usage("two options name this file; name another for one of them").at(path.display())),
    })
}

/// Returns the path of the file that is written at `path`, the same for all paths that lead to it.
pub(crate) fn place(path: &Path) -> PathBuf {
    let below = |name| Some(fs::canonicalize(folder_of(path)).ok()?.join(name));
    let place = fs::canonicalize(path).ok().or_else(|| path.file_name().and_then(below));
    place.unwrap_or_else(|| path.to_owned())
}

/// Whether there is a pipe or a device at `path`, such as /dev/stdout. They can be written to several times.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns an error if no file can be written at `path`, because its folder is not there or because it is a
/// directory itself.
fn check_destination(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    let kind = match () {
        () if path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator) => {
            ErrorKind::IsADirectory
        }
        () if folder.is_dir() => return Ok(()),
        () if folder.exists() => ErrorKind::NotADirectory,
        () => ErrorKind::NotFound,
    };
    Err(unwritable(path, &kind.into()))
}

/// A temporary file with the new content of a file. Dropping it removes the temporary file.
struct Draft {
    /// `None` once the file is finished, or if it was written directly.
    temporary: Option<PathBuf>,
    target: PathBuf,
}

impl Draft {
    fn write(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        // A link stays one; the file that it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|it| !it.is_file()) {
            // Pipes and devices such as /dev/stdout cannot be replaced.
            fs::write(&target, bytes)?;
            return Ok(Self { temporary: None, target });
        }
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}.part", std::process::id()));
        let draft = Self { temporary: Some(target.with_file_name(name)), target };
        draft.temporary.iter().try_for_each(|temporary| fs::write(temporary, bytes))?;
        Ok(draft)
    }

    fn finish(mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        fs::rename(temporary, &self.target)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It may not exist; the error that led here is reported already.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A folder for files that are to be written. Dropping it removes the folders that were made for it.
struct Folder {
    /// The folders that were made and are to be removed, the innermost first.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Makes the folder, and those above it, if they do not exist.
    fn make(path: &Path) -> Result<Self, Failure> {
        check_folder(path)?;
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let folder = Self { made: path.ancestors().take_while(is_missing).map(Path::to_owned).collect() };
        fs::create_dir_all(path).map_err(|error| unwritable(path, &error))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in &self.made {
            // It may not exist; the error that led here is reported already.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns an error if there can be no folder at `path`, because a file is there or above it.
pub(crate) fn check_folder(path: &Path) -> Result<(), Failure> {
    match path.ancestors().find(|above| above.exists()) {
        Some(found) if found.is_dir() => Ok(()),
        Some(found) if found == path => Err(Failure::usage("this is a file; name a folder").at(path.display())),
        Some(_) => Err(unwritable(path, &ErrorKind::NotADirectory.into())),
        None => Ok(()),
    }
}

/// Returns an error if no file can be written at `path`. Leaves nothing there, and an existing file as it is.
pub(crate) fn probe(path: &Path) -> Result<(), Failure> {
    check_destination(path)?;
    // What is written to a pipe or a device stays there.
    if is_special(path) {
        return Ok(());
    }
    Draft::write(path, b"").map(drop).map_err(|error| unwritable(path, &error))
}

/// Returns an error if no file can be written in the folder at `path`, which need not exist. Leaves nothing there.
pub(crate) fn probe_folder(path: &Path) -> Result<(), Failure> {
    let folder = Folder::make(path)?;
    let draft = Draft::write(&path.join("probe"), b"").map_err(|error| unwritable(path, &error))?;
    drop(draft);
    drop(folder);
    Ok(())
}

/// Returns the error for a file or folder that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let text = match error.kind() {
        ErrorKind::NotFound => "the folder of this file is not there; make it first".to_owned(),
        ErrorKind::IsADirectory => "this is a directory; name a file".to_owned(),
        ErrorKind::NotADirectory => "a part of this path is a file, not a directory; name another place".to_owned(),
        ErrorKind::PermissionDenied => "permission denied; name another place".to_owned(),
        ErrorKind::StorageFull => "the disk is full; make room, or name another place".to_owned(),
        ErrorKind::ReadOnlyFilesystem => "this place cannot be written to; name another".to_owned(),
        _ => format!("it cannot be written: {}; name another place", reason(error)),
    };
    Failure::usage(text).at(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_called_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| check(&folder.path().join(name)).unwrap_err().message;
        assert!(text("").ends_with("this is a directory; name a file"));
        assert!(text("missing").ends_with("there is no such file; check the path"));
        fs::write(folder.path().join("file"), [0xff]).unwrap();
        assert!(text("file/below").contains("a part of this path is a file"));
        // Root may read every file, so that no file gives this error in all tests.
        let denied = unreadable(Path::new("closed"), &ErrorKind::PermissionDenied.into());
        assert!(denied.message.starts_with("closed: permission denied; make it readable"), "{denied}");
        let other = unreadable(Path::new("a"), &io::Error::from_raw_os_error(5));
        assert!(!other.message.contains("os error") && other.message.ends_with("name another file"), "{other}");
        assert_eq!(read(&folder.path().join("file")).unwrap(), [0xff]);
        assert!(read_text(&folder.path().join("file")).unwrap_err().message.contains("not text in UTF-8"));
        assert!(read_at_most(&folder.path().join("file"), 0).unwrap_err().message.contains("the limit is 0"));
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_devices_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(check(&link).unwrap_err().message.contains("this is a link to nowhere, which is not there; name"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            assert!(read(path).unwrap_err().message.contains("a pipe or a device"));
        }
    }

    #[test]
    fn what_cannot_be_written_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        write(&file, b"x").unwrap();
        assert!(check_folder(&file).unwrap_err().message.contains("this is a file; name a folder"));
        assert!(check_folder(&file.join("a/b")).unwrap_err().message.contains("a part of this path is a file"));
        assert!(write(&file.join("a"), b"x").unwrap_err().message.contains("a part of this path is a file"));
        assert!(check_destinations([&file, &file].map(PathBuf::as_path)).unwrap_err().message.contains("two options"));
        assert!(write(&folder.path().join("no/file"), b"x").unwrap_err().message.contains("make it first"));
        assert!(write(folder.path(), b"x").unwrap_err().message.contains("this is a directory"));
    }

    #[test]
    fn a_probe_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        probe_folder(&folder.path().join("a/b")).unwrap();
        probe_folder(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        write(&folder.path().join("file"), b"x").unwrap();
        assert!(probe_folder(&folder.path().join("file/a")).is_err());
        // Nothing can be made here, not even by root.
        assert!(!Path::new("/proc").is_dir() || probe_folder(Path::new("/proc/self")).is_err());
    }

    #[test]
    fn all_files_are_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        write(&one, b"before").unwrap();
        assert!(write_all(&[(&one, b"after"), (&folder.path().join("no/file"), b"x")]).is_err());
        assert_eq!(read(&one).unwrap(), b"before");
        let inner = folder.path().join("a/b");
        assert!(
            write_all_in(Some(&inner), &[(&inner.join("x"), b"x"), (&folder.path().join("no/file"), b"x")]).is_err()
        );
        assert!(!folder.path().join("a").exists());
        write_all_in(Some(&inner), &[(&inner.join("x"), b"x")]).unwrap();
        assert_eq!(read(&inner.join("x")).unwrap(), b"x");
        fs::remove_dir_all(folder.path().join("a")).unwrap();
        write_all(&[(&one, b"after"), (&other, b"x")]).unwrap();
        assert_eq!((read(&one).unwrap(), fs::read_dir(folder.path()).unwrap().count()), (b"after".to_vec(), 2));
    }
}
