//! The OpenAPI document as a target, and for browsers a page that shows it. The page takes its script, its style and the document from its own
//! address, so that it works under policies that allow nothing from elsewhere.

use std::borrow::Cow;

use bytes::Bytes;

use super::{Request, files::METHODS};
use crate::{
    conditions::{self, Verdict},
    failure::Refusal,
    front::Head,
    reply::{Body, HeaderLines, Reply},
    store::Tag,
};

/// Headers of the page. It puts texts into elements as texts, and the browser sees to it.
const PAGE_HEADERS: &str = "content-type: text/html; charset=utf-8\r\ncontent-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\nvary: accept\r\n";
const SCRIPT_HEADERS: &str = "content-type: text/javascript; charset=utf-8\r\n";
const STYLE_HEADERS: &str = "content-type: text/css; charset=utf-8\r\n";
const DOCUMENT_HEADERS: &str = "content-type: application/json\r\nvary: accept\r\n";

/// A body with its entity tag.
#[derive(Clone, Debug)]
pub(crate) struct Tagged {
    pub(crate) body: Bytes,
    tag: Tag,
}

impl Tagged {
    pub(crate) fn new(body: Bytes) -> Self {
        let tag = Tag::of(&body);
        Self { body, tag }
    }

    /// The response to a request that reads, or 304 if the client has it.
    pub(crate) fn reply(&self, head: &Head, headers: &'static str) -> Result<Reply<'static>, Refusal> {
        let tag = self.tag.text();
        let (matches, matches_not) = (head.list("if-match"), head.list("if-none-match"));
        let mut reply = Reply::new(200);
        match conditions::judge(matches.as_deref(), matches_not.as_deref(), &tag)? {
            Verdict::Fails => return Err(Refusal::Precondition),
            Verdict::Known => reply.status = 304,
            Verdict::Holds => reply.body = Body::Bytes(self.body.clone()),
        }
        let mut lines = HeaderLines::of_known(0, headers);
        lines.push_known("cache-control", "no-cache");
        lines.push_known("etag", std::str::from_utf8(&tag).unwrap_or_default());
        reply.headers = Cow::Owned(lines);
        Ok(reply)
    }
}

/// The OpenAPI target of one route.
#[derive(Debug)]
pub(crate) struct OpenApiTarget {
    page: Tagged,
    script: Tagged,
    style: Tagged,
}

impl OpenApiTarget {
    pub(crate) fn new() -> Self {
        let tagged = |text: &'static str| Tagged::new(Bytes::from_static(text.as_bytes()));
        Self {
            page: tagged(include_str!("page.html")),
            script: tagged(include_str!("page.js")),
            style: tagged(include_str!("page.css")),
        }
    }

    pub(crate) fn reply(&self, request: &Request<'_>) -> Result<Reply<'static>, Refusal> {
        let head = request.head;
        match head.method() {
            "GET" | "HEAD" => {}
            "OPTIONS" => {
                let mut reply = Reply::new(204);
                reply.headers.to_mut().push_known("allow", METHODS);
                return Ok(reply);
            }
            _ => {
                let allow = METHODS.into();
                return Err(Refusal::MethodNotAllowed { allow });
            }
        }
        match head.query() {
            b"page.js" => self.script.reply(head, SCRIPT_HEADERS),
            b"page.css" => self.style.reply(head, STYLE_HEADERS),
            _ if head.accepts_html() => self.page.reply(head, PAGE_HEADERS),
            _ => request.app.openapi().reply(head, DOCUMENT_HEADERS),
        }
    }
}
