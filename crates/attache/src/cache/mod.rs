//! A folder of stored plans and packed weights, from which later starts take what costs time to make.
//!
//! An entry is a file that is named after its key: a hash of everything that its content depends on. Whatever is wrong
//! with an entry or with the folder, the result is that the entry is made again, with a line in the log.

mod answer;
mod entry;
mod error;
mod folder;
mod key;
mod model;
mod origin;
mod packed;
mod writers;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use attache_model::Model;

use self::folder::Folder;
use self::origin::ModelOrigin;
use self::writers::Writers;

pub(crate) use self::answer::{Answer, AnswerPlace, Offer, Respondent, StoredAnswer};
pub(crate) use self::entry::{Contents, Entry};
pub use self::error::CacheError;
pub(crate) use self::key::{Key, KeyBuilder};
pub(crate) use self::packed::{OpenPacked, PackedWeights, open as open_packed};

/// The default of [`CacheFolder::limit`], in bytes.
const DEFAULT_LIMIT: u64 = 2 << 30;

/// A folder in which plans and packed weights are stored, so that later starts are fast. Clones refer to the same folder.
///
/// The folder belongs to one user: it is created so that nobody else may read or write it, and entries are neither read
/// nor written if others may write to it. Several processes can use it at the same time. It may be deleted at any time.
#[derive(Clone)]
pub struct CacheFolder {
    folder: Arc<Folder>,
    limit: u64,
    writers: Arc<Writers>,
    /// The function [`answer::place`]. Programs that open no cache do not contain it.
    place: PlaceOfAnswer,
}

type PlaceOfAnswer = for<'a> fn(&'a CacheFolder, Respondent<'a>, &Offer<'a>) -> Box<dyn AnswerPlace + 'a>;

/// A file of a [`CacheFolder`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheEntry {
    /// The name of the file in the folder.
    pub file: String,
    /// What the entry is for, for people: the model, the device and the kind of content. Empty if the entry cannot be
    /// read.
    pub description: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// When the entry was used last.
    pub used: SystemTime,
}

impl CacheFolder {
    /// Opens a folder, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or read, belongs to another user, or others may write to it.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, CacheError> {
        let folder = Arc::new(Folder::open(folder.as_ref())?);
        Ok(Self { folder, limit: DEFAULT_LIMIT, writers: Arc::default(), place: answer::place })
    }

    /// Returns the folder of this user for caches of Attaché, such as `~/.cache/attache`; `None` if the user has no
    /// such folder.
    #[must_use]
    pub fn user_folder() -> Option<PathBuf> {
        Some(dirs::cache_dir()?.join("attache"))
    }

    /// Sets the size to which the folder may grow, in bytes. Entries that were not used for the longest time go first.
    /// The default is 2 GiB.
    #[must_use]
    pub fn limit(self, bytes: u64) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the entries, the one that was used last first.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn entries(&self) -> Result<Vec<CacheEntry>, CacheError> {
        let mut entries: Vec<CacheEntry> = Vec::new();
        for (file, bytes, used) in self.folder.files()?.into_iter().rev() {
            let read = self.folder.read(&file).ok().and_then(|bytes| Entry::of(bytes).ok());
            let description = read.map_or_else(String::new, |entry| entry.description().to_owned());
            entries.push(CacheEntry { file, description, bytes, used });
        }
        Ok(entries)
    }

    /// Deletes all entries, and returns their number.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read or an entry cannot be deleted.
    pub fn clear(&self) -> Result<usize, CacheError> {
        let files = self.folder.files()?;
        files.iter().try_for_each(|(file, ..)| self.folder.remove(file))?;
        Ok(files.len())
    }

    /// Reads an entry and compares its checksum.
    ///
    /// # Errors
    ///
    /// The reason why the entry would not be used.
    pub fn verify(&self, entry: &CacheEntry) -> Result<(), CacheError> {
        let wrong = |reason: String| CacheError::Unusable { file: entry.file.clone(), reason };
        let bytes = self.folder.read(&entry.file).map_err(wrong)?;
        Entry::of(bytes).map(drop).map_err(wrong)
    }

    /// Checks that an entry does not have the weights of another model under a token that stood for this model too
    /// ([`InterpreterBuilder::model_token`](crate::InterpreterBuilder::model_token)). Entries of models that differ from
    /// this one in more than weights pass, and so do entries without a token, or with another one than `token` if that is
    /// given.
    ///
    /// # Errors
    ///
    /// If the entry has other weights than the model. A program that gives the model the token of the entry runs with the
    /// entry's weights.
    pub fn verify_weights(&self, entry: &CacheEntry, model: &Model, token: Option<&str>) -> Result<(), CacheError> {
        let read = self.folder.read(&entry.file).ok().and_then(|bytes| Entry::of(bytes).ok());
        let origin = read.as_ref().and_then(ModelOrigin::of);
        let found = origin.and_then(|origin| origin.token_of_other_weights(&ModelOrigin::new(model, None)));
        match found.filter(|found| token.is_none_or(|token| token == found)) {
            Some(token) => Err(CacheError::OtherWeights { file: entry.file.clone(), token }),
            None => Ok(()),
        }
    }

    /// Returns the place of a delegate's answer to an offer.
    pub(crate) fn place<'a>(&'a self, by: Respondent<'a>, offer: &Offer<'a>) -> Box<dyn AnswerPlace + 'a> {
        (self.place)(self, by, offer)
    }

    /// Returns the entry with this key. `None`, with a line in the log, if there is none that can be used.
    pub(crate) fn load(&self, key: &Key) -> Option<Entry> {
        let file = key.file();
        self.writers.wait_for(&file);
        if !self.folder.contains(&file) {
            return None;
        }
        let read = self.folder.read(&file).and_then(Entry::of);
        let matching = |entry: Entry| if entry.has(key) { Ok(entry) } else { Err("it has another key".to_owned()) };
        match read.and_then(matching) {
            Ok(entry) => {
                self.folder.touch(&file);
                Some(entry)
            }
            Err(reason) => {
                tracing::warn!("the stored entry {} is not used, and made again: {reason}", self.path(&file));
                None
            }
        }
    }

    /// Stores an entry, and deletes others that have not been used for the longest time if the folder is full. A
    /// failure is a line in the log.
    pub(crate) fn store(&self, key: &Key, contents: &Contents<'_>) {
        let (file, bytes) = (key.file(), contents.size() as u64);
        let stored = match bytes <= self.limit {
            true => {
                let room = self.folder.make_room(bytes, self.limit, &file);
                room.and_then(|()| self.folder.write(&file, |out| contents.write(key, out)))
            }
            false => Err(format!("its {bytes} bytes are more than the limit of {} for the folder", self.limit)),
        };
        match stored {
            Ok(()) => tracing::info!("stored {} ({bytes} bytes): {}", self.path(&file), contents.description()),
            Err(reason) => tracing::warn!("{} cannot be stored: {reason}", self.path(&file)),
        }
    }

    /// Stores an entry on a thread of its own, for which later calls of [`CacheFolder::load`] with this key and the end of
    /// the last clone of the folder wait.
    pub(crate) fn store_later(&self, key: Key, store: impl FnOnce(&CacheFolder, &Key) + Send + 'static) {
        // The thread must not own the threads for which the last owner waits.
        let cache = Self { writers: Arc::default(), ..self.clone() };
        self.writers.spawn(key.file(), move || store(&cache, &key));
    }

    /// Returns the path of a file, for people.
    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).display().to_string()
    }
}

impl fmt::Debug for CacheFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheFolder").field("folder", &self.folder.path()).field("limit", &self.limit).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use attache_base::Bytes;

    use super::*;

    fn key(text: &str) -> Key {
        let mut key = KeyBuilder::new("test");
        key.add(text.as_bytes());
        key.finish()
    }

    fn contents<'a>(sections: &'a [&'a [u8]]) -> Contents<'a> {
        Contents::new("a test", sections)
    }

    fn cache() -> (tempfile::TempDir, CacheFolder) {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::open(folder.path().join("cache")).unwrap();
        (folder, cache)
    }

    #[test]
    fn entries_come_back_and_others_do_not() {
        let (_folder, cache) = cache();
        assert!(cache.load(&key("a")).is_none());
        cache.store(&key("a"), &contents(&[b"one", b"", &[7; 1000]]));
        let entry = cache.load(&key("a")).unwrap();
        let sections: Vec<Bytes> = (0..3).map(|index| entry.section(index).unwrap()).collect();
        assert_eq!((&sections[0][..], sections[1].len(), &sections[2][..]), (&b"one"[..], 0, &[7; 1000][..]));
        assert!(sections.iter().all(|section| section.as_ptr().addr() % 64 == 0));
        assert!(entry.section(3).is_none());
        assert!(cache.load(&key("b")).is_none());
        fs::rename(cache.folder().join(key("a").file()), cache.folder().join(key("b").file())).unwrap();
        assert!(cache.load(&key("b")).is_none(), "an entry under another name has another key");
        assert_eq!(cache.entries().unwrap()[0].description, "a test");
        assert_eq!((cache.clear().unwrap(), cache.entries().unwrap().len()), (1, 0));
    }

    #[test]
    fn damaged_entries_are_not_used() {
        let (_folder, cache) = cache();
        cache.store(&key("a"), &contents(&[b"one", &[7; 300]]));
        let path = cache.folder().join(key("a").file());
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(cache.load(&key("a")).is_none(), "{length} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            assert!(cache.load(&key("a")).is_none(), "bit {bit}");
        }
        fs::write(&path, [whole.as_slice(), b"more"].concat()).unwrap();
        assert!(cache.load(&key("a")).is_none(), "bytes that follow");
        fs::write(&path, &whole).unwrap();
        assert!(cache.load(&key("a")).is_some());
    }

    #[test]
    fn the_least_recently_used_entries_go_first() {
        let (_folder, cache) = cache();
        let block = [1; 1000];
        ["a", "b", "c"].iter().for_each(|name| cache.store(&key(name), &contents(&[&block])));
        let set = |name: &str, seconds: u64| {
            let file = fs::File::options().write(true).open(cache.folder().join(key(name).file())).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        };
        [("a", 1), ("b", 2), ("c", 3)].iter().for_each(|(name, seconds)| set(name, *seconds));
        assert!(cache.load(&key("a")).is_some(), "which makes it the one that was used last");
        let limited = cache.clone().limit(3 * 1300);
        limited.store(&key("d"), &contents(&[&block]));
        let known = ["a", "b", "c", "d"].map(|name| cache.load(&key(name)).is_some());
        assert_eq!(known, [true, false, true, true]);
        limited.store(&key("e"), &contents(&[&[1; 5000]]));
        assert!(cache.load(&key("e")).is_none(), "more than the limit");
        assert!(cache.load(&key("a")).is_some(), "nothing is deleted for what is not stored");
    }

    #[cfg(unix)]
    #[test]
    fn what_others_may_write_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (_folder, cache) = cache();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        cache.store(&key("a"), &contents(&[b"one"]));
        let path = cache.folder().join(key("a").file());
        assert_eq!((mode(cache.folder()), mode(&path)), (0o700, 0o600));
        for wrong in [0o620, 0o602, 0o666] {
            set(&path, wrong);
            assert!(cache.load(&key("a")).is_none(), "a file of mode {wrong:o}");
        }
        set(&path, 0o644);
        assert!(cache.load(&key("a")).is_some());
        for wrong in [0o720, 0o702, 0o777] {
            set(cache.folder(), wrong);
            assert!(cache.load(&key("a")).is_none(), "a folder of mode {wrong:o}");
            assert!(CacheFolder::open(cache.folder()).is_err());
            cache.store(&key("b"), &contents(&[b"two"]));
        }
        set(cache.folder(), 0o700);
        assert!(cache.load(&key("b")).is_none(), "nothing was stored meanwhile");
        let elsewhere = cache.folder().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(cache.load(&key("a")).is_none(), "a link");
    }
}
