//! The open calls of one engine.

use std::time::{Duration, Instant};

use forebay_wire::{Pairs, RequestView};
use forebay_workflow::RunInput;

use crate::{
    Failure,
    answer::{Answer, Body, Weight},
    stream::{Gathering, Outlet, Piece, Room, Stage, stream},
};

/// Identifies a call: its slot, and how often that slot was used before, so that late events never reach another call.
pub(crate) type CallId = u32;

/// Maximum number of open calls in one engine. Further calls wait for a thread whose engine has room.
const OPEN_MAX: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 12;
/// Maximum number of timers and fetches that a call waits for at a time.
const WAITS_MAX: u32 = 1024;

/// The end of a call.
pub(crate) type Outcome = Result<Answer, Failure>;

/// A finished call.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) id: CallId,
    pub(crate) outcome: Outcome,
    /// The payload of its request.
    pub(crate) payload: Vec<u8>,
}

/// The time limit of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    pub(crate) at: Instant,
    /// Whether this is the request's deadline, which comes before `time_max`.
    pub(crate) by_deadline: bool,
}

impl Until {
    /// The limit of a call that begins now.
    pub(crate) fn of(deadline: Option<Instant>, time_max: Duration) -> Self {
        let at = Instant::now() + time_max;
        match deadline {
            Some(deadline) if deadline < at => Self {
                at: deadline,
                by_deadline: true,
            },
            _ => Self {
                at,
                by_deadline: false,
            },
        }
    }

    /// The failure of a call that has reached this limit.
    pub(crate) fn failure(self, time_max: Duration) -> Failure {
        if self.by_deadline {
            return Failure::DeadlinePassed;
        }
        Failure::Time {
            limit: "time_max",
            limit_ms: time_max.as_millis() as u64,
        }
    }
}

/// The request or run that a call began with.
#[derive(Debug)]
pub(crate) enum Input {
    /// The payload of a REQUEST frame, with the complete body.
    Request(Vec<u8>),
    /// The description of the run that its rules see.
    Run(RunInput),
}

impl Input {
    /// The payload; empty for a run.
    fn into_payload(self) -> Vec<u8> {
        match self {
            Self::Request(payload) => payload,
            Self::Run(_) => Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Call {
    id: CallId,
    input: Input,
    deadline: Option<Instant>,
    /// Its time limit, waiting included.
    until: Until,
    /// CPU time used so far.
    used: Duration,
    /// Number of timers and fetches that it waits for.
    waits: u32,
    /// Number of fetches started.
    fetches: u32,
    /// Its cost so far.
    weight: Weight,
    stage: Stage,
}

/// Unanswered calls, and answers that were not picked up yet.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    open: Vec<Option<Call>>,
    free: Vec<usize>,
    /// How often each slot was used.
    used: Vec<u32>,
    over: Vec<Over>,
    /// Calls that have produced pieces of an answer in this step.
    gathering: Vec<CallId>,
    /// Calls that have ended after their answer had begun.
    ended: Vec<CallId>,
}

impl Calls {
    /// Opens a call with this time limit; `None` if too many are open.
    pub(crate) fn open(
        &mut self,
        input: Input,
        deadline: Option<Instant>,
        time_max: Duration,
    ) -> Option<CallId> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.open.len() < OPEN_MAX => {
                self.open.push(None);
                self.used.push(0);
                self.open.len() - 1
            }
            None => return None,
        };
        // 0 identifies no call.
        self.used[place] = (self.used[place] % ((1 << (31 - PLACE_BITS)) - 1)) + 1;
        let id = self.used[place] << PLACE_BITS | place as u32;
        self.open[place] = Some(Call {
            id,
            input,
            deadline,
            until: Until::of(deadline, time_max),
            used: Duration::ZERO,
            waits: 0,
            fetches: 0,
            weight: Weight::Light,
            stage: Stage::Open,
        });
        Some(id)
    }

    /// Whether another call can be opened.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.open.len() < OPEN_MAX
    }

    fn get(&self, id: CallId) -> Option<&Call> {
        let place = id as usize % OPEN_MAX;
        self.open.get(place)?.as_ref().filter(|call| call.id == id)
    }

    fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        let place = id as usize % OPEN_MAX;
        self.open.get_mut(place)?.as_mut().filter(|call| call.id == id)
    }

    fn take(&mut self, id: CallId) -> Option<Call> {
        self.get(id)?;
        let place = id as usize % OPEN_MAX;
        self.free.push(place);
        self.open[place].take()
    }

    /// Ends a call with an answer, unless it has ended already.
    pub(crate) fn answer(&mut self, id: CallId, answer: Answer) {
        self.end(id, Ok(answer));
    }

    /// Ends a call with a failure, unless it has ended already.
    pub(crate) fn fail(&mut self, id: CallId, failure: Failure) {
        self.end(id, Err(failure));
    }

    /// Ends a call that was stopped. The failure also replaces an answer that only reports a fault. Returns false if the failure reaches no
    /// client, because the answer had begun or the call was over.
    pub(crate) fn stop(&mut self, id: CallId, failure: Failure) -> bool {
        let said = self.over.iter_mut().find(|over| over.id == id);
        match said {
            Some(over) if over.outcome.as_ref().is_ok_and(|answer| answer.is_fault) => {
                over.outcome = Err(failure);
                true
            }
            // A call whose answer has begun is ended as well.
            _ => {
                let is_told = self
                    .get(id)
                    .is_some_and(|call| !matches!(call.stage, Stage::Sending(_)));
                self.fail(id, failure);
                is_told
            }
        }
    }

    fn end(&mut self, id: CallId, mut outcome: Outcome) {
        let Some(call) = self.take(id) else { return };
        let Call {
            input, stage, weight, ..
        } = call;
        if let Ok(answer) = &mut outcome {
            answer.weight = weight;
        }
        if let Stage::Sending(_) = stage {
            // The client sees the answer end too early.
            self.ended.push(id);
        } else {
            let payload = input.into_payload();
            self.over.push(Over { id, outcome, payload });
        }
    }

    /// Whether no call is open and no answer is waiting to be picked up.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.open.len() && self.over.is_empty()
    }

    /// Whether the call is still open.
    pub(crate) fn is_open(&self, id: CallId) -> bool {
        self.get(id).is_some()
    }

    /// Remaining CPU time of a call. While an answer is streamed, each step has the full time.
    pub(crate) fn time_left(&self, id: CallId, cpu_max: Duration) -> Duration {
        self.get(id).map_or(cpu_max, |call| match call.stage {
            Stage::Sending(_) => cpu_max,
            Stage::Open | Stage::Gathering(_) => cpu_max.saturating_sub(call.used),
        })
    }

    /// The time limit of a call. An answer that has begun has no overall limit; each of its steps may take as long.
    pub(crate) fn until(&self, id: CallId, time_max: Duration) -> Until {
        match self.get(id) {
            Some(call) if !matches!(call.stage, Stage::Sending(_)) => call.until,
            _ => Until::of(None, time_max),
        }
    }

    pub(crate) fn charge(&mut self, id: CallId, took: Duration) {
        if let Some(call) = self.get_mut(id) {
            call.used += took;
        }
    }

    /// Registers another wait of a call. `None` if the call has ended, an error if it waits for too many things.
    pub(crate) fn wait(&mut self, id: CallId) -> Option<Result<(), String>> {
        let call = self.get_mut(id)?;
        if call.waits >= WAITS_MAX {
            return Some(Err(format!(
                "a call has at most {WAITS_MAX} timers and fetches at a time"
            )));
        }
        call.waits += 1;
        Some(Ok(()))
    }

    /// Registers a wait for a step of its own, which is not limited; `false` if the call has ended.
    pub(crate) fn wait_for_turn(&mut self, id: CallId) -> bool {
        let Some(call) = self.get_mut(id) else {
            return false;
        };
        call.waits += 1;
        true
    }

    /// A wait of a call has ended.
    pub(crate) fn waited(&mut self, id: CallId) {
        if let Some(call) = self.get_mut(id) {
            call.waits = call.waits.saturating_sub(1);
        }
    }

    /// Raises the cost of a call to at least `weight`.
    pub(crate) fn weigh(&mut self, id: CallId, weight: Weight) {
        if let Some(call) = self.get_mut(id) {
            call.weight = call.weight.max(weight);
        }
    }

    /// The cost of a call so far; `None` if it has ended.
    pub(crate) fn weight(&self, id: CallId) -> Option<Weight> {
        self.get(id).map(|call| call.weight)
    }

    /// Whether a call waits for anything.
    pub(crate) fn waits(&self, id: CallId) -> bool {
        self.get(id).is_some_and(|call| call.waits > 0)
    }

    /// Counts a fetch. Returns the number of fetches before it.
    pub(crate) fn count_fetch(&mut self, id: CallId) -> u32 {
        let Some(call) = self.get_mut(id) else { return 0 };
        call.fetches += 1;
        call.fetches - 1
    }

    /// Begins a streamed answer.
    pub(crate) fn begin_stream(&mut self, id: CallId, head: Answer) {
        if let Some(call) = self.get_mut(id) {
            call.stage = Stage::Gathering(Box::new(Gathering::new(head)));
            self.gathering.push(id);
        }
    }

    /// Adds a piece to an answer.
    pub(crate) fn piece(&mut self, id: CallId, piece: Piece) -> Room {
        match self.get_mut(id).map(|call| &mut call.stage) {
            Some(Stage::Gathering(gathering)) => gathering.add(piece),
            Some(Stage::Sending(outlet)) => outlet.send(piece),
            Some(Stage::Open) | None => Room::Gone,
        }
    }

    /// The outlet of an answer that has begun.
    pub(crate) fn outlet(&self, id: CallId) -> Option<Outlet> {
        match &self.get(id)?.stage {
            Stage::Sending(outlet) => Some(outlet.clone()),
            Stage::Open | Stage::Gathering(_) => None,
        }
    }

    /// Completes a streamed answer.
    pub(crate) fn end_stream(&mut self, id: CallId) {
        let Some(call) = self.get_mut(id) else { return };
        match std::mem::replace(&mut call.stage, Stage::Open) {
            Stage::Gathering(gathering) => self.answer(id, gathering.whole()),
            Stage::Sending(outlet) => {
                outlet.end();
                self.take(id);
                self.ended.push(id);
            }
            Stage::Open => {}
        }
    }

    /// Breaks off a streamed answer. Returns whether none of it was sent.
    pub(crate) fn break_stream(&mut self, id: CallId) -> bool {
        let Some(call) = self.get_mut(id) else {
            return false;
        };
        match std::mem::replace(&mut call.stage, Stage::Open) {
            Stage::Gathering(_) => true,
            Stage::Sending(_) => {
                self.take(id);
                self.ended.push(id);
                false
            }
            Stage::Open => false,
        }
    }

    /// After a step on an I/O thread: incomplete answers are left to an executor.
    pub(crate) fn forget_gathered(&mut self) {
        for id in std::mem::take(&mut self.gathering) {
            self.weigh(id, Weight::Heavy);
        }
    }

    /// After a step on an executor: incomplete answers are sent piece by piece from now on.
    pub(crate) fn send_gathered(&mut self) {
        for id in std::mem::take(&mut self.gathering) {
            let Some(call) = self.get_mut(id) else { continue };
            match std::mem::replace(&mut call.stage, Stage::Open) {
                Stage::Gathering(gathering) => {
                    let (mut head, pieces) = gathering.into_parts();
                    let (outlet, stream) = stream(pieces);
                    call.stage = Stage::Sending(outlet);
                    head.body = Body::Stream(stream);
                    self.over.push(Over {
                        id,
                        outcome: Ok(head),
                        payload: Vec::new(),
                    });
                }
                other => call.stage = other,
            }
        }
    }

    /// The next call that has ended after its answer had begun.
    pub(crate) fn next_ended(&mut self) -> Option<CallId> {
        self.ended.pop()
    }

    /// Closes a call. Returns its payload if it was open.
    pub(crate) fn close(&mut self, id: CallId) -> Option<Vec<u8>> {
        self.gathering.retain(|other| *other != id);
        self.take(id).map(|call| call.input.into_payload())
    }

    /// The next finished call.
    pub(crate) fn next_over(&mut self) -> Option<Over> {
        self.over.pop()
    }

    /// A part of the request, by its index in the payload's table; empty if the call is over.
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
            7 => request.id,
            8 => request.identity,
            _ => request.body,
        }
    }

    /// Whether a request has conditions on an entity tag.
    pub(crate) fn has_conditions(&self, id: CallId) -> bool {
        let headers = self.view(id).map_or(&[][..], |request| request.headers);
        let mut names = Pairs::new(headers).map_while(Result::ok).map(|(name, _)| name);
        names.any(|name| name == b"if-none-match" || name == b"if-match")
    }

    /// Method and path, which handlers get with their call.
    pub(crate) fn method_and_path(&self, id: CallId) -> (&[u8], &[u8]) {
        self.view(id)
            .map_or((&[], &[]), |request| (request.method, request.path))
    }

    fn view(&self, id: CallId) -> Option<RequestView<'_>> {
        match &self.get(id)?.input {
            Input::Request(payload) => RequestView::decode(payload).ok(),
            Input::Run(_) => None,
        }
    }

    /// The request's id.
    pub(crate) fn request_id(&self, id: CallId) -> Option<String> {
        match self.run_input(id) {
            Some(input) => Some(input.request_id.clone()),
            None => Some(String::from_utf8_lossy(self.view(id)?.id).into_owned()),
        }
    }

    /// The description of the run that its rules see; `None` for other calls.
    pub(crate) fn run_input(&self, id: CallId) -> Option<&RunInput> {
        match &self.get(id)?.input {
            Input::Run(input) => Some(input),
            Input::Request(_) => None,
        }
    }

    /// Milliseconds until the deadline; negative if there is none.
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
        let first = calls
            .open(Input::Request(Vec::new()), None, Duration::ZERO)
            .unwrap();
        assert!(calls.close(first).is_some());
        let second = calls
            .open(Input::Request(Vec::new()), None, Duration::ZERO)
            .unwrap();
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
            let id = calls
                .open(Input::Request(Vec::new()), None, Duration::ZERO)
                .unwrap();
            assert!(id >> PLACE_BITS > 0);
            calls.close(id);
        }
    }

    #[test]
    fn only_so_many_are_open() {
        let mut calls = Calls::default();
        let ids: Vec<_> = (0..OPEN_MAX)
            .map(|_| {
                calls
                    .open(Input::Request(Vec::new()), None, Duration::ZERO)
                    .unwrap()
            })
            .collect();
        assert_eq!(calls.open(Input::Request(Vec::new()), None, Duration::ZERO), None);
        calls.close(ids[7]);
        assert!(
            calls
                .open(Input::Request(Vec::new()), None, Duration::ZERO)
                .is_some()
        );
    }
}
