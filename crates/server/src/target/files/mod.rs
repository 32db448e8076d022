//! A static folder: from the part of a path below it to an answer, without a server around it.
//!
//! Everything here blocks on the file system and nothing waits for a network. What it never does: leave the folder, by `..`, by an
//! encoding of it, or by a symbolic link; answer with a hidden file (a segment that starts with a dot) or anything but a regular
//! file; open a file that would block, such as a pipe.

mod condition;
mod content_type;
mod open;
mod range;
mod target;

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

pub use content_type::content_type_of;
pub(crate) use target::FilesTarget;

pub use crate::conditions::TagsError;
use crate::conditions::Verdict;
use crate::router::{decode, put_encoded};
use open::Opener;
use range::Range;

/// Bodies up to this size are read at once and answered from memory.
const IN_MEMORY_BYTES_MAX: u64 = 64 * 1024;

/// The file that answers for a folder.
const INDEX: &str = "index.html";

/// An open folder. It stays the same folder when its path is renamed or replaced.
#[derive(Debug)]
pub struct Folder {
    opener: Opener,
}

/// What a folder answers with.
#[derive(Debug)]
pub enum FileAnswer {
    /// A file, all of it.
    Whole(Found),
    /// The part of a file that the client wants.
    Part {
        /// The file, with that part as its body.
        found: Found,
        /// Where the part begins.
        first: u64,
        /// Where it ends: its last byte.
        last: u64,
        /// Bytes of the whole file.
        size: u64,
    },
    /// The client has it already.
    NotModified(Version),
    /// The path with a slash at its end is a folder.
    Redirect {
        /// Relative, because the folder does not know under which path it is served.
        location: String,
    },
    /// There is no such file.
    Absent,
    /// The file is not the one that the client demands.
    Precondition,
    /// What the client demands cannot be read.
    Tags(TagsError),
    /// Bytes that the file does not have.
    Unsatisfiable {
        /// Bytes of the file.
        size: u64,
    },
    /// The client asks for the methods, or with another one: there are [`METHODS`].
    Methods {
        /// Whether it has asked for them.
        are_asked_for: bool,
    },
}

/// The methods of files.
pub const METHODS: &str = "GET, HEAD, OPTIONS";

/// A file that answers.
#[derive(Debug)]
pub struct Found {
    /// Which it is.
    pub version: Version,
    /// What its name says of its content.
    pub media_type: &'static str,
    /// What to send; to HEAD, only its length.
    pub body: FileBody,
}

/// By what a client knows a file again.
#[derive(Debug, PartialEq, Eq)]
pub struct Version {
    /// Strong: another file, another size or another time of change makes another tag.
    pub etag: String,
    /// In whole seconds, as an HTTP date says it. `None`: before 1970, which such a date cannot say.
    pub modified: Option<SystemTime>,
}

/// The body of an answer.
#[derive(Debug)]
pub enum FileBody {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A part of a file.
    File {
        /// Open for reading; its own position is not to be relied on.
        file: File,
        /// Where the part begins.
        offset: u64,
        /// Its length in bytes.
        len: u64,
    },
}

/// A request's header by its lower-case name: all lines of that name as one list, when they are UTF-8.
pub type HeaderLookup<'l, 'h> = &'l dyn Fn(&'static str) -> Option<Cow<'h, str>>;

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            opener: Opener::new(path)?,
        })
    }

    /// Answers for `rest`, the request's path below the folder, still percent-encoded and without a slash at its start.
    ///
    /// `Err`: the system failed (no more file descriptors, a broken disk), not the client.
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
                    Some((file, meta)) if meta.is_file() => send(method, INDEX, file, &meta, header),
                    _ => Ok(FileAnswer::Absent),
                }
            }
            (true, false) => Ok(FileAnswer::Redirect {
                location: location_of(last),
            }),
            (false, false) if meta.is_file() => send(method, last, file, &meta, header),
            (false, _) => Ok(FileAnswer::Absent),
        }
    }
}

/// A folder's path with a slash at its end, from the path without.
fn location_of(folder: &str) -> String {
    let mut location = "./".to_owned();
    put_encoded(folder, &mut location);
    location.push('/');
    location
}

/// The decoded segments. `None`: no file has such a name, or it is hidden.
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

/// Answers with a regular file, or the part of it that the client needs.
fn send(
    method: &str,
    name: &str,
    file: File,
    meta: &Metadata,
    header: HeaderLookup<'_, '_>,
) -> io::Result<FileAnswer> {
    let version = Version::of(meta);
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
            media_type: content_type_of(Path::new(name)),
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
