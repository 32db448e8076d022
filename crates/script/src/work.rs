//! What the calls of one thread wait for, as tasks of that thread: they end with their call.

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
    /// Ends the call when nobody waits for it any more.
    guard: Option<Task>,
    waits: HashMap<WaitId, Task>,
    /// What it has open on databases.
    session: Option<Rc<SqlSession>>,
    /// What it holds elsewhere.
    client_session: Option<Rc<ClientSession>>,
}

impl CallWork {
    /// Whether there is nothing that has to end with the call.
    fn is_empty(&self) -> bool {
        let holds_nothing = self.session.is_none() && self.client_session.is_none();
        holds_nothing && self.waits.is_empty() && self.guard.is_none()
    }
}

/// A task that ends when this does.
#[derive(Debug)]
struct Task {
    handle: AbortHandle,
    /// Asks an answer from elsewhere for its next piece, for a wait.
    demand: Option<mpsc::UnboundedSender<WaitId>>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl Work {
    /// The task that looks after a call, in the place of the one before.
    pub(crate) fn guard(&self, key: CallKey, handle: AbortHandle) {
        let task = Task { handle, demand: None };
        self.calls.borrow_mut().entry(key).or_default().guard = Some(task);
    }

    /// A task that a call waits for.
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

    /// What a call has open on databases, which is made when it is first needed and ends with the call.
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

    /// A call does not wait for this any more.
    pub(crate) fn remove(&self, key: CallKey, wait: WaitId) {
        if let Entry::Occupied(mut call) = self.calls.borrow_mut().entry(key) {
            call.get_mut().waits.remove(&wait);
            if call.get().is_empty() {
                call.remove();
            }
        }
    }

    /// Asks an answer from elsewhere for its next piece; `false` when it has ended.
    pub(crate) fn demand(&self, key: CallKey, fetch: WaitId, wait: WaitId) -> bool {
        let calls = self.calls.borrow();
        let task = calls.get(&key).and_then(|call| call.waits.get(&fetch));
        let demand = task.and_then(|task| task.demand.as_ref());
        demand.is_some_and(|demand| demand.send(wait).is_ok())
    }

    /// A call has ended.
    pub(crate) fn end(&self, key: CallKey) {
        let ended = self.calls.borrow_mut().remove(&key);
        drop(ended);
    }
}
