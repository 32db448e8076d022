//! Declared reads: records that a script has declared to answer like the SDK's `rest()`. They are answered without calling the script.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    ops::Range,
};

use forebay_records::{Reference, facade::Records};
use rquickjs::{Result, String as JsString};

use super::{Functions, Host};
use crate::text;

/// Maximum number of declared paths; requests for others are answered by the script.
const PATHS_MAX: usize = 1024;
/// Maximum size in bytes of a record that an I/O thread builds while others wait; the script answers with longer ones.
const RECORD_BYTES_MAX: usize = 256 * 1024;
/// Number of digits of a reference that is certainly below 2^64.
const DIGITS_MAX: usize = 19;
const BEFORE: &[u8] = b"{\"code\":0,\"results\":[{\"id\":";
const BETWEEN: &[u8] = b",\"data\":";
const BEHIND: &[u8] = b"}]}";

/// The declarations of a script.
#[derive(Debug, Default)]
pub(crate) struct DeclaredReads {
    /// Declarations by path prefix, up to the slash before the reference.
    by_path: RefCell<HashMap<Box<[u8]>, DeclaredRead>>,
    records: OnceCell<Records>,
}

#[derive(Clone, Debug)]
struct DeclaredRead {
    kind: String,
    is_tagged: bool,
}

/// A record in the form of an answer of `rest()`.
#[derive(Debug)]
pub struct ReadRecord {
    /// The JSON body of the answer.
    pub body: Vec<u8>,
    /// The position of the record itself in the body.
    pub record: Range<usize>,
    /// Whether the answer has the record's entity tag.
    pub is_tagged: bool,
}

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &std::rc::Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set(
        "declareRead",
        move |path: JsString<'js>, kind: JsString<'js>, is_wabur: bool| {
            let path = text::owned(path)?.into_bytes().into_boxed_slice();
            let read = DeclaredRead {
                kind: text::owned(kind)?,
                is_tagged: !is_wabur,
            };
            let mut by_path = own.declared.by_path.borrow_mut();
            if by_path.len() < PATHS_MAX {
                by_path.insert(path, read);
            }
            Result::Ok(())
        },
    )
}

impl Host {
    /// The record that a GET request for a path asks for, if the script need not be called. All unusual cases are left to the script.
    pub(crate) fn read_declared(&self, path: &[u8]) -> Option<ReadRecord> {
        let slash = memchr::memrchr(b'/', path)?;
        let (place, digits) = path.split_at(slash + 1);
        let by_path = self.declared.by_path.borrow();
        let DeclaredRead { kind, is_tagged } = by_path.get(place)?;
        let reference = reference(digits)?;
        let records = self.declared.records.get_or_init(|| self.records());
        let session = self.store.session(&self.options).ok()?;
        let mut session = session.borrow_mut();
        let bytes_max = RECORD_BYTES_MAX.min(self.options.limits.output_max);
        let record = records.read_within(&mut session, Some(kind), reference, bytes_max);
        let record = record.ok()??;
        let mut body =
            Vec::with_capacity(BEFORE.len() + digits.len() + BETWEEN.len() + record.len() + BEHIND.len());
        body.extend_from_slice(BEFORE);
        body.extend_from_slice(digits);
        body.extend_from_slice(BETWEEN);
        let begin = body.len();
        body.extend_from_slice(record);
        let record = begin..body.len();
        body.extend_from_slice(BEHIND);
        (body.len() <= self.options.limits.output_max).then_some(ReadRecord {
            body,
            record,
            is_tagged: *is_tagged,
        })
    }
}

/// Parses the reference in a path. `None` unless it is in the plainest form.
fn reference(digits: &[u8]) -> Option<Reference> {
    let is_plain = digits.len() <= DIGITS_MAX
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits.first() != Some(&b'0'));
    let text = std::str::from_utf8(digits).ok().filter(|_| is_plain)?;
    Reference::from_decimal(text)
}
