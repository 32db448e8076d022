//! The formats of Rengine's executor: requests for several workflows at once, by their scenes' codes, or for a single rule, and the requests
//! of systems that know nothing of workflows.

mod custom;
mod request;
mod response;
mod xml;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::value::RawValue;

pub use self::{
    custom::{CustomRequest, fill},
    request::SceneRequest,
    response::{SceneResult, failed},
    xml::read_xml,
};
use crate::{
    Asker, Bundle, Evaluator, FailureKind, RunCall, Runner, WorkflowFailure, runs::result::RunResult,
};

/// Extra time after the runs' deadline for reporting their outcomes.
const REPORT_TIME: Duration = Duration::from_secs(1);
/// The part of a request's timeout that its runs get, as in Rengine.
const RUN_PART: f64 = 0.9;

/// How a request has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'r> {
    /// Its id in logs.
    pub id: &'r str,
    /// When it arrived.
    pub at: Instant,
    /// When it has to be answered.
    pub deadline: Instant,
}

/// A request whose client is known and whose members are checked.
#[derive(Debug)]
pub struct SceneCall<'r, E: Evaluator> {
    runner: &'r Runner<E>,
    request: &'r SceneRequest<'r>,
    /// The client's id for the request.
    pub request_id: &'r str,
    asker: Asker<'r>,
    args: &'r RawValue,
    arrival: Arrival<'r>,
    /// The time limit of its runs, and their deadline.
    run_timeout: Duration,
    deadline: Instant,
    /// Whether responses are exactly Rengine's wherever programs could depend on that.
    is_as_rengine: bool,
    /// Whether the response includes a trace of the nodes.
    pub wants_trace: bool,
}

impl<'r, E: Evaluator> SceneCall<'r, E> {
    /// Checks the members that all requests have.
    ///
    /// # Errors
    /// The first wrong one.
    pub fn new(
        runner: &'r Runner<E>,
        request: &'r SceneRequest<'r>,
        asker: Asker<'r>,
        arrival: Arrival<'r>,
        is_as_rengine: bool,
    ) -> Result<Self, WorkflowFailure> {
        let timeout = request.timeout()?.min(runner.limits.timeout);
        let run_timeout = if is_as_rengine {
            timeout.mul_f64(RUN_PART)
        } else {
            timeout
        };
        Ok(Self {
            runner,
            request,
            request_id: request.needed_id()?,
            asker,
            args: request.args()?,
            arrival,
            run_timeout,
            deadline: arrival.deadline.min(arrival.at + run_timeout),
            is_as_rengine,
            wants_trace: false,
        })
    }

    /// When its runs are over and reported.
    pub fn until(&self) -> Instant {
        self.deadline + REPORT_TIME
    }

    /// Runs the requested workflows concurrently and returns the outcome of each.
    ///
    /// # Errors
    /// If there are none, or a single one is refused.
    pub async fn run_scenes(
        &self,
        bundle: &Arc<Bundle<E>>,
    ) -> Result<Vec<(String, SceneResult)>, WorkflowFailure> {
        let codes = self.request.codes()?;
        if !codes.iter().any(|code| bundle.has(code)) {
            let name = codes.join("`, `");
            return Err(WorkflowFailure::NoSuchWorkflow { name });
        }
        let is_alone = codes.len() == 1;
        let results = join_all(codes.into_iter().map(async |code| {
            let name = code.to_owned();
            let result = if bundle.has(code) {
                self.run_scene(bundle, code, is_alone).await?
            } else {
                WorkflowFailure::NoSuchWorkflow { name: name.clone() }.into()
            };
            Ok((name, result))
        }));
        results.await.into_iter().collect()
    }

    async fn run_scene(
        &self,
        bundle: &Arc<Bundle<E>>,
        code: &str,
        is_alone: bool,
    ) -> Result<SceneResult, WorkflowFailure> {
        let deadline = self.deadline.min(self.arrival.at + self.runner.timeout_of(code));
        let call = self.run_call(bundle, code);
        // A run that is still waiting for an executor by then times out alone.
        let until = if self.wants_trace {
            deadline + REPORT_TIME * 3 / 4
        } else {
            deadline
        };
        let outcome = tokio::time::timeout_at(until.into(), self.runner.evaluate(&call, deadline)).await;
        let outcome = outcome.unwrap_or(Err(WorkflowFailure::DeadlinePassed));
        self.result_of(outcome, &call, is_alone)
    }

    /// Runs the requested rule alone.
    ///
    /// # Errors
    /// If the run is refused.
    pub async fn run_rule(
        &self,
        bundle: &Arc<Bundle<E>>,
        rule: &str,
    ) -> Result<SceneResult, WorkflowFailure> {
        let call = self.run_call(bundle, rule);
        let outcome = self.runner.evaluate_rule(&call, self.deadline).await;
        self.result_of(outcome, &call, true)
    }

    fn run_call<'c>(&'c self, bundle: &'c Arc<Bundle<E>>, workflow: &'c str) -> RunCall<'c, E> {
        let (id, wants_trace) = (self.request_id, self.wants_trace);
        RunCall {
            is_traced: self.request.is_traced(),
            ..RunCall::new(bundle, workflow, self.args, self.asker, id, wants_trace)
        }
    }

    /// A run's outcome, as the response reports it. If the run was the only one and refused before it began, the refusal is the response.
    fn result_of(
        &self,
        outcome: Result<Bytes, WorkflowFailure>,
        call: &RunCall<'_, E>,
        is_alone: bool,
    ) -> Result<SceneResult, WorkflowFailure> {
        let failure = match outcome {
            Ok(bytes) => {
                let result = RunResult::read(&bytes)?;
                return Ok(match call.node_failure(&result, self.arrival.id) {
                    Some(failure) => failure.into(),
                    None => SceneResult::of(&result),
                });
            }
            Err(failure) => failure,
        };
        match failure.kind() {
            FailureKind::Unauthorized
            | FailureKind::Forbidden
            | FailureKind::NotFound
            | FailureKind::TooMany
            | FailureKind::Overload
                if is_alone =>
            {
                Err(failure)
            }
            FailureKind::Deadline => Ok(SceneResult::late(self.run_timeout, failure.trace())),
            _ => {
                failure.log(self.arrival.id);
                Ok(failure.into())
            }
        }
    }

    /// The response with the outcomes of workflows: its status and its body.
    pub fn report(&self, results: &[(String, SceneResult)]) -> (u16, Vec<u8>) {
        response::of_scenes(results, self.request_id, self.is_as_rengine)
    }

    /// The response with the outcome of a rule: its status and its body.
    pub fn report_rule(&self, result: &SceneResult) -> (u16, Vec<u8>) {
        response::of_rule(result, self.request_id, self.is_as_rengine)
    }
}
