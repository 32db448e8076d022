//! Fixed responses from memory.

use std::borrow::Cow;

use crate::{
    config::Respond,
    reply::{Body, HeaderLines, Reply},
};

/// A response that is built once, at startup.
#[derive(Debug)]
pub(crate) struct RespondTarget {
    status: u16,
    headers: HeaderLines,
    body: Vec<u8>,
}

impl RespondTarget {
    pub(crate) fn new(respond: Respond) -> Self {
        let mut headers = HeaderLines::default();
        if let Some(content_type) = &respond.content_type {
            headers.push_known("content-type", content_type);
        }
        for (name, value) in &respond.headers {
            headers.push_known(name, value);
        }
        Self {
            status: respond.status,
            headers,
            body: respond.body,
        }
    }

    pub(crate) fn reply(&self) -> Reply<'_> {
        Reply {
            status: self.status,
            headers: Cow::Borrowed(&self.headers),
            body: Body::Borrowed(&self.body),
            length: None,
            encoded: None,
        }
    }
}
