//! The exported functions.

#![allow(unsafe_code, reason = "a C interface")]

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    slice,
    thread::{self, ThreadId},
};

use forebay_records::facade::Records;
use forebay_store::facade::{Session, operations::Refused};

use super::{Argument, VERSION, malformed, number_of, run};
use crate::{
    page,
    store::{open_session, records},
};

/// The function has a result.
const VALUE: i32 = 0;
/// The function has no result.
const NOTHING: i32 = 1;
/// The function has failed; the text is the code of a `StoreError`, a line end, and the message.
const FAILED: i32 = 2;

/// Text that a function has left in memory of the calling thread.
#[repr(C)]
#[derive(Debug)]
struct Reply {
    text: *const u8,
    length: usize,
}

/// An open store. It belongs to the thread that opened it.
#[derive(Debug)]
struct Handle {
    session: Session,
    records: Records,
    thread: ThreadId,
}

thread_local! {
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs a function, and prevents panics from unwinding into the caller.
///
/// # Safety
/// `reply` is valid.
unsafe fn answer(reply: *mut Reply, work: impl FnOnce() -> Result<Option<Vec<u8>>, Refused>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Refused {
            code: "engine",
            message: "a defect in the forebay library: the operation was given up".into(),
        })
    });
    let (status, text) = match outcome {
        Ok(Some(text)) => (VALUE, text),
        Ok(None) => (NOTHING, Vec::new()),
        Err(Refused { code, message }) => (FAILED, format!("{code}\n{message}").into_bytes()),
    };
    let reply_now = Reply {
        text: text.as_ptr(),
        length: text.len(),
    };
    // Moving a vector leaves its content in place. A thread that is ending has no such memory any more, and gets no text.
    let is_kept = TEXT.try_with(|kept| kept.replace(text)).is_ok();
    let empty = Reply {
        text: [].as_ptr(),
        length: 0,
    };
    // SAFETY: the caller vouches for it.
    unsafe { reply.write(if is_kept { reply_now } else { empty }) };
    status
}

/// The memory that a caller describes.
///
/// # Safety
/// `start` is valid for `length` elements, or `length` is 0.
unsafe fn given<'a, T>(start: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts(start, length) }
}

/// The version of the interface.
#[unsafe(no_mangle)]
extern "C" fn forebay_version() -> u32 {
    VERSION
}

/// The number of the operation with this name; negative if there is none.
///
/// # Safety
/// `name` is valid for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn forebay_operation(name: *const u8, length: usize) -> i32 {
    // SAFETY: the caller vouches for it.
    let name = unsafe { given(name, length) };
    number_of(name)
        .and_then(|number| i32::try_from(number).ok())
        .unwrap_or(-1)
}

/// Maps the page of a worker, and reports commits there to the server from now on. The descriptor may be closed afterwards. Call it once, before the
/// first store is opened. Returns 1, or 2 with an error.
///
/// # Safety
/// `reply` is valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn forebay_page(descriptor: i32, reply: *mut Reply) -> i32 {
    // SAFETY: the caller vouches for the reply.
    unsafe {
        answer(reply, || match page::report_in(descriptor) {
            Ok(_) => Ok(None),
            Err(failure) => Err(malformed(&failure.message)),
        })
    }
}

/// Opens the store in a folder for the calling thread. `options` are nine numbers: create, read only, lead, map maximum, readers maximum, value
/// bytes maximum, durability, flush interval, reader age maximum. Returns 0, with a handle and the folder's path as JSON text, or 2 with an error.
///
/// # Safety
/// `path` is valid for `length` bytes, `options` for nine numbers, `handle` and `reply` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn forebay_store_open(
    path: *const u8,
    length: usize,
    options: *const [f64; 9],
    handle: *mut *mut Handle,
    reply: *mut Reply,
) -> i32 {
    // SAFETY: the caller vouches for both.
    let (path, options) = unsafe { (given(path, length), options.read()) };
    let open = || {
        let path = std::str::from_utf8(path).map_err(|_| malformed("the path is not text"))?;
        let records = records().map_err(malformed)?;
        let session = open_session(Path::new(path), options).map_err(|error| Refused::from(&error))?;
        let folder = session.store().map_err(|error| Refused::from(&error))?.path();
        let folder = forebay_store::json::string(&folder.to_string_lossy());
        let opened = Box::new(Handle {
            session,
            records,
            thread: thread::current().id(),
        });
        // SAFETY: the caller vouches for the place.
        unsafe { handle.write(Box::into_raw(opened)) };
        Ok(Some(folder))
    };
    // SAFETY: the caller vouches for the reply.
    unsafe { answer(reply, open) }
}

/// Runs an operation. Returns 0 with the JSON text of its result, 1 if it has none, or 2 with an error.
///
/// # Safety
/// `handle` comes from `forebay_store_open` and has not been freed; `area` is valid for `area_length` bytes, `arguments` for `count` arguments, and
/// `reply` is valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn forebay_store_call(
    handle: *mut Handle,
    operation: u32,
    area: *const u8,
    area_length: usize,
    arguments: *const Argument,
    count: usize,
    reply: *mut Reply,
) -> i32 {
    let call = || {
        // SAFETY: the caller vouches for the handle. Another thread may be using it, so only what never changes is looked at.
        if unsafe { (*handle).thread } != thread::current().id() {
            return Err(malformed("the store was opened by another thread"));
        }
        // SAFETY: the handle belongs to this thread, which makes one call at a time; the caller vouches for the others.
        let (opened, area, arguments) =
            unsafe { (&mut *handle, given(area, area_length), given(arguments, count)) };
        run(
            operation as usize,
            area,
            arguments,
            &mut opened.session,
            &opened.records,
        )
    };
    // SAFETY: the caller vouches for the reply.
    unsafe { answer(reply, call) }
}

/// Closes a store and frees its handle; an open transaction is rolled back. In a thread other than the one that opened it nothing happens, because locks
/// are released by the thread that holds them: the memory and the store stay in use until the process ends.
///
/// # Safety
/// `handle` comes from `forebay_store_open`, has not been freed, and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn forebay_store_free(handle: *mut Handle) {
    // SAFETY: the caller vouches for the handle.
    if unsafe { (*handle).thread } != thread::current().id() {
        return;
    }
    // SAFETY: `forebay_store_open` made the box and gave it away.
    let mut opened = unsafe { Box::from_raw(handle) };
    // A panic must not unwind into the caller.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        opened.session.abandon();
        drop(opened);
    }));
}
