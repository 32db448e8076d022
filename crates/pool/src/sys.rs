//! The unsafe code of this crate: memory shared with a worker, and the code between fork and exec.

#![expect(unsafe_code, reason = "shared memory and fork have no safe interface")]

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    ops::RangeInclusive,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::process::CommandExt,
    },
    process::Command,
    ptr::NonNull,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64},
    },
};

use forebay_wire::PAGE_BYTES;
use parking_lot::Mutex;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use tokio::io::{Interest, unix::AsyncFd};

use crate::confinement::Plan;

/// The page that the server shares with one worker. The worker can change its content at any time, so readers copy first and validate the
/// copy.
#[derive(Debug)]
pub(crate) struct SharedPage {
    base: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone within the process and stays until it is dropped; all access goes through
// atomics or copies of bytes that the protocol gives to one side at a time.
unsafe impl Send for SharedPage {}
// SAFETY: as above; no method hands out a reference to plain memory.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Creates a zeroed page.
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("forebay-page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, PAGE_BYTES as u64)?;
        // A worker that could shrink the file would take this process down with SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: a fresh shared mapping of a file of that size; the kernel chooses the address, so no other memory is touched.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let base = NonNull::new(base.cast()).expect("a mapping has an address");
        Ok(Self { base, file })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// The word at a byte offset.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(
            offset.is_multiple_of(4) && offset + 4 <= PAGE_BYTES,
            "words lie inside of the page"
        );
        // SAFETY: the assertion keeps the word inside of the mapping, mappings start at page boundaries so it is aligned, and an
        // atomic may be changed by the other process at any time.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// The 64-bit word at a byte offset.
    pub(crate) fn long_word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= PAGE_BYTES,
            "words lie inside of the page"
        );
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    /// Appends `length` bytes, starting at `offset`, to `into`.
    pub(crate) fn copy_to(&self, offset: usize, length: usize, into: &mut Vec<u8>) {
        assert!(offset + length <= PAGE_BYTES, "copies stay inside of the page");
        into.reserve(length);
        // SAFETY: source and target are valid for `length` bytes by the assertion and the reservation, and do not overlap. The worker
        // may write meanwhile only if it breaks the protocol; then the copy holds arbitrary bytes, which decoding bears.
        unsafe {
            let target = into.as_mut_ptr().add(into.len());
            std::ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), target, length);
            into.set_len(into.len() + length);
        }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; every reference into it borrows from self and is gone.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

/// Makes sure that none of these descriptor numbers is free in this process, now or later: free ones are bound to `/dev/null` for good.
///
/// The standard library reports a failed exec through a pipe that it opens right before the fork. If that pipe got one of the numbers to
/// which [`contain`] duplicates descriptors, the child would write the report into a worker's link, and the spawn would look successful.
/// One case remains: another thread closes a descriptor with one of these numbers between this call and the spawn. A failed exec then shows
/// up as a worker that ended during its start.
pub(crate) fn reserve(numbers: RangeInclusive<RawFd>) -> io::Result<()> {
    static RESERVED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    let null = OwnedFd::from(File::open("/dev/null")?);
    let mut reserved = RESERVED.lock();
    loop {
        // The lowest free number. Once it is beyond the range, the whole range is in use.
        let lowest_free = duplicate_above(null.as_fd(), *numbers.start())?;
        if lowest_free.as_raw_fd() > *numbers.end() {
            break;
        }
        reserved.push(lowest_free);
    }
    if numbers.contains(&null.as_raw_fd()) {
        reserved.push(null);
    }
    Ok(())
}

/// Prepares a command so that its process leads its own process group, is confined, dies with the thread that spawns it, and finds
/// `fds[i].0` as descriptor `fds[i].1`.
///
/// The sources must be numbered above every target, so that no duplication overwrites a later source. The targets must be
/// [reserved](reserve), so that none overwrites a descriptor that the standard library needs until the exec.
pub(crate) fn contain(command: &mut Command, fds: Vec<(RawFd, RawFd)>, confinement: Option<Arc<Plan>>) {
    let highest = fds.iter().map(|&(_, target)| target).max().unwrap_or(0);
    assert!(
        fds.iter().all(|&(source, _)| source > highest),
        "sources lie above the targets"
    );
    let parent = std::process::id();
    let open_files = OPEN_FILES.get().copied();
    let prepare = move || {
        // SAFETY: only async-signal-safe calls on plain numbers, as is required between fork and exec.
        unsafe {
            if let Some(limit) = &open_files
                && libc::setrlimit(libc::RLIMIT_NOFILE, limit) != 0
            {
                return Err(io::Error::last_os_error());
            }
            if let Some(confinement) = &confinement {
                confinement.apply()?;
            }
            // After the confinement: a change of the user clears it.
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above; then there is no one left to send the signal.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                libc::_exit(1);
            }
            for &(source, target) in &fds {
                if libc::dup2(source, target) < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    command.process_group(0);
    before_exec(command, prepare);
}

/// Runs `prepare` in the child between fork and exec, where it must neither allocate nor take a lock.
pub(crate) fn before_exec(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: both callers pass a closure that makes system calls on what it owns, and nothing else.
    unsafe { command.pre_exec(prepare) };
}

/// Confines this thread to a landlock ruleset (`landlock_restrict_self(2)`).
pub(crate) fn landlock_restrict_self(ruleset: &OwnedFd) -> Result<(), rustix::io::Errno> {
    // SAFETY: no memory is involved.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if result == 0 {
        return Ok(());
    }
    Err(rustix::io::Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(rustix::io::Errno::INVAL))
}

/// The limit of open files before [`raise_open_files_max`]. Workers get this limit, since their programs may use `select`.
static OPEN_FILES: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises this process's limit of open files and sockets to its maximum, and returns it.
pub fn raise_open_files_max() -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the place for the answer is valid.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let raised = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: the limit is a valid one, that of before.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } != 0 {
        return Err(io::Error::last_os_error());
    }
    OPEN_FILES.get_or_init(|| limit);
    Ok(limit.rlim_max)
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(leader: u32, signal: i32) {
    let Ok(group) = i32::try_from(leader) else { return };
    // SAFETY: no memory is involved; that the group is still ours is the caller's promise. A group that is gone is no error.
    unsafe { libc::kill(-group, signal) };
}

/// Duplicates a descriptor to a number of at least `lowest`, closed on exec.
pub(crate) fn duplicate_above(fd: BorrowedFd<'_>, lowest: RawFd) -> io::Result<OwnedFd> {
    let duplicate = rustix::io::fcntl_dupfd_cloexec(fd, lowest)?;
    debug_assert!(duplicate.as_raw_fd() >= lowest, "the kernel keeps its word");
    Ok(duplicate)
}

/// Adds bytes that were just read into a buffer's spare capacity to its content.
///
/// # Panics
/// If the buffer has less room than that.
pub(crate) fn advance(buffer: &mut bytes::BytesMut, read: usize) {
    let length = buffer.len() + read;
    assert!(length <= buffer.capacity(), "a read stays inside of its buffer");
    // SAFETY: inside of the capacity by the assertion; the caller has just had the kernel write these bytes.
    unsafe { buffer.set_len(length) };
}

/// Reads from a Unix socket, as far as the bytes go that a descriptor came with. The system closes further descriptors of the same message.
/// The inner error is that of a descriptor for which this process has no room.
///
/// # Errors
/// Reading fails, or nothing has arrived.
pub(crate) fn receive(
    socket: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, Option<io::Result<OwnedFd>>)> {
    // Room for one descriptor, aligned as its header must be.
    let mut control = [0_u64; 3];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a message header of zeros is valid: no address, no parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: a computation from the size.
    message.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as _;
    // SAFETY: all that the header points to is valid for its length and outlives the call.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has set the length of what it has written to `control`.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: a header that is there is inside of `control`, and complete.
    let has_file = !first.is_null()
        && unsafe { ((*first).cmsg_level, (*first).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) };
    if has_file {
        // SAFETY: such a message has at least one descriptor, new in this process, and no other owner knows it. It may be unaligned.
        let file = unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(first).cast::<RawFd>().read_unaligned()) };
        return Ok((read, Some(Ok(file))));
    }
    let is_lost = message.msg_flags & libc::MSG_CTRUNC != 0;
    Ok((
        read,
        is_lost.then(|| Err(io::Error::from_raw_os_error(libc::EMFILE))),
    ))
}

/// Watches a descriptor with the current event loop.
///
/// # Errors
/// The system refuses to watch another descriptor.
pub fn watch<T: AsRawFd + Watchable>(source: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: `Watchable` promises one open descriptor for the whole life of the value, which the result owns.
    unsafe { AsyncFd::register_with_interest(source, interest) }.map_err(io::Error::from)
}

/// A value that returns the same open descriptor for as long as it lives.
pub trait Watchable {}

impl Watchable for OwnedFd {}
impl Watchable for crate::reader::WatchedSocket {}
impl Watchable for crate::reader::WatchedPipe {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_numbers_are_free_for_nobody() {
        // Higher than any descriptor that other tests of this process open.
        const LOWEST: RawFd = 900;
        for _ in 0..2 {
            reserve(LOWEST..=LOWEST + 2).unwrap();
            let next = duplicate_above(std::io::stdin().as_fd(), LOWEST).unwrap();
            assert_eq!(next.as_raw_fd(), LOWEST + 3);
        }
    }
}
