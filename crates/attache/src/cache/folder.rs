//! The folder of a cache: its files, and who may read and write them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use attache_base::{Bytes, order_by};

use super::CacheError;

/// Beginning of the names of files that are being written.
const UNFINISHED: &str = ".unfinished-";

/// The age after which a file that was being written counts as left behind.
const ABANDONED: Duration = Duration::from_secs(3600);

/// An existing folder that belongs to the user.
pub(super) struct Folder {
    path: PathBuf,
}

/// A file of the folder: its name, its size in bytes and the time when it was used last.
pub(super) type Listed = (String, u64, SystemTime);

impl Folder {
    /// Opens a folder and creates it if it is missing.
    pub(super) fn open(path: &Path) -> Result<Self, CacheError> {
        let shown = path.display().to_string();
        let failed = |source: io::Error| CacheError::Io { folder: shown.clone(), source };
        // Entries are found after the program has changed its working directory.
        let path = std::path::absolute(path).map_err(failed)?;
        create(&path).map_err(failed)?;
        let folder = Self { path };
        folder.check().map_err(|reason| CacheError::NotPrivate { folder: shown.clone(), reason })?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails with a reason if the folder is not one that only this user may write to.
    fn check(&self) -> Result<(), String> {
        let metadata = fs::metadata(&self.path).map_err(|error| error.to_string())?;
        if !metadata.is_dir() {
            return Err("it is not a folder".to_owned());
        }
        only_mine(&metadata)
    }

    /// Whether there is a file of this name, of whatever content.
    pub(super) fn contains(&self, file: &str) -> bool {
        fs::symlink_metadata(self.path.join(file)).is_ok()
    }

    /// Maps a file into memory. Fails with a reason if another user could have written it.
    pub(super) fn read(&self, file: &str) -> Result<Bytes, String> {
        self.check()?;
        let opened = open(&self.path.join(file)).map_err(|error| error.to_string())?;
        let metadata = opened.metadata().map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("it is not a file".to_owned());
        }
        only_mine(&metadata)?;
        attache_model::map(&opened).map_err(|error| error.to_string())
    }

    /// Records that a file was used now.
    pub(super) fn touch(&self, file: &str) {
        // On a read-only disk the time stays as it is.
        let _ = open(&self.path.join(file)).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Writes a file under another name and renames it, so that it is there as a whole or not at all.
    pub(super) fn write(&self, file: &str, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
        self.check()?;
        let written = || {
            let mut unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.path)?;
            write(unfinished.as_file_mut())?;
            unfinished.as_file_mut().flush()?;
            unfinished.persist(self.path.join(file)).map_err(|error| error.error)
        };
        written().map(drop).map_err(|error: io::Error| error.to_string())
    }

    /// Deletes files that have not been used for the longest time, until another one of `bytes` bytes fits into
    /// `limit` bytes. The file called `file` is going to be replaced.
    pub(super) fn make_room(&self, bytes: u64, limit: u64, file: &str) -> Result<(), String> {
        let mut files = self.files().map_err(|error| error.to_string())?;
        files.retain(|(name, ..)| name != file);
        let mut sum: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (name, size, _) in &files {
            if sum.saturating_add(bytes) <= limit {
                break;
            }
            // Another process may have deleted it.
            let _ = fs::remove_file(self.path.join(name));
            sum -= size;
        }
        Ok(())
    }

    pub(super) fn remove(&self, file: &str) -> Result<(), CacheError> {
        match fs::remove_file(self.path.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Returns the entries' files, first the one that has not been used for the longest time. Deletes those that a process
    /// left unfinished.
    pub(super) fn files(&self) -> Result<Vec<Listed>, CacheError> {
        let mut files: Vec<Listed> = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(|error| self.failed(error))? {
            let entry = entry.map_err(|error| self.failed(error))?;
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.starts_with(UNFINISHED) {
                if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_file(entry.path());
                }
            } else if is_entry(&name) && !metadata.is_dir() {
                files.push((name, metadata.len(), used));
            }
        }
        let age = |index: usize| {
            let used: &SystemTime = &files[index].2;
            let since = used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            (usize::try_from(since.as_secs()).unwrap_or(usize::MAX), since.subsec_nanos() as usize)
        };
        let order = order_by(files.len(), age);
        Ok(order.into_iter().map(|index| files[index].clone()).collect())
    }

    fn failed(&self, source: io::Error) -> CacheError {
        CacheError::Io { folder: self.path.display().to_string(), source }
    }
}

/// Whether a file has a name that entries have: 32 hexadecimal digits, a dot and the kind.
fn is_entry(name: &str) -> bool {
    name.split_once('.').is_some_and(|(hash, _)| hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(unix)]
fn create(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Opens a file to read it. A link is an error.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // A pipe of that name must not block.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    // Changing the time of the last use needs the right to write.
    File::options().read(true).write(true).open(path).or_else(|_| File::open(path))
}

/// Fails with a reason unless a file or folder belongs to this user and nobody else may write to it.
#[cfg(unix)]
fn only_mine(metadata: &fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(format!("it belongs to user {owner}, not to {user}"));
    }
    match metadata.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(format!("others may write to it (mode {:o})", metadata.mode() & 0o777)),
    }
}

/// On other systems, the user's folders are private by default.
#[cfg(not(unix))]
fn only_mine(_: &fs::Metadata) -> Result<(), String> {
    Ok(())
}
