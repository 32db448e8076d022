//! Static files as a target: the folder's answer as an HTTP answer.

use std::{borrow::Cow, io, path::Path};

use super::{FileBody, Folder};
use crate::{
    failure::Refusal,
    reply::{Body, Reply},
    target::Request,
};

/// A folder whose files answer a route.
#[derive(Debug)]
pub(crate) struct FilesTarget {
    folder: Folder,
}

impl FilesTarget {
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            folder: Folder::open(folder)?,
        })
    }

    /// Opens and reads on the I/O thread: files that are asked for lie in the page cache, and handing them to another thread would
    /// cost more than it saves.
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
                tracing::error!(target: "forebay::files", cause = %error, path = head.path(), "cannot read a static file");
                Refusal::FileUnreadable
            })?;
        match answer.status {
            404 => return Err(Refusal::NoSuchFile),
            412 => return Err(Refusal::Precondition),
            405 => {
                return Err(Refusal::MethodNotAllowed {
                    allow: "GET, HEAD, OPTIONS".into(),
                });
            }
            _ => {}
        }
        let mut reply = Reply::new(answer.status);
        for (name, value) in &answer.headers {
            match *name {
                "content-length" => reply.length = value.parse().ok(),
                name => reply.headers.to_mut().push_known(name, value),
            }
        }
        reply.body = match answer.body {
            FileBody::Empty => Body::Empty,
            FileBody::Bytes(bytes) => Body::Bytes(bytes.into()),
            FileBody::File { file, offset, len } => Body::File {
                file,
                offset,
                length: len,
            },
        };
        Ok(reply)
    }
}
