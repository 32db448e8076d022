//! Operations that the calls of one thread wait for, as tasks of that thread. They end with their call.

use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    rc::Rc,
};

use forebay_clients::ClientSession;
use forebay_pg::SqlSession;
use tokio::{sync::mpsc, task::AbortHandle};

use crate::{host_ops::WaitId, member::CallKey};

/// The tasks of a thread's calls.
#[derive(Debug, Default)]
pub(crate) struct Work {
    calls: RefCell<HashMap<CallKey, CallWork>>,
}

#[derive(Debug, Default)]
struct CallWork {
    /// Ends the call at its time limit, or when its client leaves.
    guard: Option<Task>,
    waits: HashMap<WaitId, Task>,
    /// Its transactions and cursors on databases.
    session: Option<Rc<SqlSession>>,
    /// Its locks in external systems.
    client_session: Option<Rc<ClientSession>>,
}

impl CallWork {
    /// Whether there is nothing left that must end with the call.
    fn is_empty(&self) -> bool {
        let holds_nothing = self.session.is_none() && self.client_session.is_none();
        holds_nothing && self.waits.is_empty() && self.guard.is_none()
    }
}

/// Aborts its task when dropped.
#[derive(Debug)]
struct Task {
    handle: AbortHandle,
    /// Demands the next piece of a response, for this wait.
    demand: Option<mpsc::UnboundedSender<WaitId>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Work {
    /// Sets the task that watches a call, replacing an earlier one.
    pub(crate) fn guard(&self, key: CallKey, handle: AbortHandle) {
        let task = Task { handle, demand: None };
        self.calls.borrow_mut().entry(key).or_default().guard = Some(task);
    }

    /// Adds a task that a call waits for.
    pub(crate) fn add(
        &self,
        key: CallKey,
        wait: WaitId,
        handle: AbortHandle,
        demand: Option<mpsc::UnboundedSender<WaitId>>,
    ) {
        let task = Task { handle, demand };
        self.calls
            .borrow_mut()
            .entry(key)
            .or_default()
            .waits
            .insert(wait, task);
    }

    /// Returns the call's SQL session, created on first use and closed with the call.
    pub(crate) fn session(&self, key: CallKey, make: impl FnOnce() -> SqlSession) -> Rc<SqlSession> {
        let mut calls = self.calls.borrow_mut();
        let session = &mut calls.entry(key).or_default().session;
        Rc::clone(session.get_or_insert_with(|| Rc::new(make())))
    }

    /// The same for what it holds elsewhere.
    pub(crate) fn client_session(
        &self,
        key: CallKey,
        make: impl FnOnce() -> ClientSession,
    ) -> Rc<ClientSession> {
        let mut calls = self.calls.borrow_mut();
        let session = &mut calls.entry(key).or_default().client_session;
        Rc::clone(session.get_or_insert_with(|| Rc::new(make())))
    }

    /// Removes a wait of a call.
    pub(crate) fn remove(&self, key: CallKey, wait: WaitId) {
        if let Entry::Occupied(mut call) = self.calls.borrow_mut().entry(key) {
            call.get_mut().waits.remove(&wait);
            if call.get().is_empty() {
                call.remove();
            }
        }
    }

    /// Demands the next piece of a response; `false` if it has ended.
    pub(crate) fn demand(&self, key: CallKey, fetch: WaitId, wait: WaitId) -> bool {
        let calls = self.calls.borrow();
        let task = calls.get(&key).and_then(|call| call.waits.get(&fetch));
        let demand = task.and_then(|task| task.demand.as_ref());
        demand.is_some_and(|demand| demand.send(wait).is_ok())
    }

    /// Ends everything that belongs to a call.
    pub(crate) fn end(&self, key: CallKey) {
        let ended = self.calls.borrow_mut().remove(&key);
        drop(ended);
    }
}
