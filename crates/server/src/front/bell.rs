//! Wakes the tasks of one I/O thread from other threads, with one interruption however many they are.
//!
//! The runtime interrupts its thread for every task that another thread wakes, a system call each time. Whoever answers many
//! requests at once would make as many of them.

use std::{
    mem,
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

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
        let mut woken = self.shared.woken.lock();
        woken.push(self.task.clone());
        let first = woken.len() == 1;
        drop(woken);
        if first {
            self.shared.rung.notify_one();
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
