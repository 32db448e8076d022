//! File access for scripts, restricted to permitted folders.
//!
//! A path that begins with one of these folders is inside it; any other, with or without a leading slash, is relative to the first. No step
//! of a path may go up. `cap-std` resolves it from the opened folder, so no link leads out, even one that is made meanwhile. Links with
//! absolute paths are not followed.

use std::{
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Component, Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt as _},
};

use super::BYTES_MAX;

/// Maximum length of a path in bytes.
const PATH_MAX: usize = 4096;
/// Maximum number of files in a listed folder, and in a deleted tree.
const ENTRIES_MAX: usize = 10_000;

/// The reason why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error(
        "`{path}` cannot be reached, since no folder may be used: `allow.files` names those that may, and would have to name the one of this file"
    )]
    NoRoots { path: String },
    #[error("a path has 1 to {PATH_MAX} bytes, none of them zero, and this one has {length}")]
    Path { length: usize },
    #[error("`{path}` leads up with `..`; a path leads down, in a folder of `allow.files`")]
    Up { path: String },
    #[error(
        "`{path}` leads out of `{}` by a link; only what is in the folders of `allow.files` can be reached",
        root.display()
    )]
    Out { path: String, root: PathBuf },
    #[error("`{path}` is a folder of `allow.files` itself, and stays")]
    Root { path: String },
    #[error("the folder `{}` of `allow.files` cannot be used", root.display())]
    NoRoot {
        root: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("`{path}` cannot be {done}")]
    Io {
        path: String,
        done: &'static str,
        #[source]
        error: io::Error,
    },
    #[error("`{path}` is no regular file")]
    NoFile { path: String },
    #[error("`{path}` would have {length} bytes; at most {BYTES_MAX} are read or written")]
    TooLong { path: String, length: u64 },
    #[error(
        "`{path}` has more than {ENTRIES_MAX} files, which are the most that are listed or deleted at once"
    )]
    TooMany { path: String },
    #[error("{what} is a whole number that is not negative, and not {value}")]
    Number { what: &'static str, value: f64 },
}

type Result<T> = std::result::Result<T, FileError>;

/// The permitted folders.
#[derive(Debug)]
pub(super) struct Files<'a> {
    roots: &'a [PathBuf],
}

/// A resolved path.
struct Place<'p> {
    /// The path as the script gave it.
    name: &'p str,
    /// The folder of `allow.files`.
    root: &'p Path,
    folder: Dir,
    /// Relative to that folder; `.` is the folder itself.
    path: PathBuf,
}

impl Place<'_> {
    /// Converts a system error.
    fn failed(&self, done: &'static str) -> impl FnOnce(io::Error) -> FileError {
        let (path, root) = (self.name.to_owned(), self.root.to_owned());
        move |error| {
            // `cap-std` refuses what leads out with an error of its own, not the system's.
            if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
                return FileError::Out { path, root };
            }
            FileError::Io { path, done, error }
        }
    }

    /// Opens a regular file. A named pipe is not waited for.
    fn open(&self, options: &mut OpenOptions, done: &'static str) -> Result<(File, Metadata)> {
        let options = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        let file = self
            .folder
            .open_with(&self.path, options)
            .map_err(self.failed(done))?;
        let data = file.metadata().map_err(self.failed(done))?;
        if !data.is_file() {
            return Err(FileError::NoFile {
                path: self.name.to_owned(),
            });
        }
        Ok((file, data))
    }

    /// Makes a folder, and those that lead to it.
    fn make_folders(&self, path: &Path, done: &'static str) -> Result<()> {
        let failed = match self.folder.create_dir_all(path) {
            Ok(()) => return Ok(()),
            // A link that leads out is there, too.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.folder.metadata(path).err().unwrap_or(error)
            }
            Err(error) => error,
        };
        Err(self.failed(done)(failed))
    }

    /// Refuses a tree of more files than are deleted at once.
    fn check_tree(&self) -> Result<()> {
        let mut folders = vec![self.path.clone()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in self.folder.read_dir(&folder).map_err(self.failed("deleted"))? {
                let entry = entry.map_err(self.failed("deleted"))?;
                count += 1;
                if count > ENTRIES_MAX {
                    return Err(FileError::TooMany {
                        path: self.name.to_owned(),
                    });
                }
                if entry.file_type().map_err(self.failed("deleted"))?.is_dir() {
                    folders.push(folder.join(entry.file_name()));
                }
            }
        }
        Ok(())
    }
}

impl<'a> Files<'a> {
    pub(super) fn new(roots: &'a [PathBuf]) -> Self {
        Self { roots }
    }

    /// The size of a file in bytes.
    pub(super) fn length(&self, path: &str) -> Result<u64> {
        let (_, data) = self.place(path)?.open(OpenOptions::new().read(true), "read")?;
        Ok(data.len())
    }

    /// Reads at most `length` bytes of a file, starting at offset `from`. `length` may be infinite. If that gives more than `BYTES_MAX`
    /// bytes, it fails.
    pub(super) fn read(&self, path: &str, from: f64, length: f64) -> Result<Vec<u8>> {
        let from = whole("where reading begins", from)?;
        let most = whole("how much is read", length)?;
        let place = self.place(path)?;
        let (mut file, data) = place.open(OpenOptions::new().read(true), "read")?;
        let length = data.len().saturating_sub(from).min(most);
        if length > BYTES_MAX as u64 {
            return Err(FileError::TooLong {
                path: path.to_owned(),
                length,
            });
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.take(length).read_to_end(&mut bytes))
            .map_err(place.failed("read"))?;
        Ok(bytes)
    }

    /// Writes a file, and creates its parent folders. Its size may not exceed `BYTES_MAX`.
    pub(super) fn write(&self, path: &str, content: &[u8], append: bool) -> Result<()> {
        let mut length = content.len() as u64;
        let check = |length: u64| {
            if length > BYTES_MAX as u64 {
                return Err(FileError::TooLong {
                    path: path.to_owned(),
                    length,
                });
            }
            Ok(())
        };
        check(length)?;
        let place = self.place(path)?;
        if let Some(folder) = place
            .path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            place.make_folders(folder, "written")?;
        }
        let (mut file, data) = place.open(OpenOptions::new().append(true).create(true), "written")?;
        if append {
            length = length.saturating_add(data.len());
            check(length)?;
        } else {
            file.set_len(0).map_err(place.failed("written"))?;
        }
        file.write_all(content).map_err(place.failed("written"))
    }

    /// Lists a folder: for each file its path as scripts see it, its name, and `folder`, `file` or `other`. Empty if the folder does not
    /// exist.
    pub(super) fn list(&self, path: &str) -> Result<Vec<String>> {
        let place = self.place(path)?;
        let entries = match place.folder.read_dir(&place.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(place.failed("listed")(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(place.failed("listed"))?;
            if names.len() == ENTRIES_MAX {
                return Err(FileError::TooMany {
                    path: path.to_owned(),
                });
            }
            let kind = entry.file_type().map_err(place.failed("listed"))?;
            let kind = if kind.is_dir() {
                "folder"
            } else if kind.is_file() {
                "file"
            } else {
                "other"
            };
            names.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        names.sort_unstable();
        let folder = path.trim_end_matches('/');
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(names
            .into_iter()
            .flat_map(|(name, kind)| [format!("{slash}{folder}/{name}"), name, kind.to_owned()])
            .collect())
    }

    /// Deletes a file, a link, or a folder with everything in it.
    pub(super) fn delete(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        if place.path == Path::new(".") {
            return Err(FileError::Root {
                path: path.to_owned(),
            });
        }
        let data = place.folder.symlink_metadata(&place.path);
        if data.map_err(place.failed("deleted"))?.is_dir() {
            place.check_tree()?;
            place.folder.remove_dir_all(&place.path)
        } else {
            place.folder.remove_file(&place.path)
        }
        .map_err(place.failed("deleted"))
    }

    /// Creates a folder and its parents.
    pub(super) fn make_folders(&self, path: &str) -> Result<()> {
        let place = self.place(path)?;
        place.make_folders(&place.path, "made")
    }

    /// Resolves a path to its folder and the path in it.
    fn place<'p>(&self, path: &'p str) -> Result<Place<'p>>
    where
        'a: 'p,
    {
        let length = path.len();
        if path.trim().is_empty() || length > PATH_MAX || path.contains('\0') {
            return Err(FileError::Path { length });
        }
        let inside = self
            .roots
            .iter()
            .find_map(|root| Some((root, Path::new(path).strip_prefix(root).ok()?)));
        let Some((root, rest)) = inside.or_else(|| Some((self.roots.first()?, Path::new(path)))) else {
            return Err(FileError::NoRoots {
                path: path.to_owned(),
            });
        };
        let mut below = PathBuf::new();
        for step in rest.components() {
            match step {
                Component::CurDir | Component::RootDir => {}
                Component::Normal(name) => below.push(name),
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(FileError::Up {
                        path: path.to_owned(),
                    });
                }
            }
        }
        if below.as_os_str().is_empty() {
            below.push(".");
        }
        let folder = Dir::open_ambient_dir(root, ambient_authority());
        Ok(Place {
            name: path,
            root,
            folder: folder.map_err(|error| FileError::NoRoot {
                root: root.clone(),
                error,
            })?,
            path: below,
        })
    }
}

/// Converts a number of bytes.
fn whole(what: &'static str, value: f64) -> Result<u64> {
    if value >= 0.0 && (value.fract() == 0.0 || value.is_infinite()) {
        return Ok(value as u64);
    }
    Err(FileError::Number { what, value })
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::symlink,
    };

    use tempfile::TempDir;

    use super::*;

    /// Two permitted folders next to one that is not.
    struct Fixture {
        folder: TempDir,
        roots: Vec<PathBuf>,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let roots = ["first", "second"].map(|name| folder.path().join(name)).to_vec();
            for name in ["first", "second", "secret"] {
                fs::create_dir(folder.path().join(name)).unwrap();
                fs::write(folder.path().join(name).join("name.txt"), name).unwrap();
            }
            Self { folder, roots }
        }

        fn files(&self) -> Files<'_> {
            Files::new(&self.roots)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn at(&self, name: &str) -> String {
            self.path(name).to_str().unwrap().to_owned()
        }

        fn read(&self, path: &str) -> String {
            match self.files().read(path, 0.0, f64::INFINITY) {
                Ok(bytes) => String::from_utf8(bytes).unwrap(),
                Err(error) => format!("error: {error}"),
            }
        }
    }

    #[test]
    fn paths_lead_into_the_first_folder_or_the_one_they_begin_with() {
        let fixture = Fixture::new();
        for path in [
            "name.txt",
            "/name.txt",
            "//./name.txt",
            &fixture.at("first/name.txt"),
        ] {
            assert_eq!(fixture.read(path), "first", "{path}");
        }
        assert_eq!(fixture.read(&fixture.at("second/name.txt")), "second");
        // The path of a folder that is not permitted is relative to the first one.
        let refused = fixture.read(&fixture.at("secret/name.txt"));
        assert!(
            refused.starts_with("error: ") && refused.ends_with("cannot be read"),
            "{refused}"
        );
    }

    #[test]
    fn no_path_leads_out() {
        let fixture = Fixture::new();
        symlink(fixture.path("secret"), fixture.path("first/folder")).unwrap();
        symlink("../secret/name.txt", fixture.path("first/file")).unwrap();
        symlink(fixture.path("secret/new.txt"), fixture.path("first/nowhere")).unwrap();
        symlink("name.txt", fixture.path("first/alias")).unwrap();
        assert_eq!(fixture.read("alias"), "first");
        for path in ["folder/name.txt", "file", "folder", "folder/new/new.txt"] {
            let files = fixture.files();
            let refused = [
                files.read(path, 0.0, 1.0).map(|_| ()),
                files.write(path, b"x", true),
                files.list(path).map(|_| ()),
                files.make_folders(path),
                files.length(path).map(|_| ()),
            ];
            for refused in refused {
                assert!(
                    matches!(refused, Err(FileError::Out { .. })),
                    "{path}: {refused:?}"
                );
            }
        }
        assert!(matches!(
            fixture.files().delete("folder/name.txt"),
            Err(FileError::Out { .. })
        ));
        assert!(fixture.files().write("nowhere", b"x", false).is_err());
        assert!(!fixture.path("secret/new.txt").exists());
        for path in [
            "../secret/name.txt",
            "a/../../secret",
            &fixture.at("first/../secret/name.txt"),
            "..",
        ] {
            let refused = fixture.files().read(path, 0.0, 1.0);
            assert!(
                matches!(refused, Err(FileError::Up { .. })),
                "{path}: {refused:?}"
            );
        }
        assert_eq!(fs::read(fixture.path("secret/name.txt")).unwrap(), b"secret");
    }

    #[test]
    fn a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere() {
        let fixture = Fixture::new();
        let [folder, aside] = ["first/folder", "first/aside"].map(|name| fixture.path(name));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("name.txt"), "inside").unwrap();
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                for _ in 0..2000 {
                    fs::rename(&folder, &aside).unwrap();
                    symlink(fixture.path("secret"), &folder).unwrap();
                    fs::remove_file(&folder).unwrap();
                    fs::rename(&aside, &folder).unwrap();
                }
            });
            while !swapping.is_finished() {
                let read = fixture.read("folder/name.txt");
                assert!(read == "inside" || read.starts_with("error: "), "{read}");
            }
        });
        assert_eq!(fixture.read("folder/name.txt"), "inside");
    }

    #[test]
    fn without_folders_nothing_can_be_reached() {
        let files = Files::new(&[]);
        let refused = files.read("/etc/passwd", 0.0, 1.0).unwrap_err().to_string();
        assert!(refused.starts_with("`/etc/passwd` cannot be reached") && refused.contains("`allow.files`"));
        let missing = [PathBuf::from("/nowhere/at/all")];
        let refused = Files::new(&missing)
            .write("x", b"", false)
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("the folder `/nowhere/at/all` of `allow.files`"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_written_can_be_read_in_parts() {
        let fixture = Fixture::new();
        let files = fixture.files();
        files.write("/deep/er/new.txt", b"0123", false).unwrap();
        files.write("/deep/er/new.txt", b"456789", true).unwrap();
        assert_eq!(files.length("deep/er/new.txt").unwrap(), 10);
        for (from, length, found) in [
            (0.0, f64::INFINITY, "0123456789"),
            (4.0, 3.0, "456"),
            (8.0, 5.0, "89"),
            (20.0, 5.0, ""),
        ] {
            let bytes = files.read("deep/er/new.txt", from, length).unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), found);
        }
        files.write("/deep/er/new.txt", b"x", false).unwrap();
        assert_eq!(fixture.read("deep/er/new.txt"), "x");
        for (from, length) in [(-1.0, 1.0), (0.5, 1.0), (0.0, f64::NAN)] {
            assert!(matches!(
                files.read("name.txt", from, length),
                Err(FileError::Number { .. })
            ));
        }
    }

    #[test]
    fn folders_are_made_listed_and_deleted() {
        let fixture = Fixture::new();
        let files = fixture.files();
        files.make_folders("/a/b").unwrap();
        files.make_folders("/a/b").unwrap();
        files.write("a/.hidden", b"", false).unwrap();
        symlink(fixture.path("secret"), fixture.path("first/a/link")).unwrap();
        assert_eq!(
            files.list("/a/").unwrap(),
            [
                "/a/.hidden",
                ".hidden",
                "file",
                "/a/b",
                "b",
                "folder",
                "/a/link",
                "link",
                "other"
            ]
        );
        assert_eq!(files.list("/").unwrap()[..3], ["/a", "a", "folder"]);
        assert_eq!(files.list("nothing").unwrap(), [""; 0]);
        assert!(matches!(files.list("name.txt"), Err(FileError::Io { .. })));
        assert!(matches!(files.delete("/"), Err(FileError::Root { .. })));
        assert!(matches!(files.delete("nothing"), Err(FileError::Io { .. })));
        files.delete("a/link").unwrap();
        files.delete("a").unwrap();
        files.delete("name.txt").unwrap();
        assert_eq!(files.list("/").unwrap(), [""; 0]);
        assert_eq!(fs::read(fixture.path("secret/name.txt")).unwrap(), b"secret");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let fixture = Fixture::new();
        let pipe = std::ffi::CString::new(fixture.at("first/pipe")).unwrap();
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &*pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        );
        made.unwrap();
        assert!(matches!(
            fixture.files().read("pipe", 0.0, 1.0),
            Err(FileError::NoFile { .. })
        ));
        assert!(matches!(
            fixture.files().read("/", 0.0, 1.0),
            Err(FileError::NoFile { .. })
        ));
        assert!(fixture.files().write("pipe", b"x", false).is_err());
        assert!(fixture.files().write("/", b"x", false).is_err());
    }

    #[test]
    fn lengths_and_numbers_are_bounded() {
        let fixture = Fixture::new();
        let files = fixture.files();
        let longest = vec![b'x'; BYTES_MAX];
        files.write("long", &longest, false).unwrap();
        assert!(matches!(
            files.write("long", b"x", true),
            Err(FileError::TooLong { .. })
        ));
        assert_eq!(files.length("long").unwrap(), BYTES_MAX as u64);
        assert!(matches!(
            files.write("other", &[&longest[..], b"x"].concat(), false),
            Err(FileError::TooLong { .. })
        ));
        fs::write(fixture.path("first/longer"), [&longest[..], b"x"].concat()).unwrap();
        assert!(matches!(
            files.read("longer", 0.0, f64::INFINITY),
            Err(FileError::TooLong { .. })
        ));
        assert_eq!(files.read("longer", 1.0, f64::INFINITY).unwrap().len(), BYTES_MAX);
        fs::create_dir_all(fixture.path("first/many/below")).unwrap();
        for number in 0..ENTRIES_MAX {
            File::create(fixture.path(&format!("first/many/below/{number}"))).unwrap();
        }
        assert_eq!(files.list("many/below").unwrap().len(), 3 * ENTRIES_MAX);
        assert!(matches!(files.delete("many"), Err(FileError::TooMany { .. })));
        File::create(fixture.path("first/many/below/more")).unwrap();
        assert!(matches!(files.list("many/below"), Err(FileError::TooMany { .. })));
        for path in ["", " ", "a\0b", &"x".repeat(PATH_MAX + 1)] {
            assert!(matches!(files.read(path, 0.0, 1.0), Err(FileError::Path { .. })));
        }
    }
}
