//! Wakes tasks of one I/O thread from other threads, with one interruption for a whole batch.
//!
//! Without this, the runtime interrupts its thread once per task that another thread wakes, with a system call each time; answering many
//! requests at once would make as many system calls.

use std::{
    cell::RefCell,
    mem,
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

thread_local! {
    /// Wake-ups by this thread that are held back until its batch of work is done.
    static HELD: RefCell<Option<Vec<Arc<Call>>>> = const { RefCell::new(None) };
}

/// The wake-up channel of one I/O thread.
#[derive(Debug)]
pub(super) struct Bell {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Tasks to wake. If there are any, the thread has been notified already.
    woken: Mutex<Vec<Waker>>,
    rung: Notify,
}

/// A waker for one task that goes through the bell.
struct Call {
    shared: Arc<Shared>,
    task: Waker,
}

impl Bell {
    /// Creates a bell whose wake-ups are handled by a task on the current [`tokio::task::LocalSet`].
    pub(super) fn hang() -> Self {
        let shared = Arc::new(Shared::default());
        tokio::task::spawn_local(answer(shared.clone()));
        Self { shared }
    }

    /// A waker that other threads may use for a task of this thread.
    pub(super) fn waker(&self, task: &Waker) -> Waker {
        Waker::from(Arc::new(Call {
            shared: self.shared.clone(),
            task: task.clone(),
        }))
    }
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_held =
            HELD.with_borrow_mut(|held| held.as_mut().map(|calls| calls.push(Arc::clone(self))).is_some());
        if !is_held && self.lay_down() {
            self.shared.rung.notify_one();
        }
    }
}

impl Call {
    /// Queues the task to be woken; returns whether the thread has to be notified, which only the first in the queue needs.
    fn lay_down(&self) -> bool {
        let mut woken = self.shared.woken.lock();
        woken.push(self.task.clone());
        woken.len() == 1
    }
}

/// Runs `work` and delivers the wake-ups it causes afterwards, as one batch: no woken task runs before the last one is queued.
pub(crate) fn together(work: impl FnOnce()) {
    HELD.set(Some(Vec::new()));
    let _ring = Ring;
    work();
}

/// Delivers the held wake-ups, even if the work panics.
struct Ring;

impl Drop for Ring {
    fn drop(&mut self) {
        let calls = HELD.take().unwrap_or_default();
        let first: Vec<_> = calls.iter().filter(|call| call.lay_down()).collect();
        for call in first {
            call.shared.rung.notify_one();
        }
    }
}

async fn answer(shared: Arc<Shared>) {
    let mut woken = Vec::new();
    loop {
        shared.rung.notified().await;
        mem::swap(&mut woken, &mut *shared.woken.lock());
        for task in woken.drain(..) {
            task.wake();
        }
    }
}
