//! The page of `protocol/PROTOCOL.md`, section 6: creating and mapping it, and ringing its bell.

#![allow(unsafe_code, reason = "mmap and write are C interfaces")]

use std::{
    io,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use forebay_store::facade::operations::Call as _;

use crate::{
    Thread,
    napi::{Call, Failure, Outcome},
};

/// Size of the shared page in bytes: header, claim words, outbox.
const PAGE_BYTES: usize = 4_096 + 16_384 + 262_144;

/// The offset of the number of the last commit in the page.
const COMMIT_OFFSET: usize = 256;

/// Where this process's page holds the number of the last commit; null before a page is mapped.
static COMMIT: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// `createPage(): number`: the descriptor of a new page, all zero, close-on-exec.
pub(crate) fn create<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    // SAFETY: the name is a C string; the answer is a descriptor of ours, or an error value.
    let fd = unsafe { libc::memfd_create(c"forebay-page".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(system("createPage"));
    }
    // SAFETY: the descriptor was just made and is used only here; its length is a constant that fits.
    if unsafe { libc::ftruncate(fd, PAGE_BYTES.cast_signed() as libc::off_t) } != 0 {
        let failure = system("createPage");
        // SAFETY: as above; it is not used again.
        unsafe { libc::close(fd) };
        return Err(failure);
    }
    Ok(Some(call.int(fd)?))
}

/// `mapPage(fd: number): ArrayBuffer`, for the worker itself. The mapping lasts as long as the process.
pub(crate) fn map<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    buffer(call, report_in(descriptor(call)?)?)
}

/// Maps the page, and reports commits of this process there from now on.
pub(crate) fn report_in(fd: i32) -> Result<*mut libc::c_void, Failure> {
    let page = mapped(fd)?;
    let commit = page.cast::<u8>().wrapping_add(COMMIT_OFFSET);
    COMMIT.store(commit.cast(), Ordering::Release);
    Ok(page)
}

/// `viewPage(fd: number): ArrayBuffer`, for the pool of the worker: commits of this process are not reported in the page. The mapping
/// lasts as long as the process.
pub(crate) fn view<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    let page = mapped(descriptor(call)?)?;
    buffer(call, page)
}

fn mapped(fd: i32) -> Result<*mut libc::c_void, Failure> {
    // SAFETY: all-zero bytes are a valid `stat`, which `fstat` overwrites.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is a live out-parameter; a bad descriptor is an error value.
    if unsafe { libc::fstat(fd, &raw mut status) } != 0 {
        return Err(system(&format!("mapPage: descriptor {fd}")));
    }
    if usize::try_from(status.st_size).is_ok_and(|size| size < PAGE_BYTES) {
        let size = status.st_size;
        return Err(Failure::plain(format!(
            "mapPage: descriptor {fd} has {size} bytes, the page {PAGE_BYTES}"
        )));
    }
    // SAFETY: a new shared mapping at an address of the kernel's choice touches no memory of ours.
    let page = unsafe {
        libc::mmap(
            null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(system(&format!("mapPage: mapping descriptor {fd}")));
    }
    Ok(page)
}

/// Wraps a page that `mapped` has mapped.
fn buffer<'c>(call: &'c Call<'c>, page: *mut libc::c_void) -> Outcome<'c> {
    // SAFETY: the mapping is PAGE_BYTES long and never unmapped, so it outlives the ArrayBuffer.
    let buffer = unsafe { call.buffer(page, PAGE_BYTES) };
    match buffer {
        Ok(buffer) => Ok(Some(buffer)),
        Err(failure) => Err(Failure::plain(format!(
            "mapPage: this runtime refuses external memory: {}",
            failure.message
        ))),
    }
}

/// Whether there is a page in which to report commits to the server.
pub(crate) fn is_mapped() -> bool {
    !COMMIT.load(Ordering::Acquire).is_null()
}

/// Reports a commit, so that the server holds back responses until it is on disk. Threads of this process may report theirs in any order.
pub(crate) fn tell_commit(commit: u64) {
    let place = COMMIT.load(Ordering::Acquire);
    if !place.is_null() {
        // SAFETY: the place lies in the page, which is never unmapped, at a multiple of eight bytes, and all users access it atomically.
        unsafe { &*place }.fetch_max(commit, Ordering::AcqRel);
    }
}

/// `ring(fd: number): void`. A full counter (EAGAIN) means that the bell is already ringing.
pub(crate) fn ring<'c>(call: &'c Call<'c>, _: &mut Thread) -> Outcome<'c> {
    let fd = descriptor(call)?;
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `one` is eight readable bytes.
    if unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::WouldBlock {
            return Err(Failure::plain(format!("ring: descriptor {fd}: {error}")));
        }
    }
    Ok(None)
}

fn descriptor(call: &Call<'_>) -> Result<i32, Failure> {
    call.integer(0)
        .map_err(|_| Failure::plain("the argument must be a file descriptor (a number)"))
}

fn system(what: &str) -> Failure {
    Failure::plain(format!("{what}: {}", io::Error::last_os_error()))
}
