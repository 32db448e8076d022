//! Runs the steps of an engine on a stack of their own, so that a rule can stop in the middle of a function and continue in a later step,
//! while its thread serves other calls.
//!
//! The frames of the engine are C, which cannot be unwound: a suspended step must be resumed until it ends, with [`Signal::Cancel`] if its
//! call is over.

#![allow(
    unsafe_code,
    reason = "the running step finds its coroutine through a pointer"
)]

use std::{
    cell::{Cell, RefCell},
    mem, ptr,
};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};
use rquickjs::{Ctx, qjs};

use crate::host_ops::{OpResult, WaitId};

/// Size of a stack in bytes: more than scripts may use, because the functions that they call need some, too.
const STACK_BYTES: usize = 2 << 20;

/// The reason for which a suspended step continues.
#[derive(Debug)]
pub(crate) enum Signal {
    /// An operation of its call has ended.
    Ended(WaitId, OpResult),
    /// It must throw, and may not suspend again.
    Cancel,
}

/// The result of a step, or the reason why it was broken off.
pub(crate) type Outcome = Result<(), String>;

/// The end of a part of a step.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The step waits for an operation.
    Suspended,
    Ended(Outcome),
}

type Routine = Coroutine<Option<Signal>, (), Outcome>;

/// The stack of an engine's steps; at most one step runs or is suspended at a time.
pub(crate) struct Fiber {
    /// The suspended step.
    suspended: RefCell<Option<Routine>>,
    /// The stack, while no step has it.
    stack: RefCell<Option<DefaultStack>>,
    /// The running step's handle on its coroutine; null if none runs.
    yielder: Cell<*const Yielder<Option<Signal>, ()>>,
}

impl std::fmt::Debug for Fiber {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Fiber").finish_non_exhaustive()
    }
}

impl Fiber {
    /// Fails if there is no memory for its stack.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            suspended: RefCell::default(),
            stack: RefCell::new(Some(DefaultStack::new(STACK_BYTES)?)),
            yielder: Cell::new(ptr::null()),
        })
    }

    /// Whether a step is suspended.
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended.borrow().is_some()
    }

    /// Runs a step until it ends or calls [`suspend`](Self::suspend). No other step may be suspended.
    pub(crate) fn run(self: &std::rc::Rc<Self>, step: impl FnOnce() -> Outcome + 'static) -> Progress {
        let stack = self.stack.take().expect("a step begins after the last has ended");
        let own = self.clone();
        self.proceed(
            Coroutine::with_stack(stack, move |yielder, _| {
                own.yielder.set(yielder);
                step()
            }),
            None,
        )
    }

    /// Continues the suspended step.
    pub(crate) fn resume(&self, signal: Signal) -> Progress {
        let routine = self.suspended.take().expect("a step is suspended");
        self.proceed(routine, Some(signal))
    }

    fn proceed(&self, mut routine: Routine, signal: Option<Signal>) -> Progress {
        let reset = ResetOnPanic(&self.yielder);
        let result = routine.resume(signal);
        mem::forget(reset);
        match result {
            CoroutineResult::Yield(()) => {
                *self.suspended.borrow_mut() = Some(routine);
                Progress::Suspended
            }
            CoroutineResult::Return(outcome) => {
                self.yielder.set(ptr::null());
                *self.stack.borrow_mut() = Some(routine.into_stack());
                Progress::Ended(outcome)
            }
        }
    }

    /// Suspends the running step until it is resumed; must be called by that step. Cancels it if it does not run on this stack.
    pub(crate) fn suspend(&self) -> Signal {
        let yielder = self.yielder.get();
        if yielder.is_null() {
            return Signal::Cancel;
        }
        // SAFETY: the pointer was set by the step that runs, and points into its stack, which stays until the step has ended; then, and after a panic, the
        // pointer is null. Only that step's own code can get here: nothing else runs on this thread until it suspends or ends.
        let signal = unsafe { &*yielder }.suspend(());
        signal.unwrap_or(Signal::Cancel)
    }
}

/// Clears the pointer to a coroutine whose step has panicked.
struct ResetOnPanic<'a>(&'a Cell<*const Yielder<Option<Signal>, ()>>);

impl Drop for ResetOnPanic<'_> {
    fn drop(&mut self) {
        self.0.set(ptr::null());
    }
}

/// Makes the engine measure its stack from here. It must be called first in each step that may run on another stack than the last one.
pub(crate) fn measure_stack_from_here(ctx: &Ctx<'_>) {
    // SAFETY: the context is alive, and so is its runtime, of which this sets two numbers.
    unsafe { qjs::JS_UpdateStackTop(qjs::JS_GetRuntime(ctx.as_raw().as_ptr())) };
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_step_continues_where_it_was_suspended_and_its_stack_is_used_again() {
        let fiber = Rc::new(Fiber::new().unwrap());
        for _ in 0..3 {
            let own = fiber.clone();
            let progress = fiber.run(move || {
                let first = matches!(own.suspend(), Signal::Ended(7, OpResult::Nothing));
                let second = matches!(own.suspend(), Signal::Cancel);
                if first && second {
                    Ok(())
                } else {
                    Err("other signals".to_owned())
                }
            });
            assert!(matches!(progress, Progress::Suspended) && fiber.is_suspended());
            let progress = fiber.resume(Signal::Ended(7, OpResult::Nothing));
            assert!(matches!(progress, Progress::Suspended));
            let progress = fiber.resume(Signal::Cancel);
            assert!(matches!(progress, Progress::Ended(Ok(()))) && !fiber.is_suspended());
        }
    }

    #[test]
    fn code_outside_of_a_step_cannot_be_suspended() {
        assert!(matches!(Fiber::new().unwrap().suspend(), Signal::Cancel));
    }
}
