//! Answers from memory.

use bytes::Bytes;

use crate::{
    config::Respond,
    reply::{Body, HeaderLines, Reply},
};

/// An answer that is made once.
#[derive(Debug)]
pub(crate) struct RespondTarget {
    status: u16,
    headers: HeaderLines,
    body: Bytes,
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
        Self { status: respond.status, headers, body: respond.body.into() }
    }

    pub(crate) fn reply(&self) -> Reply {
        Reply {
            status: self.status,
            headers: self.headers.clone(),
            body: Body::Bytes(self.body.clone()),
            length: None,
        }
    }
}
