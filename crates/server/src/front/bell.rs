//! Wakes the tasks of one I/O thread from other threads, with one interruption however many they are.
//!
//! The runtime interrupts its thread for every task that another thread wakes, a system call each time. Whoever answers many
//! requests at once would make as many of them.

use std::{
    cell::RefCell,
    mem,
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

thread_local! {
    /// Calls of this thread that are held back until its work is done.
    static HELD: RefCell<Option<Vec<Arc<Call>>>> = const { RefCell::new(None) };
}

/// The bell of one I/O thread.
#[derive(Debug)]
pub(super) struct Bell {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Who is to be woken. The thread has been interrupted for them when there is one.
    woken: Mutex<Vec<Waker>>,
    rung: Notify,
}

/// One task that waits for the bell.
struct Call {
    shared: Arc<Shared>,
    task: Waker,
}

impl Bell {
    /// A bell that the current [`tokio::task::LocalSet`] answers.
    pub(super) fn hang() -> Self {
        let shared = Arc::new(Shared::default());
        tokio::task::spawn_local(answer(shared.clone()));
        Self { shared }
    }

    /// Wakes a task of this thread from any other.
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
    /// Has the task woken when the bell is rung next; says whether it has to be rung for that.
    fn lay_down(&self) -> bool {
        let mut woken = self.shared.woken.lock();
        woken.push(self.task.clone());
        woken.len() == 1
    }
}

/// Wakes all whom the work wakes by a bell at its end, so that none of them runs before the last one is woken.
pub(crate) fn together(work: impl FnOnce()) {
    HELD.set(Some(Vec::new()));
    let _ring = Ring;
    work();
}

/// Rings for those that were held back, also when the work panics.
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
