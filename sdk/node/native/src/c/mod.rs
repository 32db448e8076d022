//! The store as a C interface, for languages that call shared libraries without a compiler: Python, by `ctypes`.
//!
//! Operations are those of JavaScript, by number; each is one call of `forebay_store_call`:
//!
//! - `area` is memory of the caller: eight bytes that are not read, a path from there on (see `forebay_store::facade`), then whatever else
//!   the operation takes. It is not kept beyond the call.
//! - `arguments` are numbers and texts. A text is a part of the area.
//! - The result is JSON text: of the value itself for `get` and `value`, with all its digits; of what JavaScript gets for all others.
//!
//! Results and error messages are in memory of the calling thread, valid until it calls the next function. Lengths are in bytes, text is UTF-8 and has
//! no NUL at its end. No function panics or raises a signal whatever text it is given; pointers must be valid for their lengths.

mod sys;

use forebay_records::facade::{
    Records,
    operations::{OPERATIONS as RECORD_OPERATIONS, Operation as RecordOperation},
};
use forebay_store::{
    facade::{
        Session,
        operations::{Call, OPERATIONS, Operation, Refused},
    },
    json,
};

/// The version of this interface: a caller of another version must not call it.
const VERSION: u32 = 1;

/// An argument of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Argument {
    /// The number, or where in the area a text begins.
    number: f64,
    /// The length of a text; negative for a number, and for a text that is left out.
    length: i64,
}

/// A numbered operation.
#[derive(Clone, Copy, Debug)]
enum Numbered {
    Store(Operation),
    Records(RecordOperation),
}

/// The number of an operation.
fn number_of(name: &[u8]) -> Option<usize> {
    let store = OPERATIONS.iter().map(|operation| operation.name);
    let records = RECORD_OPERATIONS.iter().map(|operation| operation.name);
    store.chain(records).position(|known| known.to_bytes() == name)
}

fn operation(number: usize) -> Option<Numbered> {
    match OPERATIONS.get(number) {
        Some(operation) => Some(Numbered::Store(*operation)),
        None => RECORD_OPERATIONS
            .get(number - OPERATIONS.len())
            .map(|operation| Numbered::Records(*operation)),
    }
}

/// Runs an operation; returns the JSON text of its result.
fn run(
    number: usize,
    area: &[u8],
    arguments: &[Argument],
    session: &mut Session,
    records: &Records,
) -> Result<Option<Vec<u8>>, Refused> {
    let call = Bytes { area, arguments };
    match operation(number) {
        Some(Numbered::Store(operation)) => operation.run(&call, session),
        Some(Numbered::Records(operation)) => operation.run(&call, (session, records)),
        None => Err(malformed("there is no operation of this number")),
    }
}

/// A call whose values are JSON texts.
#[derive(Debug)]
struct Bytes<'a> {
    area: &'a [u8],
    arguments: &'a [Argument],
}

impl Bytes<'_> {
    fn argument(&self, index: usize) -> Result<Argument, Refused> {
        let found = self.arguments.get(index);
        found.copied().ok_or_else(|| malformed("an argument is missing"))
    }
}

impl Call for Bytes<'_> {
    type Value = Vec<u8>;
    type Error = Refused;

    fn integer(&self, index: usize) -> Result<i32, Refused> {
        Ok(self.argument(index)?.number as i32)
    }

    fn number(&self, index: usize) -> Result<f64, Refused> {
        Ok(self.argument(index)?.number)
    }

    fn text(&self, index: usize) -> Result<Option<Vec<u8>>, Refused> {
        let Argument { number, length } = self.argument(index)?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(None);
        };
        let from = number as usize;
        let text = from.checked_add(length).and_then(|to| self.area.get(from..to));
        text.map(|text| Some(text.to_vec())).ok_or_else(outside)
    }

    fn bytes(&self, from: i32, to: i32) -> Result<&[u8], Refused> {
        let place = |at| usize::try_from(at).ok();
        let span = place(from).zip(place(to));
        span.and_then(|(from, to)| self.area.get(from..to))
            .ok_or_else(outside)
    }

    fn mark(&self, _: u8) {}

    fn array(&self, values: &[Vec<u8>]) -> Result<Vec<u8>, Refused> {
        let mut text = vec![b'['];
        text.extend_from_slice(&values.join(&b','));
        text.push(b']');
        Ok(text)
    }

    fn string(&self, text: &str) -> Result<Vec<u8>, Refused> {
        Ok(json::string(text))
    }

    fn latin1(&self, bytes: &[u8]) -> Result<Vec<u8>, Refused> {
        let text: String = bytes.iter().copied().map(char::from).collect();
        Ok(json::string(&text))
    }

    fn int(&self, number: i32) -> Result<Vec<u8>, Refused> {
        Ok(number.to_string().into_bytes())
    }

    fn double(&self, number: f64) -> Result<Vec<u8>, Refused> {
        // Only whole numbers: times and sizes.
        Ok((number as i64).to_string().into_bytes())
    }

    fn boolean(&self, value: bool) -> Result<Vec<u8>, Refused> {
        Ok(value.to_string().into_bytes())
    }

    fn null(&self) -> Result<Vec<u8>, Refused> {
        Ok(b"null".to_vec())
    }

    fn value(&self, text: &[u8]) -> Result<Vec<u8>, Refused> {
        Ok(text.to_vec())
    }

    fn element(&self, text: &[u8]) -> Result<Vec<u8>, Refused> {
        Ok(text.to_vec())
    }
}

fn malformed(message: &str) -> Refused {
    Refused {
        code: "malformed",
        message: message.to_owned(),
    }
}

fn outside() -> Refused {
    malformed("the arguments lie outside of the area")
}
