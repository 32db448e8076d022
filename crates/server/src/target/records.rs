//! Records of the store over HTTP, by reference or name: their stored bytes, changes to them, and lists of a kind.
//!
//! Requests that only read are answered on the I/O thread from a snapshot; all others are handed to the writer.

use std::{borrow::Cow, sync::Arc, time::Instant};

use forebay_records::{
    Action, INDENT_MAX, List, Page, Permission as _, RecordsError, Reference, Settings, check_kind,
    check_record, find, indented, is_name, kind_of,
};
use forebay_store::{Read as _, Snapshot, StoreError};

use super::{
    End, Request,
    access::{Rules, Visitor},
    parameters::parameters,
    snapshot_read::{ReadOutcome, Reading, only_reads, read, read_remote},
    store::{
        body, document_reply, json,
        write::{appended, condition, outcome},
    },
};
use crate::{
    config,
    failure::Refusal,
    front::{Client, Head},
    reply::Reply,
    store::{
        Done, OPERATION_BYTES, OpenStore, PIECE_TIME, Pieces, RecordChange, RecordOperation, RecordSelector,
        Tag, Work, lifetime,
    },
};
use forebay_router::{decode, put_encoded};

/// Methods of a single record.
const RECORD_METHODS: &str = "DELETE, GET, HEAD, OPTIONS, PATCH, PUT";
/// Methods of the collection of records.
const LIST_METHODS: &str = "GET, HEAD, OPTIONS, POST";
/// Records on a page if the request does not say.
const SIZE: u64 = 100;
/// Most records on a page.
const SIZE_MAX: u64 = 1000;
const SIZES: &str = "it is a whole number from 1 to 1000";
const INDENTS: &str = "it is a whole number from 0 to 8";

/// The records target of one route.
#[derive(Clone, Debug)]
pub(crate) struct RecordsTarget {
    pub(super) open: Arc<OpenStore>,
    pub(super) rules: Arc<Rules>,
    pub(super) settings: Arc<Settings>,
    pub(super) value_bytes_max: usize,
}

impl RecordsTarget {
    pub(crate) fn new(
        open: &Arc<OpenStore>,
        config: &config::Store,
        rules: &Arc<Rules>,
        settings: Settings,
    ) -> Self {
        Self {
            open: Arc::clone(open),
            rules: Arc::clone(rules),
            settings: Arc::new(settings),
            value_bytes_max: usize::try_from(config.value_bytes_max).unwrap_or(usize::MAX),
        }
    }

    pub(super) fn visitor<'r>(&'r self, head: &'r Head) -> Visitor<'r> {
        Visitor {
            rules: &self.rules,
            head,
        }
    }

    /// Answers a request: a read mostly at once, from a snapshot; a write once the writer has done it.
    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        if only_reads(request.head) && self.open.is_remote() {
            let (target, rest) = (self.clone(), request.rest.unwrap_or_default().to_owned());
            let begin = move |head: &Head| target.read(head, &rest);
            return Box::pin(read_remote(&self.open, request, client, begin)).await;
        }
        if only_reads(request.head) {
            let rest = request.rest.unwrap_or_default();
            return read(&self.open, request, client, || self.read(request.head, rest)).await;
        }
        client.before_waiting().await?;
        self.write(request, client).await
    }

    /// Begins a read-only request.
    fn read(&self, head: &Head, rest: &str) -> Result<ReadOutcome, Refusal> {
        match rest {
            "" => self.list(head),
            rest => self.record(head, &whose(rest)?),
        }
    }

    fn record(&self, head: &Head, whose: &RecordSelector) -> Result<ReadOutcome, Refusal> {
        let indent = Query::read(head.query(), &["indent"])?.indent;
        let snapshot = self.open.store().snapshot()?;
        let now_ms = lifetime::now_ms();
        // No record has reference 0.
        let reference = whose.reference(&snapshot, now_ms)?.unwrap_or(Reference(0));
        let missing = || {
            whose.told(RecordsError::NoRecord {
                reference,
                kind: None,
            })
        };
        let (kind, key) = find(&snapshot, reference, now_ms)?.ok_or_else(missing)?;
        let may = check_record(&self.visitor(head), reference, &kind, Action::Read);
        may.map_err(|error| whose.told(error))?;
        let answer_bytes_max = self.settings.answer_bytes_max;
        let reply = move |head: &Head, document: Cow<'_, [u8]>| {
            if indent > 0 {
                return Ok(json(200, indented(&document, indent, answer_bytes_max)?));
            }
            document_reply(head, document, "")
        };
        let begun = ReadOutcome::document(snapshot, &key, usize::MAX, self.value_bytes_max, head, reply)?;
        Ok(begun.ok_or_else(missing)?)
    }

    fn list(&self, head: &Head) -> Result<ReadOutcome, Refusal> {
        let query = Query::read(head.query(), &["kind", "page", "after", "size", "full", "indent"])?;
        let Some(kind) = query.kind else {
            return Err(Refusal::Query {
                name: "kind".to_owned(),
                what: "it says of which kind the records are that are listed",
            });
        };
        check_kind(&kind)?;
        self.check(head, &kind, Action::Read)?;
        let list = List {
            kind,
            after: query.after,
            page: query.page,
            size: query.size,
            full: query.full,
        };
        let snapshot = self.open.store().snapshot()?;
        let reading = ListReading {
            page: list
                .clone()
                .begin(&snapshot, self.value_bytes_max, lifetime::now_ms())?,
            snapshot,
            list,
            indent: query.indent,
            answer_bytes_max: self.settings.answer_bytes_max,
        };
        ReadOutcome::with(Box::new(reading), head)
    }

    fn check(&self, head: &Head, kind: &str, action: Action) -> Result<(), Refusal> {
        let judged = self.visitor(head).check(kind, action);
        Ok(judged.map_err(|denial| RecordsError::Denied {
            kind: kind.to_owned(),
            action,
            denial,
        })?)
    }

    /// Handles every request that is not a read.
    async fn write(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let (head, rest) = (request.head, request.rest.unwrap_or_default());
        let method = head.method();
        let allowed = if rest.is_empty() {
            LIST_METHODS
        } else {
            RECORD_METHODS
        };
        if method == "OPTIONS" {
            let mut reply = Reply::new(204);
            reply.headers.to_mut().push_known("allow", allowed);
            return Ok(reply);
        }
        let is_known = if rest.is_empty() {
            method == "POST"
        } else {
            matches!(method, "PUT" | "PATCH" | "DELETE")
        };
        if !is_known {
            let allow = allowed.into();
            return Err(Refusal::MethodNotAllowed { allow }.into());
        }
        Query::read(head.query(), &[])?;
        let target = if rest.is_empty() { None } else { Some(whose(rest)?) };
        if method == "PATCH" {
            body::check_is_merge_patch(head)?;
        }
        let condition = condition(head)?;
        let text = body::read(request, client).await?;
        let mut tag = None;
        let mut document = || -> Result<Vec<u8>, Refusal> {
            let document = body::canonical(&text, self.value_bytes_max)?;
            // As in the store target: sent only if the stored bytes are those that the client sent.
            tag = (document == text && method != "PATCH").then(|| Tag::of(&document));
            Ok(document)
        };
        let change = match target {
            None => {
                let document = document()?;
                // A new record that would be refused is refused before it queues for the writer.
                let kind = kind_of(&document, &self.settings).map_err(Refusal::from)?;
                self.check(head, &kind, Action::Write)?;
                RecordChange::Create(document)
            }
            Some(whose) => match method {
                "PUT" => RecordChange::Replace(whose, document()?),
                "PATCH" => RecordChange::Patch(whose, document()?),
                _ => RecordChange::Delete(whose),
            },
        };
        let operation = RecordOperation {
            kind: None,
            condition,
            document_bytes_max: self.value_bytes_max,
            change,
            settings: Arc::clone(&self.settings),
            grants: self.visitor(head).grants(),
        };
        let work = vec![Work::Record(operation)];
        let pending = self.open.writer().submit(work, text.len() + OPERATION_BYTES)?;
        let done = outcome(pending, request.deadline, client).await?.pop();
        let mut reply = match done {
            Some(Done::Recorded(reference)) => {
                let answer = format!("{{\"code\":0,\"ref\":{reference}}}").into_bytes();
                if rest.is_empty() {
                    appended(request, &reference.hex(), answer)
                } else {
                    // The record is at the request's own path.
                    json(201, answer)
                }
            }
            _ => Reply::new(204),
        };
        if let Some(tag) = tag {
            reply.headers.to_mut().push_known("etag", &tag.to_string());
        }
        Ok(reply)
    }
}

/// One page of a list of records.
#[derive(Debug)]
struct ListReading {
    snapshot: Snapshot,
    list: List,
    page: Page,
    indent: usize,
    answer_bytes_max: usize,
}

impl Pieces for ListReading {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.snapshot.forget_read();
        let until = Instant::now() + PIECE_TIME;
        Ok(self.page.step(&self.snapshot, Some(until), out)?)
    }
}

impl Reading for ListReading {
    fn reply(&mut self, _: &Head, mut text: Vec<u8>) -> Result<Reply<'static>, Refusal> {
        if self.indent > 0 {
            text = indented(&text, self.indent, self.answer_bytes_max)?;
        }
        let mut reply = json(200, text);
        if let Some(next) = self.page.next() {
            let mut kind = String::new();
            put_encoded(&self.list.kind, &mut kind);
            let full = if self.list.full { "&full" } else { "" };
            let indent = match self.indent {
                0 => String::new(),
                indent => format!("&indent={indent}"),
            };
            let (after, size) = (next.hex(), self.list.size);
            let link = format!("<?kind={kind}&after={after}&size={size}{full}{indent}>; rel=\"next\"");
            reply.headers.to_mut().push_known("link", &link);
        }
        Ok(reply)
    }
}

/// The record that a path names: by reference or by name.
fn whose(rest: &str) -> Result<RecordSelector, Refusal> {
    if let Some(reference) = Reference::from_hex(rest) {
        return Ok(RecordSelector::Reference(reference));
    }
    let name = decode(rest).filter(|name| is_name(name));
    name.map(|name| RecordSelector::Name(name.into_owned()))
        .ok_or(Refusal::NoReference)
}

/// The query's parameters, each given at most once.
#[derive(Debug)]
struct Query {
    kind: Option<String>,
    page: u64,
    after: Option<Reference>,
    size: u64,
    full: bool,
    indent: usize,
}

impl Query {
    fn read(query: &[u8], known: &[&str]) -> Result<Self, Refusal> {
        let mut read = Self {
            kind: None,
            page: 0,
            after: None,
            size: SIZE,
            full: false,
            indent: 0,
        };
        for parameter in parameters(query, "") {
            let parameter = parameter?;
            if !known.contains(&&*parameter.name) {
                let what = match known {
                    [] => "there are no parameters here",
                    ["indent"] => "there is no such parameter; there is indent",
                    _ => "there is no such parameter; there are kind, page, after, size, full and indent",
                };
                return Err(parameter.wrong(what));
            }
            match &*parameter.name {
                "kind" => read.kind = Some(parameter.value.into_owned()),
                "page" => {
                    let page = parameter.number();
                    read.page = page.ok_or_else(|| parameter.wrong("it is a whole number from 0 on"))?;
                }
                "after" => {
                    let reference = Reference::from_text(&parameter.value);
                    read.after = Some(reference.ok_or_else(|| parameter.wrong("it is a reference"))?);
                }
                "size" => {
                    let size = parameter.number().filter(|size| (1..=SIZE_MAX).contains(size));
                    read.size = size.ok_or_else(|| parameter.wrong(SIZES))?;
                }
                "full" => read.full = parameter.flag()?,
                _ => {
                    let indent = parameter.number().filter(|indent| *indent <= INDENT_MAX);
                    read.indent = indent.ok_or_else(|| parameter.wrong(INDENTS))?;
                }
            }
        }
        Ok(read)
    }
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_as_those_of_the_store_are() {
        let known = ["kind", "page", "size", "full", "indent"];
        let read = |query: &str| Query::read(query.as_bytes(), &known);
        let query = read("kind=a+%2B&size=1000&full&indent=8&page=18446744073709551615").unwrap();
        assert_eq!(query.kind.as_deref(), Some("a +"));
        assert_eq!(
            (query.size, query.indent, query.page),
            (SIZE_MAX, INDENT_MAX, u64::MAX)
        );
        assert!(query.full && !read("full=false").unwrap().full);
        let sizes = format!("it is a whole number from 1 to {SIZE_MAX}");
        let indents = format!("it is a whole number from 0 to {INDENT_MAX}");
        for (query, what) in [
            ("size=%2B5", &sizes[..]),
            ("size=+5", &sizes),
            ("size=0", &sizes),
            ("size=1001", &sizes),
            ("size=", &sizes),
            ("indent=9", &indents),
            ("page=-1", "it is a whole number from 0 on"),
            ("full=1", "it is `true`, `false` or without a value"),
            ("kind=a&kind=a", "it is given twice"),
            ("kind=%ff", "it is not percent-encoded UTF-8"),
        ] {
            let message = read(query).unwrap_err().to_string();
            assert!(message.ends_with(what), "{query}: {message}");
        }
    }
}
