//! A static folder: turns the rest of a path below it into a response, with no server around it.
//!
//! All of it blocks on the file system and none of it waits for a network. It never leaves the folder, whether by `..`, by an encoding of
//! it or by a symbolic link; never serves a hidden file (a segment that starts with a dot) or anything but a regular file; and never opens
//! a file that would block, such as a pipe.

mod condition;

mod open;
mod range;
mod target;

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use crate::config::content_type_of;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use range::{Range as FileRange, parse as parse_range};
pub(crate) use target::FilesTarget;

use crate::compression::{AcceptEncoding, Coding};
pub use crate::conditions::TagsError;
use crate::conditions::Verdict;
use forebay_router::{decode, put_encoded};
use open::Opener;
use range::Range;

/// Bodies up to this size are read at once and sent from memory.
const IN_MEMORY_BYTES_MAX: u64 = 64 * 1024;

/// Codings of compressed files, the most compact first.
const CODINGS: [Coding; Coding::COUNT] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

/// The file served for a folder.
const INDEX: &str = "index.html";

/// An open folder. It stays the same folder even if its path is renamed or replaced.
#[derive(Debug)]
pub struct Folder {
    opener: Opener,
    precompressed: bool,
}

/// Result of a request to a folder.
#[derive(Debug)]
pub enum FileAnswer {
    /// The whole file.
    Whole(Found),
    /// The range of a file that the client asked for.
    Part {
        /// The file, with only that range as its body.
        found: Found,
        /// Offset of the range's first byte.
        first: u64,
        /// Offset of the range's last byte.
        last: u64,
        /// Size of the whole file in bytes.
        size: u64,
    },
    /// The client's copy is current.
    NotModified(Version),
    /// The path lacks its final slash: it names a folder.
    Redirect {
        /// Relative, because the folder does not know under which path it is served.
        location: String,
    },
    /// No such file.
    Absent,
    /// A precondition of the request does not hold.
    Precondition,
    /// The tags in If-Match or If-None-Match cannot be parsed.
    Tags(TagsError),
    /// The range lies outside the file.
    Unsatisfiable {
        /// Size of the file in bytes.
        size: u64,
    },
    /// OPTIONS, or a method that files do not support; the supported ones are [`METHODS`].
    Methods {
        /// Whether the request was OPTIONS.
        are_asked_for: bool,
    },
}

/// Methods that a folder supports, as an Allow field lists them.
pub const METHODS: &str = "GET, HEAD, OPTIONS";

/// A file to serve.
#[derive(Debug)]
pub struct Found {
    /// Validators of the file, for conditional requests.
    pub version: Version,
    /// Content type, by the file's extension.
    pub media_type: &'static str,
    /// Content coding, if a compressed file stands in for it.
    pub coding: Option<&'static str>,
    /// The bytes to send; for HEAD, only their length counts.
    pub body: FileBody,
}

/// Validators by which a client recognizes an unchanged file.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    /// A strong tag: it changes with the file's inode, size or modification time.
    pub etag: String,
    /// Modification time in whole seconds, the precision of HTTP dates. `None`: before 1970, which such a date cannot express.
    pub modified: Option<SystemTime>,
}

/// The body of a response.
#[derive(Debug)]
pub enum FileBody {
    /// In memory.
    Bytes(Vec<u8>),
    /// A range of a file.
    File {
        /// Open for reading. Its own file position is undefined.
        file: File,
        /// Offset of the range's first byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// Looks up a request header by its lower-case name: all lines of that name as one list, if they are UTF-8.
pub type HeaderLookup<'l, 'h> = &'l dyn Fn(&'static str) -> Option<Cow<'h, str>>;

impl Folder {
    /// Opens a folder to serve. If `precompressed`, clients that accept it get the compressed file beside the one they ask for.
    ///
    /// # Errors
    /// If `path` cannot be opened as a folder.
    pub fn open(path: &Path, precompressed: bool) -> io::Result<Self> {
        Ok(Self {
            opener: Opener::new(path)?,
            precompressed,
        })
    }

    /// Answers a request. `rest` is the path below the folder, still percent-encoded and without a leading slash.
    ///
    /// # Errors
    /// A failure of the system (no file descriptor left, a broken disk), never of the client.
    pub fn answer(&self, method: &str, rest: &str, header: HeaderLookup<'_, '_>) -> io::Result<FileAnswer> {
        match method {
            "GET" | "HEAD" => {}
            _ => {
                let are_asked_for = method == "OPTIONS";
                return Ok(FileAnswer::Methods { are_asked_for });
            }
        }
        let Some(names) = names_of(rest) else {
            return Ok(FileAnswer::Absent);
        };
        let (last, folders) = names.split_last().expect("a path has at least one segment");
        let wants_folder = last.is_empty();
        let path = if wants_folder {
            folders.join("/")
        } else {
            names.join("/")
        };
        let Some((file, meta)) = self.opener.open(&path)? else {
            return Ok(FileAnswer::Absent);
        };
        match (meta.is_dir(), wants_folder) {
            (true, true) => {
                let index = if path.is_empty() {
                    INDEX.to_owned()
                } else {
                    format!("{path}/{INDEX}")
                };
                match self.opener.open(&index)? {
                    Some((file, meta)) if meta.is_file() => self.send(method, &index, file, meta, header),
                    _ => Ok(FileAnswer::Absent),
                }
            }
            (true, false) => Ok(FileAnswer::Redirect {
                location: location_of(last),
            }),
            (false, false) if meta.is_file() => self.send(method, &path, file, meta, header),
            (false, _) => Ok(FileAnswer::Absent),
        }
    }

    /// Serves a regular file, or the range of it that the client asked for.
    fn send(
        &self,
        method: &str,
        path: &str,
        file: File,
        meta: Metadata,
        header: HeaderLookup<'_, '_>,
    ) -> io::Result<FileAnswer> {
        let (coding, file, meta) = match self.compressed(path, header)? {
            Some((coding, file, meta)) => (Some(coding), file, meta),
            None => (None, file, meta),
        };
        let version = Version::of(&meta);
        match condition::judge(&version, header) {
            Ok(Verdict::Holds) => {}
            Ok(Verdict::Known) => return Ok(FileAnswer::NotModified(version)),
            Ok(Verdict::Fails) => return Ok(FileAnswer::Precondition),
            Err(error) => return Ok(FileAnswer::Tags(error)),
        }
        let asked = header("range").filter(|_| method == "GET" && condition::range_applies(&version, header));
        let size = meta.len();
        let found = |offset, len| {
            Ok::<_, io::Error>(Found {
                media_type: content_type_of(Path::new(path)),
                coding,
                body: body_of(method, file, offset, len)?,
                version,
            })
        };
        Ok(
            match asked.map_or(Range::Whole, |asked| range::parse(&asked, size)) {
                Range::Whole => FileAnswer::Whole(found(0, size)?),
                Range::Part { first, last } => FileAnswer::Part {
                    found: found(first, last - first + 1)?,
                    first,
                    last,
                    size,
                },
                Range::Unsatisfiable => FileAnswer::Unsatisfiable { size },
            },
        )
    }

    /// The compressed file beside a file, in the best coding that the client accepts.
    fn compressed(
        &self,
        path: &str,
        header: HeaderLookup<'_, '_>,
    ) -> io::Result<Option<(&'static str, File, Metadata)>> {
        if !self.precompressed {
            return Ok(None);
        }
        let Some(accepted) = header("accept-encoding") else {
            return Ok(None);
        };
        for coding in AcceptEncoding::parse(accepted.as_bytes()).preferred(CODINGS) {
            let path = format!("{path}.{}", coding.extension());
            if let Some((file, meta)) = self.opener.open(&path)?
                && meta.is_file()
            {
                return Ok(Some((coding.name(), file, meta)));
            }
        }
        Ok(None)
    }
}

/// The relative path of a folder with a slash at its end.
fn location_of(folder: &str) -> String {
    let mut location = "./".to_owned();
    put_encoded(folder, &mut location);
    location.push('/');
    location
}

/// The decoded segments. `None`: no file can have such a name, or it is hidden.
fn names_of(rest: &str) -> Option<Vec<String>> {
    let segments: Vec<&str> = rest.split('/').collect();
    let last = segments.len() - 1;
    let name_of = |(at, segment): (usize, &&str)| {
        let name = decode(segment)?;
        let is_name =
            !name.starts_with('.') && !name.contains(['/', '\0']) && (at == last || !name.is_empty());
        is_name.then(|| name.into_owned())
    };
    segments.iter().enumerate().map(name_of).collect()
}

fn body_of(method: &str, file: File, offset: u64, len: u64) -> io::Result<FileBody> {
    if len > IN_MEMORY_BYTES_MAX || method == "HEAD" {
        return Ok(FileBody::File { file, offset, len });
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(FileBody::Bytes(bytes))
}

impl Version {
    fn of(meta: &Metadata) -> Self {
        let etag = format!(
            "\"{:x}-{:x}-{:x}.{:x}\"",
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec()
        );
        let modified = u64::try_from(meta.mtime())
            .ok()
            .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        Self { etag, modified }
    }
}
