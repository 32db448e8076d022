//! The parts that need `unsafe`: the timer, its signal handler, and the memory the handler copies into.

#![expect(unsafe_code, reason = "signals and timers have no safe interface")]

use std::{
    cell::UnsafeCell,
    ffi::c_int,
    io, mem,
    ptr::{self, NonNull, null_mut},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    thread,
};

use crate::ProfileError;

/// Bytes of stack copied from its top; deeper frames are cut off.
pub(crate) const STACK_BYTES: usize = 64 << 10;
/// Samples waiting to be unwound. They are taken every 10 ms; one core produces about one in that time.
const SLOTS: usize = 64;
/// Copies are split at pages of this size: the kernel copies the mapped ones and stops at the first that is not.
const PAGE: usize = 4096;

const FREE: u8 = 0;
const WRITTEN: u8 = 1;
const FULL: u8 = 2;

/// Whether a profile is being recorded: a process has only one such timer.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// The ring the handler writes to; null while no profile is recorded.
static RING: AtomicPtr<Ring> = AtomicPtr::new(null_mut());
/// Number of handlers that may be using the ring.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The state of one thread at one moment.
#[derive(Debug)]
pub(crate) struct Sample {
    /// The kernel's thread id.
    pub(crate) thread: u32,
    pub(crate) registers: Registers,
    copied: usize,
    stack: Box<[u8]>,
}

/// The registers needed to unwind a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    pub(crate) frame: u64,
    /// The return address, on processors that keep it in a register.
    #[cfg_attr(not(target_arch = "aarch64"), expect(dead_code, reason = "on the stack here"))]
    pub(crate) link: u64,
}

impl Sample {
    /// The word at an address, if the copied part of the stack contains it.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.registers.stack)?).ok()?;
        let bytes = self.stack[..self.copied].get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }
}

#[derive(Debug)]
struct Slot {
    state: AtomicU8,
    sample: UnsafeCell<Sample>,
}

// SAFETY: the sample is accessed only by the handler that changed `state` from FREE to WRITTEN, or by the one taker after it found FULL;
// each has exclusive access until it changes the state again.
unsafe impl Sync for Slot {}

#[derive(Debug)]
struct Ring {
    slots: Box<[Slot]>,
    next: AtomicUsize,
    lost: AtomicU64,
}

impl Ring {
    fn new() -> Self {
        let slot = |_| Slot {
            state: AtomicU8::new(FREE),
            sample: UnsafeCell::new(Sample {
                thread: 0,
                registers: Registers::default(),
                copied: 0,
                stack: vec![0; STACK_BYTES].into_boxed_slice(),
            }),
        };
        Self {
            slots: (0..SLOTS).map(slot).collect(),
            next: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Called from the signal handler: must not lock, allocate or block.
    fn put(&self, registers: Registers) {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let slot = &self.slots[at];
        let claimed = slot
            .state
            .compare_exchange(FREE, WRITTEN, Ordering::Acquire, Ordering::Relaxed);
        if claimed.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: the exchange above gave the sample to this handler alone.
        let sample = unsafe { &mut *slot.sample.get() };
        // SAFETY: gettid takes no arguments and only returns a number.
        sample.thread = unsafe { libc::gettid() }.cast_unsigned();
        sample.registers = registers;
        sample.copied = copy(registers.stack as usize, &mut sample.stack);
        slot.state.store(FULL, Ordering::Release);
    }

    fn take(&self, mut each: impl FnMut(&Sample)) {
        for slot in &self.slots {
            if slot.state.load(Ordering::Acquire) == FULL {
                // SAFETY: a handler writes only to FREE slots, and there is only one taker, which holds the sampler.
                each(unsafe { &*slot.sample.get() });
                slot.state.store(FREE, Ordering::Release);
            }
        }
    }
}

/// Copies the readable bytes from an address on and returns their number. The kernel does the copying and stops at the first unmapped page,
/// because a stack may end at any page.
fn copy(from: usize, to: &mut [u8]) -> usize {
    const PIECES: usize = STACK_BYTES / PAGE + 1;
    let mut pieces = [libc::iovec {
        iov_base: null_mut(),
        iov_len: 0,
    }; PIECES];
    let mut at = 0;
    for piece in &mut pieces {
        let address = from.saturating_add(at);
        let length = (PAGE - address % PAGE).min(to.len() - at);
        *piece = libc::iovec {
            iov_base: ptr::without_provenance_mut(address),
            iov_len: length,
        };
        at += length;
    }
    let into = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    // SAFETY: `into` describes our own memory of that length; the remote ranges are only read, by the kernel, which checks every address.
    let copied = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const into,
            1,
            pieces.as_ptr(),
            PIECES as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).unwrap_or(0)
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: `errno` is thread-local, and the interrupted code may be about to read it.
    let errno = unsafe { *libc::__errno_location() };
    // `stop` removes the ring first and then waits for this counter, so a handler that has seen the ring is already counted.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let ring = RING.load(Ordering::SeqCst);
    if !ring.is_null() && !context.is_null() {
        // SAFETY: the ring outlives every counted handler that found it; the kernel passes the interrupted context to a handler installed
        // with SA_SIGINFO.
        unsafe { (*ring).put(registers(&*context.cast::<libc::ucontext_t>())) };
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let of = |name: c_int| context.uc_mcontext.gregs[name as usize].cast_unsigned();
    Registers {
        instruction: of(libc::REG_RIP),
        stack: of(libc::REG_RSP),
        frame: of(libc::REG_RBP),
        link: 0,
    }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        instruction: machine.pc,
        stack: machine.sp,
        frame: machine.regs[29],
        link: machine.regs[30],
    }
}

/// A recording in progress: owns the timer and the ring. Dropping it stops both.
#[derive(Debug)]
pub(crate) struct Sampler {
    own_thread: u32,
    /// Allocated as a box, freed only in `drop`.
    ring: NonNull<Ring>,
}

impl Sampler {
    /// Starts sampling the process `per_second` times for each second of CPU time.
    pub(crate) fn start(per_second: u32) -> Result<Self, ProfileError> {
        if RUNNING.swap(true, Ordering::SeqCst) {
            return Err(ProfileError::Running);
        }
        // SAFETY: gettid takes no arguments and only returns a number.
        let own_thread = unsafe { libc::gettid() }.cast_unsigned();
        let ring = NonNull::from(Box::leak(Box::new(Ring::new())));
        let sampler = Self { own_thread, ring };
        RING.store(ring.as_ptr(), Ordering::SeqCst);
        handle().and_then(|()| set_timer(1_000_000 / per_second))?;
        Ok(sampler)
    }

    /// Takes the samples that arrived since the last call, except those of the thread that started the sampler.
    pub(crate) fn take(&self, mut each: impl FnMut(&Sample)) {
        self.ring().take(|sample| {
            if sample.thread != self.own_thread {
                each(sample);
            }
        });
    }

    /// Samples lost because the ring was full.
    pub(crate) fn lost(&self) -> u64 {
        self.ring().lost.load(Ordering::Relaxed)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: the ring lives as long as this value, and is only ever shared.
        unsafe { self.ring.as_ref() }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // Switching off a timer that was never set is harmless.
        let _ = set_timer(0);
        RING.store(null_mut(), Ordering::SeqCst);
        // A handler runs for microseconds, but its thread may have been preempted for longer.
        while INSIDE.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        // SAFETY: the pointer came from a box, the ring is no longer published, and all handlers that had found it have returned.
        drop(unsafe { Box::from_raw(self.ring.as_ptr()) });
        RUNNING.store(false, Ordering::SeqCst);
    }
}

/// Installs the handler and leaves it installed: a signal may still be pending after the timer stops, and its default action would kill the
/// process.
fn handle() -> Result<(), ProfileError> {
    // SAFETY: a plain C struct of integers and pointers, for which all zeros is valid.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe: it uses atomics and system calls that neither block nor touch the program's memory.
    let done = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, null_mut()) };
    checked(done, "handle the signal of a timer")
}

/// Arms the timer to fire each time the process has used `microseconds` of CPU time; 0 disarms it.
fn set_timer(microseconds: u32) -> Result<(), ProfileError> {
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds.into(),
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: setitimer only reads our local value; the previous one is not requested.
    let done = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, null_mut()) };
    checked(done, "set a timer of CPU time")
}

fn checked(done: c_int, what: &'static str) -> Result<(), ProfileError> {
    match done {
        0 => Ok(()),
        _ => Err(ProfileError::System {
            what,
            source: io::Error::last_os_error(),
        }),
    }
}
