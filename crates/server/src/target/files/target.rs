//! Static files as a target: turns a folder's result into an HTTP response.

use std::{borrow::Cow, io};

use super::{FileAnswer, FileBody, Folder, Found, METHODS, Version};
use crate::{
    config::Files,
    failure::Refusal,
    reply::{Body, HeaderLines, Reply},
    target::Request,
};

/// A folder that serves the files of a route.
#[derive(Debug)]
pub(crate) struct FilesTarget {
    folder: Folder,
    /// Headers of every answer that is about a file, changed or not.
    headers: HeaderLines,
}

impl FilesTarget {
    pub(crate) fn open(files: &Files) -> io::Result<Self> {
        let mut headers = HeaderLines::default();
        if let Some(cache_control) = &files.cache_control {
            headers.push_known("cache-control", cache_control);
        }
        if files.precompressed {
            headers.push_known("vary", "accept-encoding");
        }
        Ok(Self {
            folder: Folder::open(&files.folder, files.precompressed)?,
            headers,
        })
    }

    /// Opens and reads on the I/O thread: requested files are mostly in the page cache, and handing them to another thread would cost more
    /// than it saves.
    pub(crate) fn reply(&self, request: &Request<'_>) -> Result<Reply<'static>, Refusal> {
        let head = request.head;
        let field = |name: &'static str| match head.list(name)? {
            Cow::Borrowed(value) => std::str::from_utf8(value).ok().map(Cow::Borrowed),
            Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
        };
        let answer = self
            .folder
            .answer(head.method(), request.rest.unwrap_or_default(), &field)
            .map_err(|error| {
                tracing::error!(target: "forebay::files", cause = %error, path = head.path(), request_id = request.id, "cannot read a static file");
                Refusal::FileUnreadable
            })?;
        match answer {
            FileAnswer::Whole(found) => Ok(self.whole_or_part(200, found, None)),
            FileAnswer::Part {
                found,
                first,
                last,
                size,
            } => Ok(self.whole_or_part(206, found, Some(&format!("bytes {first}-{last}/{size}")))),
            FileAnswer::NotModified(version) => {
                let mut reply = self.reply_about_file(304);
                put_version(&version, reply.headers.to_mut());
                Ok(reply)
            }
            FileAnswer::Redirect { location } => {
                let mut reply = Reply::new(301);
                reply.headers.to_mut().push_known("location", &location);
                Ok(reply)
            }
            FileAnswer::Absent => Err(Refusal::NoSuchFile),
            FileAnswer::Precondition => Err(Refusal::Precondition),
            FileAnswer::Tags(error) => Err(error.into()),
            FileAnswer::Unsatisfiable { size } => Err(Refusal::Range { size }),
            FileAnswer::Methods { are_asked_for: true } => {
                let mut reply = Reply::new(204);
                reply.headers.to_mut().push_known("allow", METHODS);
                Ok(reply)
            }
            FileAnswer::Methods { are_asked_for: false } => Err(Refusal::MethodNotAllowed {
                allow: METHODS.into(),
            }),
        }
    }

    fn reply_about_file(&self, status: u16) -> Reply<'static> {
        let mut reply = Reply::new(status);
        reply.headers = Cow::Owned(self.headers.clone());
        reply
    }

    fn whole_or_part(&self, status: u16, found: Found, part: Option<&str>) -> Reply<'static> {
        let mut reply = self.reply_about_file(status);
        let headers = reply.headers.to_mut();
        put_version(&found.version, headers);
        headers.push_known("accept-ranges", "bytes");
        if let Some(part) = part {
            headers.push_known("content-range", part);
        }
        headers.push_known("content-type", found.media_type);
        if let Some(coding) = found.coding {
            headers.push_known("content-encoding", coding);
        }
        reply.body = match found.body {
            FileBody::Bytes(bytes) => Body::Bytes(bytes.into()),
            FileBody::File { file, offset, len } => Body::File {
                file,
                offset,
                length: len,
            },
        };
        reply
    }
}

fn put_version(version: &Version, headers: &mut HeaderLines) {
    headers.push_known("etag", &version.etag);
    if let Some(modified) = version.modified {
        headers.push_known("last-modified", &httpdate::fmt_http_date(modified));
    }
}
