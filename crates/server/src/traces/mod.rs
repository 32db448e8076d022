//! Request tracing.
//!
//! A request is traced if it carries a token issued over the control socket, or if a run samples the requests of its route. Senders of
//! requests can neither trigger nor read traces. While tracing is off, a request only checks one counter.
//!
//! If the configuration names a collector, requests are traced for it as well; then a caller's trace context decides which.

mod context;
mod ids;
mod otlp;
mod report;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use forebay_trace::{Kind, Span, Trace};
use parking_lot::Mutex;
use rustix::rand::{GetRandomFlags, getrandom};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::context::Caller;
use self::otlp::{Exporter, Sampled as ForCollector};
pub(crate) use self::{ids::TracedRequests, report::TraceReport};
use crate::{config, otlp::OUTCOMES, route::Route, target::Request};

/// The request header that carries a token.
pub(crate) const HEADER: &str = "forebay-trace";
/// Most tokens kept, used or not; a new one replaces the oldest.
const TICKETS_MAX: usize = 64;
/// How long a token can be used, and its trace be read.
pub(crate) const TICKET_AGE_MAX: Duration = Duration::from_mins(1);
/// Longest duration of a sampling run.
pub(crate) const RUN_MAX: Duration = Duration::from_mins(10);
/// Most samples kept of a run; every request has the same chance to be among them.
pub(crate) const SAMPLES_MAX: usize = 1000;
/// Most spans in all samples of a run together; a sample beyond that is dropped.
const SAMPLED_SPANS_MAX: usize = 100_000;

/// Tokens, sampling runs and export, with their results.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Number of unused tokens, plus one while a run is active.
    wanted: AtomicUsize,
    state: Mutex<State>,
    /// Present if `[trace]` is configured, which cannot change while the server runs.
    exporter: Option<Exporter>,
}

#[derive(Debug, Default)]
struct State {
    tickets: Vec<TraceToken>,
    run: Option<Run>,
    runs: u64,
}

/// A token, valid for one request.
#[derive(Debug)]
struct TraceToken {
    token: String,
    since: Instant,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Unused,
    UnderWay,
    Over(Box<TraceReport>),
}

/// A sampling run over the requests of a route.
#[derive(Debug)]
struct Run {
    id: u64,
    /// A route's name or pattern; `None`: all routes.
    route: Option<String>,
    until: Instant,
    seen: u64,
    left_out: u64,
    spans: usize,
    samples: Vec<TraceReport>,
    chance: u64,
}

/// Why there is no trace to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceUnavailable {
    /// The token or run does not exist or has expired.
    Unknown,
    /// The request has not ended yet.
    NotYet,
}

/// The result of a sampling run.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Sampled {
    /// Requests that ended during the run.
    pub(crate) seen: u64,
    /// Samples dropped because there was no room for their spans.
    pub(crate) left_out: u64,
    pub(crate) samples: Vec<TraceReport>,
}

/// The request for which a trace is recorded: a token or a run.
#[derive(Clone, Debug)]
enum Purpose {
    TraceToken(String),
    Run(u64),
}

/// A trace requested over the control socket.
#[derive(Debug)]
struct TraceRequest {
    purpose: Purpose,
    told: Box<TraceReport>,
}

/// A request being traced. The trace is reported when this is dropped.
#[derive(Debug)]
pub(crate) struct Traced {
    traces: Arc<Traces>,
    asked: Option<TraceRequest>,
    for_collector: Option<Box<ForCollector>>,
    trace: Trace,
    status: u16,
    /// Size of the response body.
    bytes: u64,
    /// When the target had produced the response.
    answered: Option<Instant>,
    until: Option<Instant>,
}

impl Traces {
    /// Starts the exporter if a collector is configured.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time.
    pub(crate) fn new(config: Option<&config::Trace>) -> Self {
        Self {
            exporter: config.map(Exporter::start),
            ..Self::default()
        }
    }

    /// Numbers of exported spans, in the order of [`OUTCOMES`]; `None` without a collector.
    pub(crate) fn exported(&self) -> Option<[u64; OUTCOMES.len()]> {
        self.exporter.as_ref().map(Exporter::counts)
    }

    /// The requests that were last traced for a collector; `None` without one.
    pub(crate) fn traced_requests(&self) -> Option<Arc<TracedRequests>> {
        self.exporter.as_ref().map(Exporter::requests)
    }

    /// Flushes traces to the collector until the deadline. No request may be running any more.
    pub(crate) async fn end(&self, deadline: tokio::time::Instant) {
        if let Some(exporter) = &self.exporter {
            exporter.end(deadline).await;
        }
    }

    /// Issues a token for one request.
    pub(crate) fn admit(&self) -> std::io::Result<String> {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let token = format!("{:032x}", u128::from_ne_bytes(bytes));
        let mut state = self.state.lock();
        state.expire(&self.wanted);
        if state.tickets.len() == TICKETS_MAX {
            let oldest = state.tickets.remove(0);
            oldest.leave(&self.wanted);
        }
        state.tickets.push(TraceToken {
            token: token.clone(),
            since: Instant::now(),
            progress: Progress::Unused,
        });
        self.wanted.fetch_add(1, Ordering::Relaxed);
        Ok(token)
    }

    /// The trace of the request that used the token; can be read only once.
    pub(crate) fn take(&self, token: &str) -> Result<Box<TraceReport>, TraceUnavailable> {
        let mut state = self.state.lock();
        state.expire(&self.wanted);
        let at = state.tickets.iter().position(|ticket| ticket.token == token);
        let at = at.ok_or(TraceUnavailable::Unknown)?;
        let Progress::Over(_) = state.tickets[at].progress else {
            return Err(TraceUnavailable::NotYet);
        };
        match state.tickets.remove(at).progress {
            Progress::Over(told) => Ok(told),
            Progress::Unused | Progress::UnderWay => unreachable!("it was over"),
        }
    }

    /// Starts a run and returns its id; `None` if another one is active.
    pub(crate) fn sample(&self, route: Option<String>, time: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        state.end_run(&self.wanted);
        if state.run.as_ref().is_some_and(|run| Instant::now() < run.until) {
            return None;
        }
        state.runs += 1;
        let id = state.runs;
        let is_first = state.run.as_ref().is_none_or(Run::is_noticed);
        state.run = Some(Run {
            id,
            route,
            until: Instant::now() + time,
            seen: 0,
            left_out: 0,
            spans: 0,
            samples: Vec::new(),
            chance: 0x9e37_79b9_7f4a_7c15 ^ id,
        });
        if is_first {
            self.wanted.fetch_add(1, Ordering::Relaxed);
        }
        Some(id)
    }

    /// Ends a run and returns its result.
    pub(crate) fn sampled(&self, id: u64) -> Result<Sampled, TraceUnavailable> {
        let mut state = self.state.lock();
        let run = state
            .run
            .take_if(|run| run.id == id)
            .ok_or(TraceUnavailable::Unknown)?;
        if !run.is_noticed() {
            self.wanted.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(Sampled {
            seen: run.seen,
            left_out: run.left_out,
            samples: run.samples,
        })
    }

    /// Starts tracing a request if a token, the run or the collector wants it.
    pub(crate) fn begin(self: &Arc<Self>, request: &Request<'_>, route: &Route) -> Option<Traced> {
        let is_wanted = self.wanted.load(Ordering::Relaxed) > 0;
        if !is_wanted && self.exporter.is_none() {
            return None;
        }
        let name = route.counts.name();
        let purpose = is_wanted.then(|| self.purpose(request, name)).flatten();
        let asked = purpose.map(|purpose| TraceRequest {
            purpose,
            told: Box::new(TraceReport::of(request, name)),
        });
        let exporter = self.exporter.as_ref();
        let for_collector = exporter.and_then(|exporter| exporter.sample(request));
        if asked.is_none() && for_collector.is_none() {
            return None;
        }
        let traceparent = for_collector.as_ref().map(|sampled| sampled.traceparent());
        let trace = Trace::new(request.arrived, traceparent);
        trace.record(Span::new(
            Kind::Front,
            "head read, route found",
            request.arrived,
            Instant::now(),
        ));
        Some(Traced {
            traces: self.clone(),
            asked,
            for_collector,
            trace,
            status: 0,
            bytes: 0,
            answered: None,
            until: None,
        })
    }

    fn purpose(&self, request: &Request<'_>, name: &str) -> Option<Purpose> {
        let token = request.head.field(HEADER);
        let mut state = self.state.lock();
        state.expire(&self.wanted);
        state.end_run(&self.wanted);
        let unused = state.tickets.iter_mut().find(|ticket| {
            matches!(ticket.progress, Progress::Unused) && token == Some(ticket.token.as_bytes())
        });
        if let Some(ticket) = unused {
            ticket.progress = Progress::UnderWay;
            self.wanted.fetch_sub(1, Ordering::Relaxed);
            return Some(Purpose::TraceToken(ticket.token.clone()));
        }
        let run = state.run.as_ref().filter(|run| !run.is_noticed())?;
        let is_meant = run
            .route
            .as_deref()
            .is_none_or(|wanted| wanted == name || wanted == request.pattern);
        is_meant.then_some(Purpose::Run(run.id))
    }

    fn keep(&self, purpose: &Purpose, told: Box<TraceReport>) {
        let mut state = self.state.lock();
        match purpose {
            Purpose::TraceToken(token) => {
                let ticket = state.tickets.iter_mut().find(|ticket| ticket.token == *token);
                if let Some(ticket) = ticket {
                    ticket.progress = Progress::Over(told);
                }
            }
            Purpose::Run(id) => {
                if let Some(run) = state.run.as_mut().filter(|run| run.id == *id) {
                    run.keep(*told);
                }
            }
        }
    }
}

impl State {
    /// Drops expired tokens.
    fn expire(&mut self, wanted: &AtomicUsize) {
        while let Some(first) = self.tickets.first()
            && first.since.elapsed() > TICKET_AGE_MAX
        {
            self.tickets.remove(0).leave(wanted);
        }
    }

    /// Stops a run whose time is over from requesting traces.
    fn end_run(&mut self, wanted: &AtomicUsize) {
        if let Some(run) = &mut self.run
            && !run.is_noticed()
            && Instant::now() >= run.until
        {
            run.chance = 0;
            wanted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl TraceToken {
    fn leave(&self, wanted: &AtomicUsize) {
        if matches!(self.progress, Progress::Unused) {
            wanted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Run {
    /// Whether the end of the run has been recorded.
    fn is_noticed(&self) -> bool {
        self.chance == 0
    }

    /// Reservoir sampling (Vitter's algorithm R): every request has the same chance to be kept.
    fn keep(&mut self, told: TraceReport) {
        self.seen += 1;
        let spans = told.spans.len();
        if self.samples.len() < SAMPLES_MAX {
            if self.spans + spans > SAMPLED_SPANS_MAX {
                self.left_out += 1;
                return;
            }
            self.spans += spans;
            self.samples.push(told);
            return;
        }
        let at = (self.draw() % self.seen) as usize;
        let Some(place) = self.samples.get_mut(at) else {
            return;
        };
        if self.spans - place.spans.len() + spans > SAMPLED_SPANS_MAX {
            self.left_out += 1;
            return;
        }
        self.spans = self.spans - place.spans.len() + spans;
        *place = told;
    }

    /// Marsaglia's xorshift: random enough for sampling, and never 0.
    fn draw(&mut self) -> u64 {
        if self.chance == 0 {
            // The run is over and its generator cleared; a request that ends late replaces the first sample.
            return self.seen;
        }
        self.chance = xorshift(self.chance);
        self.chance
    }
}

/// The next xorshift number; the argument must not be 0.
fn xorshift(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^ number << 17
}

impl Traced {
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Records when the target produced the response, and what the client receives.
    pub(crate) fn answered(&mut self, at: Option<Instant>, status: u16, bytes: u64) {
        self.answered = at;
        (self.status, self.bytes) = (status, bytes);
    }

    /// Records when the response was written.
    pub(crate) fn written(&mut self, at: Instant) {
        self.until = Some(at);
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let until = self.until.unwrap_or_else(Instant::now);
        if let Some(answered) = self.answered {
            self.trace
                .record(Span::new(Kind::Write, "answer", answered, until));
        }
        let begun = self.trace.begun();
        let record = self.trace.end();
        if let Some(TraceRequest { purpose, mut told }) = self.asked.take() {
            (told.status, told.bytes) = (self.status, self.bytes);
            told.fill(begun, until, &record);
            self.traces.keep(&purpose, told);
        }
        if let Some(request) = self.for_collector.take()
            && let Some(exporter) = &self.traces.exporter
        {
            exporter.over(request, (begun, until), (self.status, self.bytes), record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(spans: usize) -> TraceReport {
        let mut told = TraceReport::default();
        told.spans.resize_with(spans, Default::default);
        told
    }

    fn run(traces: &Traces) -> u64 {
        traces.sample(None, RUN_MAX).expect("none goes on")
    }

    #[test]
    fn a_run_keeps_a_bounded_number_of_requests_and_spans_and_counts_all() {
        let traces = Traces::default();
        let id = run(&traces);
        for _ in 0..3 * SAMPLES_MAX {
            traces.keep(&Purpose::Run(id), Box::new(told(20)));
        }
        let sampled = traces.sampled(id).unwrap();
        assert_eq!((sampled.seen, sampled.left_out), (3000, 0));
        assert_eq!(sampled.samples.len(), SAMPLES_MAX);
        let id = run(&traces);
        for _ in 0..60 {
            traces.keep(&Purpose::Run(id), Box::new(told(2000)));
        }
        let sampled = traces.sampled(id).unwrap();
        assert_eq!((sampled.samples.len(), sampled.left_out), (50, 10));
    }

    #[test]
    fn every_request_of_a_run_has_a_chance_to_be_kept() {
        let traces = Traces::default();
        let id = run(&traces);
        for number in 0..10_000 {
            let mut told = TraceReport::default();
            told.bytes = number;
            traces.keep(&Purpose::Run(id), Box::new(told));
        }
        let kept = traces.sampled(id).unwrap().samples;
        let late = kept.iter().filter(|told| told.bytes >= 5000).count();
        assert!(
            (350..650).contains(&late),
            "{late} of 1000 are of the second half"
        );
    }

    #[test]
    fn nothing_is_wanted_when_tokens_and_runs_are_over() {
        let traces = Traces::default();
        for _ in 0..2 * TICKETS_MAX {
            traces.admit().unwrap();
        }
        assert_eq!(traces.wanted.load(Ordering::Relaxed), TICKETS_MAX);
        let id = run(&traces);
        assert_eq!(traces.sample(None, RUN_MAX), None, "one goes on");
        assert_eq!(traces.sampled(id + 1).unwrap_err(), TraceUnavailable::Unknown);
        traces.sampled(id).unwrap();
        let id = traces.sample(None, Duration::ZERO).unwrap();
        traces.state.lock().end_run(&traces.wanted);
        assert_eq!(traces.wanted.load(Ordering::Relaxed), TICKETS_MAX);
        assert!(traces.sample(None, Duration::ZERO).is_some(), "{id} is over");
        let mut state = traces.state.lock();
        for ticket in &mut state.tickets {
            ticket.since -= 2 * TICKET_AGE_MAX;
        }
        state.expire(&traces.wanted);
        state.end_run(&traces.wanted);
        assert_eq!(traces.wanted.load(Ordering::Relaxed), 0);
    }
}
