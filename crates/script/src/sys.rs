//! The unsafe code of this crate: the allocator of an engine, memory that it shares with this program, and precompiled modules.

#![allow(
    unsafe_code,
    reason = "the allocator and the views of typed arrays are C interfaces"
)]

use std::{cell::Cell, ptr::null_mut, rc::Rc};

use rquickjs::{Ctx, Module, Result, TypedArray, WriteOptions, allocator::Allocator, module::Declared};

/// Memory accounting of an engine: the system's allocator with a counter and a limit. The engine's own limit cannot tell how much one call
/// has used.
#[derive(Debug)]
pub(crate) struct Meter {
    used: Cell<usize>,
    limit: Cell<usize>,
    refused: Cell<bool>,
}

impl Meter {
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Self {
            used: Cell::new(0),
            limit: Cell::new(limit),
            refused: Cell::new(false),
        })
    }

    /// Number of allocated bytes.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Refuses allocations beyond this many bytes from now on.
    pub(crate) fn limit(&self, bytes: usize) {
        self.limit.set(bytes);
    }

    /// Whether an allocation was refused since the last call.
    pub(crate) fn take_refused(&self) -> bool {
        self.refused.replace(false)
    }

    fn has_room(&self, more: usize) -> bool {
        let fits = self
            .used
            .get()
            .checked_add(more)
            .is_some_and(|used| used <= self.limit.get());
        if !fits {
            self.refused.set(true);
        }
        fits
    }

    fn add(&self, memory: *mut libc::c_void) -> *mut u8 {
        if !memory.is_null() {
            self.used.set(self.used.get() + usable(memory));
        }
        memory.cast()
    }

    fn subtract(&self, memory: *mut libc::c_void) {
        self.used.set(self.used.get().saturating_sub(usable(memory)));
    }
}

/// The allocator of one engine.
pub(crate) struct Metered(pub(crate) Rc<Meter>);

fn usable(memory: *mut libc::c_void) -> usize {
    // SAFETY: it is null or came from `malloc`, and has not been freed: the engine keeps to that.
    unsafe { libc::malloc_usable_size(memory) }
}

// SAFETY: memory comes from `malloc`, which aligns it for every type; a refusal is a null pointer.
unsafe impl Allocator for Metered {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if size == 0 || !self.0.has_room(size) {
            return null_mut();
        }
        // SAFETY: `malloc` takes any size.
        self.0.add(unsafe { libc::malloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        let Some(bytes) = count.checked_mul(size).filter(|bytes| *bytes > 0) else {
            return null_mut();
        };
        if !self.0.has_room(bytes) {
            return null_mut();
        }
        // SAFETY: `calloc` takes any sizes.
        self.0.add(unsafe { libc::calloc(count, size) })
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.0.subtract(ptr.cast());
        // SAFETY: the caller vouches that it came from here.
        unsafe { libc::free(ptr.cast()) };
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let before = usable(ptr.cast());
        if new_size > before && !self.0.has_room(new_size - before) {
            return null_mut();
        }
        // SAFETY: the caller vouches that it came from here.
        let memory = unsafe { libc::realloc(ptr.cast(), new_size) };
        if memory.is_null() {
            return null_mut();
        }
        self.0.used.set(self.0.used.get().saturating_sub(before));
        self.0.add(memory)
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        usable(ptr.cast())
    }
}

/// Gives access to the bytes of a typed array; `None` if its buffer is detached. `look` must not run any script: only a script could change
/// or free them meanwhile.
pub(crate) fn with_bytes<T>(array: &TypedArray<'_, u8>, look: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
    let mut bytes = array.as_raw()?;
    // SAFETY: the array is alive as long as it is borrowed, its engine is of this thread, and no script runs while `look` does.
    Some(look(unsafe { bytes.as_mut() }))
}

/// The bytes of a string: UTF-8, except that lone surrogates are encoded as three bytes.
pub(crate) fn text_bytes<'a>(text: &'a rquickjs::CString<'_>) -> &'a [u8] {
    // SAFETY: the engine keeps the bytes in place, and as many as it says, until `text` is dropped.
    unsafe { std::slice::from_raw_parts(text.as_ptr().cast(), text.len()) }
}

/// Memory that scripts see as an `ArrayBuffer`, shared with this program.
#[derive(Clone, Debug)]
pub(crate) struct Area(Rc<[Cell<u8>]>);

impl Area {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![Cell::new(0); bytes].into())
    }

    /// A part of the memory. It is valid while no script runs, so only a call from a script may borrow it.
    pub(crate) fn get(&self, from: usize, to: usize) -> Option<&[u8]> {
        let part = self.0.get(from..to)?;
        // SAFETY: a `Cell<u8>` is laid out as a `u8`; scripts, which alone write behind the first byte, wait for the call that looks.
        Some(unsafe { std::slice::from_raw_parts(part.as_ptr().cast(), part.len()) })
    }

    /// Writes the first byte, which `get` is never asked for.
    pub(crate) fn mark(&self, byte: u8) {
        if let Some(first) = self.0.first() {
            first.set(byte);
        }
    }
}

// SAFETY: the memory stays where it is as long as any of its owners is there, and it is made of cells.
unsafe impl rquickjs::ArrayBufferSource for Area {
    fn as_ptr(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A module in the engine's compiled form.
#[derive(Debug)]
pub(crate) struct Compiled(Vec<u8>);

impl Compiled {
    pub(crate) fn of(module: &Module<'_, Declared>) -> Result<Self> {
        module.write(WriteOptions::default()).map(Self)
    }

    pub(crate) fn load<'js>(&self, ctx: &Ctx<'js>) -> Result<Module<'js, Declared>> {
        // SAFETY: only an engine of this same program makes these bytes, in `of`, and nothing changes them.
        unsafe { Module::load(ctx.clone(), &self.0) }
    }
}
