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

/// An answer. Statuses from 400 on come without a body, for the server to explain.
#[derive(Debug)]
pub struct FileAnswer {
    /// 200, 204, 206, 301, 304, 404, 405, 412 or 416.
    pub status: u16,
    /// Names in lower case; `content-length` is there whenever the answer, or for HEAD the answer to GET, has a body.
    pub headers: Vec<(&'static str, String)>,
    /// What to send.
    pub body: FileBody,
}

/// The body of an answer.
#[derive(Debug)]
pub enum FileBody {
    /// None.
    Empty,
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
            "OPTIONS" => return Ok(FileAnswer::allow(204)),
            _ => return Ok(FileAnswer::allow(405)),
        }
        let Some(names) = names_of(rest) else {
            return Ok(FileAnswer::empty(404));
        };
        let (last, folders) = names.split_last().expect("a path has at least one segment");
        let wants_folder = last.is_empty();
        let path = if wants_folder {
            folders.join("/")
        } else {
            names.join("/")
        };
        let Some((file, meta)) = self.opener.open(&path)? else {
            return Ok(FileAnswer::empty(404));
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
                    _ => Ok(FileAnswer::empty(404)),
                }
            }
            (true, false) => Ok(FileAnswer::redirect(last)),
            (false, false) if meta.is_file() => send(method, last, file, &meta, header),
            (false, _) => Ok(FileAnswer::empty(404)),
        }
    }
}

impl FileAnswer {
    fn empty(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: FileBody::Empty,
        }
    }

    fn allow(status: u16) -> Self {
        let headers = vec![("allow", "GET, HEAD, OPTIONS".to_owned())];
        Self {
            status,
            headers,
            body: FileBody::Empty,
        }
    }

    /// To the same path with a slash at its end, relative, because the folder does not know under which path it is served.
    fn redirect(folder: &str) -> Self {
        let mut location = "./".to_owned();
        put_encoded(folder, &mut location);
        location.push('/');
        let headers = vec![("location", location)];
        Self {
            status: 301,
            headers,
            body: FileBody::Empty,
        }
    }
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
    let (etag, modified) = (etag_of(meta), modified_of(meta));
    let mut headers = vec![("etag", etag.clone())];
    headers.extend(modified.map(|modified| ("last-modified", httpdate::fmt_http_date(modified))));
    let status = match condition::judge(&etag, modified, header) {
        Verdict::Holds => None,
        Verdict::Known => Some(304),
        Verdict::Fails => Some(412),
    };
    if let Some(status) = status {
        return Ok(FileAnswer {
            status,
            headers,
            body: FileBody::Empty,
        });
    }
    headers.push(("accept-ranges", "bytes".to_owned()));
    let asked =
        header("range").filter(|_| method == "GET" && condition::range_applies(&etag, modified, header));
    let size = meta.len();
    let (status, offset, len) = match asked.map_or(Range::Whole, |asked| range::parse(&asked, size)) {
        Range::Whole => (200, 0, size),
        Range::Part { first, last } => {
            headers.push(("content-range", format!("bytes {first}-{last}/{size}")));
            (206, first, last - first + 1)
        }
        Range::Unsatisfiable => {
            let headers = vec![("content-range", format!("bytes */{size}"))];
            return Ok(FileAnswer {
                status: 416,
                headers,
                body: FileBody::Empty,
            });
        }
    };
    headers.push(("content-type", content_type_of(Path::new(name)).to_owned()));
    headers.push(("content-length", len.to_string()));
    let body = if method == "HEAD" {
        FileBody::Empty
    } else {
        body_of(file, offset, len)?
    };
    Ok(FileAnswer {
        status,
        headers,
        body,
    })
}

fn body_of(file: File, offset: u64, len: u64) -> io::Result<FileBody> {
    if len > IN_MEMORY_BYTES_MAX {
        return Ok(FileBody::File { file, offset, len });
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(FileBody::Bytes(bytes))
}

/// Strong: another file, another size or another time of change makes another tag.
fn etag_of(meta: &Metadata) -> String {
    format!(
        "\"{:x}-{:x}-{:x}.{:x}\"",
        meta.ino(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec()
    )
}

/// In whole seconds, as an HTTP date says it. `None`: before 1970, which such a date cannot say.
fn modified_of(meta: &Metadata) -> Option<SystemTime> {
    let seconds = u64::try_from(meta.mtime()).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
