//! The calls that are under way in one engine.

use std::time::Instant;

use forebay_wire::RequestView;

use crate::{Failure, answer::Answer};

/// Names a call to the script: its place and how often that was used before, so that what comes late meets nobody else.
pub(crate) type CallId = u32;

/// Most calls that are open in one engine.
pub(crate) const OPEN_MAX: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 12;

/// A call's end.
pub(crate) type Outcome = Result<Answer, Failure>;

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) id: CallId,
    pub(crate) outcome: Outcome,
    /// Its request.
    pub(crate) payload: Vec<u8>,
}

#[derive(Debug)]
struct Call {
    id: CallId,
    /// Of a REQUEST frame.
    payload: Vec<u8>,
    deadline: Option<Instant>,
}

/// Calls that have no answer yet, and the answers that nobody has taken.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Option<Call>>,
    free: Vec<usize>,
    /// How often a place was used.
    used: Vec<u32>,
    over: Vec<Over>,
}

impl Calls {
    /// Opens a call; `None` when too many are open.
    pub(crate) fn open(&mut self, payload: Vec<u8>, deadline: Option<Instant>) -> Option<CallId> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.open.len() < OPEN_MAX => {
                self.open.push(None);
                self.used.push(0);
                self.open.len() - 1
            }
            None => return None,
        };
        // 0 names no call.
        self.used[place] = (self.used[place] % ((1 << (31 - PLACE_BITS)) - 1)) + 1;
        let id = self.used[place] << PLACE_BITS | place as u32;
        self.open[place] = Some(Call {
            id,
            payload,
            deadline,
        });
        Some(id)
    }

    fn get(&self, id: CallId) -> Option<&Call> {
        let place = id as usize % OPEN_MAX;
        self.open.get(place)?.as_ref().filter(|call| call.id == id)
    }

    fn take(&mut self, id: CallId) -> Option<Call> {
        self.get(id)?;
        let place = id as usize % OPEN_MAX;
        self.free.push(place);
        self.open[place].take()
    }

    /// Ends a call with an answer, unless it has ended.
    pub(crate) fn answer(&mut self, id: CallId, answer: Answer) {
        self.end(id, Ok(answer));
    }

    /// Ends a call without one, unless it has ended.
    pub(crate) fn fail(&mut self, id: CallId, failure: Failure) {
        self.end(id, Err(failure));
    }

    /// The same for a call that was stopped: also when all that it has come to is to say that it failed.
    pub(crate) fn stop(&mut self, id: CallId, failure: Failure) {
        let said = self.over.iter_mut().find(|over| over.id == id);
        match said {
            Some(over) if over.outcome.as_ref().is_ok_and(|answer| answer.is_fault) => {
                over.outcome = Err(failure);
            }
            Some(_) => {}
            None => self.fail(id, failure),
        }
    }

    fn end(&mut self, id: CallId, outcome: Outcome) {
        if let Some(Call { payload, .. }) = self.take(id) {
            self.over.push(Over { id, outcome, payload });
        }
    }

    /// Forgets a call; gives its payload back, if it was open.
    pub(crate) fn close(&mut self, id: CallId) -> Option<Vec<u8>> {
        self.take(id).map(|call| call.payload)
    }

    /// The next call that has ended.
    pub(crate) fn next_over(&mut self) -> Option<Over> {
        self.over.pop()
    }

    /// A part of the request, by its number in the payload's table; empty when the call is over.
    pub(crate) fn part(&self, id: CallId, index: usize) -> &[u8] {
        let Some(request) = self.view(id) else { return &[] };
        match index {
            0 => request.method,
            1 => request.path,
            2 => request.query,
            3 => request.route,
            4 => request.params,
            5 => request.headers,
            6 => request.peer,
            _ => request.body,
        }
    }

    /// What handlers are told with their call.
    pub(crate) fn method_and_path(&self, id: CallId) -> (&[u8], &[u8]) {
        self.view(id)
            .map_or((&[], &[]), |request| (request.method, request.path))
    }

    fn view(&self, id: CallId) -> Option<RequestView<'_>> {
        RequestView::decode(&self.get(id)?.payload).ok()
    }

    /// The request's id.
    pub(crate) fn request_id(&self, id: CallId) -> Option<String> {
        let id = self.view(id)?.request_id()?;
        Some(String::from_utf8_lossy(id).into_owned())
    }

    /// Milliseconds until the deadline, less than 0 without one.
    pub(crate) fn remaining_ms(&self, id: CallId) -> f64 {
        match self.get(id).map(|call| call.deadline) {
            Some(Some(deadline)) => deadline.saturating_duration_since(Instant::now()).as_secs_f64() * 1000.0,
            Some(None) => -1.0,
            None => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_late_does_not_meet_the_next_call_at_the_same_place() {
        let mut calls = Calls::default();
        let first = calls.open(Vec::new(), None).unwrap();
        assert!(calls.close(first).is_some());
        let second = calls.open(Vec::new(), None).unwrap();
        assert_eq!(first as usize % OPEN_MAX, second as usize % OPEN_MAX);
        calls.fail(first, Failure::Stopping);
        assert!(calls.next_over().is_none());
        calls.fail(second, Failure::Stopping);
        calls.fail(second, Failure::GivenUp);
        assert_eq!(calls.next_over().map(|over| over.id), Some(second));
        assert!(calls.next_over().is_none());
    }

    #[test]
    fn names_come_round_again_without_ever_being_zero() {
        let mut calls = Calls::default();
        for _ in 0..(1 << 20) {
            let id = calls.open(Vec::new(), None).unwrap();
            assert!(id >> PLACE_BITS > 0);
            calls.close(id);
        }
    }

    #[test]
    fn only_so_many_are_open() {
        let mut calls = Calls::default();
        let ids: Vec<_> = (0..OPEN_MAX)
            .map(|_| calls.open(Vec::new(), None).unwrap())
            .collect();
        assert_eq!(calls.open(Vec::new(), None), None);
        calls.close(ids[7]);
        assert!(calls.open(Vec::new(), None).is_some());
    }
}
