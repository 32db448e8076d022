//! The `unsafe` part of the ring: operations that the kernel continues after the call, on memory that must outlive them. All of that memory
//! belongs to the [`Ring`], which has the operations cancelled before it frees any of it: the kernel touches memory for an operation only
//! within a call of the ring's thread, and not at all once the operation is marked as cancelled.

#![expect(unsafe_code, reason = "the kernel reads and writes this memory between calls")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec},
};
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{RecvFlags, SendFlags},
};

/// Bytes of one receive buffer. A longer response arrives in several parts.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;
/// Most operations that are submitted together.
const ENTRIES: u32 = 256;
/// The only group of receive buffers.
const GROUP: u16 = 0;
/// The entries of a ring of buffers begin at a page.
const PAGE_BYTES: usize = 4096;

/// The result of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The tag that the operation was submitted with.
    pub(crate) tag: u64,
    /// Number of bytes, or the error.
    pub(crate) result: Result<usize, Errno>,
    /// The receive buffer that holds the bytes. It must be given back with [`Ring::fetch`].
    pub(crate) buffer: Option<u16>,
    /// The operation continues: more completions follow.
    pub(crate) more: bool,
}

/// A queue of operations and one of completions, with the memory they work on. It may be made anywhere and is used by the one thread
/// that calls [`enable`](Self::enable).
pub(crate) struct Ring {
    uring: IoUring,
    /// Empty only while the ring is dropped.
    memory: Option<Memory>,
    /// Whether any operation was submitted.
    used: bool,
}

impl Ring {
    /// Fails where the kernel is older than 6.1 or forbids it. `requests`: what [`send`](Self::send) sends, by number.
    pub(crate) fn new(buffers: u16, requests: Box<[Box<[u8]>]>) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(ENTRIES * 16)
            .build(ENTRIES)?;
        let params = uring.params();
        if !(params.is_feature_ext_arg()
            && params.is_feature_nodrop()
            && params.is_feature_skip_cqe_on_success())
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let memory = Memory::new(buffers, requests);
        // SAFETY: the entries live in `memory`, which is freed only when every operation is cancelled (see `drop`).
        unsafe {
            uring.submitter().register_buf_ring_with_flags(
                memory.entries.as_ptr() as u64,
                memory.buffers,
                GROUP,
                0,
            )?;
        }
        Ok(Self {
            uring,
            memory: Some(memory),
            used: false,
        })
    }

    /// Binds the ring to the calling thread.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.uring.submitter().register_enable_rings()
    }

    fn memory(&mut self) -> &mut Memory {
        self.memory.as_mut().expect("it is there until the drop")
    }

    /// Receives repeatedly, each time into a buffer of its own, until the stream ends, fails, or no buffer is left.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP).build();
        self.push(&entry.user_data(tag))
    }

    /// Whether the ring can send the request with this number.
    pub(crate) fn has(&self, request: usize) -> bool {
        let memory = self.memory.as_ref();
        memory.is_some_and(|memory| !memory.requests[request].is_empty())
    }

    /// Sends a request whole. There is a completion only if that fails.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, request: usize, tag: u64) -> io::Result<()> {
        let bytes = &self.memory().requests[request];
        let (start, length) = (bytes.as_ptr(), bytes.len() as u32);
        let entry = opcode::Send::new(Fd(socket.as_raw_fd()), start, length)
            .flags((RecvFlags::WAITALL.bits() | SendFlags::NOSIGNAL.bits()).cast_signed())
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(tag))
    }

    /// Completes once, when a file can be read.
    pub(crate) fn await_input(&mut self, file: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.poll(file, PollFlags::IN, tag)
    }

    /// Completes once, when a socket can be written to again.
    pub(crate) fn await_room(&mut self, socket: BorrowedFd<'_>, tag: u64) -> io::Result<()> {
        self.poll(socket, PollFlags::OUT, tag)
    }

    fn poll(&mut self, file: BorrowedFd<'_>, events: PollFlags, tag: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(file.as_raw_fd()), events.bits().into()).build();
        self.push(&entry.user_data(tag))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        self.used = true;
        loop {
            // SAFETY: what an operation reads or writes is `memory`, which outlives it; or nothing.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Submits the queued operations. Needed before a descriptor that one of them names is closed.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.uring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Submits the queued operations, then sleeps until one completes, at most for `longest`.
    pub(crate) fn wait(&mut self, longest: Duration) -> io::Result<()> {
        let longest = Timespec::from(longest);
        let arguments = SubmitArgs::new().timespec(&longest);
        match self.uring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // Nothing completed before the timeout, a signal arrived, or there are completions to be taken first.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes all completions.
    pub(crate) fn drain(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.uring.completion().map(|entry| Completion {
            tag: entry.user_data(),
            result: match entry.result() {
                error @ ..0 => Err(Errno::from_raw_os_error(-error)),
                count => Ok(count as usize),
            },
            buffer: cqueue::buffer_select(entry.flags()),
            more: cqueue::more(entry.flags()),
        }));
    }

    /// Copies the first `count` bytes of a receive buffer and gives the buffer back.
    pub(crate) fn fetch(&mut self, buffer: u16, count: usize, into: &mut [u8]) {
        let memory = self.memory();
        into[..count].copy_from_slice(&memory.buffer(buffer)[..count]);
        memory.provide(buffer);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.used {
            return;
        }
        let longest = Timespec::new().sec(1);
        let cancelled = self
            .uring
            .submitter()
            .register_sync_cancel(Some(longest), CancelBuilder::any());
        if cancelled.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            // The kernel may still write into it.
            std::mem::forget(self.memory.take());
        }
    }
}

/// Memory that operations read and write.
struct Memory {
    /// The ring in which the kernel finds free buffers.
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    buffers: u16,
    /// How often a buffer was provided.
    provided: u16,
    requests: Box<[Box<[u8]>]>,
}

impl Memory {
    /// `buffers`: a power of two.
    fn new(buffers: u16, requests: Box<[Box<[u8]>]>) -> Self {
        assert!(buffers.is_power_of_two(), "the kernel counts in powers of two");
        let mut memory = Self {
            entries: allocate(Self::entries_layout(buffers)).cast(),
            bytes: allocate(Self::bytes_layout(buffers)),
            buffers,
            provided: 0,
            requests,
        };
        (0..buffers).for_each(|buffer| memory.provide(buffer));
        memory
    }

    fn entries_layout(buffers: u16) -> Layout {
        Layout::from_size_align(usize::from(buffers) * size_of::<BufRingEntry>(), PAGE_BYTES)
            .expect("16 bytes for each of at most 32,768")
    }

    fn bytes_layout(buffers: u16) -> Layout {
        Layout::from_size_align(usize::from(buffers) * BUFFER_BYTES, PAGE_BYTES)
            .expect("16 KiB for each of at most 32,768")
    }

    fn start(&self, buffer: u16) -> NonNull<u8> {
        assert!(
            buffer < self.buffers,
            "the kernel names buffers that it was given"
        );
        // SAFETY: within the allocation, as just checked.
        unsafe { self.bytes.add(usize::from(buffer) * BUFFER_BYTES) }
    }

    /// A buffer that the kernel has filled.
    fn buffer(&self, buffer: u16) -> &[u8] {
        // SAFETY: the kernel writes into a buffer only between `provide` and the completion that names it; the bytes are
        // initialized from the start.
        unsafe { std::slice::from_raw_parts(self.start(buffer).as_ptr(), BUFFER_BYTES) }
    }

    /// Lets the kernel fill a buffer.
    fn provide(&mut self, buffer: u16) {
        let start = self.start(buffer).as_ptr() as u64;
        let at = usize::from(self.provided & (self.buffers - 1));
        self.provided = self.provided.wrapping_add(1);
        // SAFETY: `at` is within the ring; the kernel reads the entry only after the tail has passed it, which the release below
        // publishes. The first entry's tail is an aligned u16 that this thread alone writes.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(start);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.provided, Ordering::Release);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with these layouts, and the ring has had every operation cancelled.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), Self::entries_layout(self.buffers));
            dealloc(self.bytes.as_ptr(), Self::bytes_layout(self.buffers));
        }
    }
}

// SAFETY: nothing of it belongs to a thread; the ring that owns it is used by one at a time.
unsafe impl Send for Memory {}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here is empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
