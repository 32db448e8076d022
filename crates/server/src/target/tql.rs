//! Statements of TQL over HTTP. What only reads is done on the I/O thread from one snapshot, in parts small enough for others to have their
//! turn between them, and sent as it is found; what changes something is handed to the writer.

use std::{
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use forebay_records::{
    RecordsError,
    tql::{Budget, Execution, Progress, Statement},
};
use forebay_store::Snapshot;

use super::{
    End, RecordsTarget, Request,
    store::{
        body, json,
        write::{OPERATION_BYTES, outcome},
    },
};
use crate::{
    failure::Refusal,
    front::{Head, RequestBody, Socket, Stream},
    reply::{Body, Pieces, Reply},
    store::{Done, StatementOperation, StreamPlace, Work, lifetime},
};

/// What is done of a statement before others have their turn.
const PART_RECORDS: u64 = 4096;
/// Bytes that are put together before they are sent.
const PART_BYTES: usize = 32 * 1024;
/// Longest time of a part; a record that has been begun is looked at to its end.
const PART_TIME: Duration = Duration::from_millis(1);
const METHODS: &str = "OPTIONS, POST";

/// Answers statements.
#[derive(Clone, Debug)]
pub(crate) struct TqlTarget {
    records: RecordsTarget,
}

impl TqlTarget {
    pub(crate) fn new(records: RecordsTarget) -> Self {
        Self { records }
    }

    /// Answers a request.
    pub(crate) async fn answer<S: Stream>(
        &self,
        request: &Request<'_>,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        let answer = self.answered(request, body, socket).await;
        answer.map_err(|end| match end {
            End::Refused(refusal) => refusal.in_statement().into(),
            End::Gone => End::Gone,
        })
    }

    async fn answered<S: Stream>(
        &self,
        request: &Request<'_>,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        let head = request.head;
        match head.method() {
            "POST" => {}
            "OPTIONS" => {
                let mut reply = Reply::new(204);
                reply.headers.to_mut().push_known("allow", METHODS);
                return Ok(reply);
            }
            _ => {
                let allow = METHODS.into();
                return Err(Refusal::MethodNotAllowed { allow }.into());
            }
        }
        let text = body::read(request, body, socket).await?;
        let settings = &self.records.settings;
        let statement = if is_json(head) {
            Statement::read_json(&text, settings)
        } else {
            Statement::read(&text, settings)
        };
        let statement = statement.map_err(RecordsError::from).map_err(Refusal::from)?;
        if statement.only_reads() {
            self.select(request, statement, socket).await
        } else {
            self.change(request, statement, text.len(), socket).await
        }
    }

    async fn select<S: Stream>(
        &self,
        request: &Request<'_>,
        statement: Statement,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        let records = &self.records;
        let snapshot = records.open.store().snapshot()?;
        let visitor = records.visitor(request.head);
        let execution = Execution::new(
            &Arc::new(statement),
            &records.settings,
            &snapshot,
            &visitor,
            lifetime::now_ms(),
        );
        let mut execution = execution.map_err(Refusal::from)?;
        let mut found = Vec::new();
        let mut place = None;
        loop {
            let progress = execution
                .step(&snapshot, part(), &mut found)
                .map_err(Refusal::from)?;
            if progress == Progress::Done {
                return Ok(json(200, found));
            }
            if place.is_none() {
                place = Some(records.open.stream()?);
            }
            if found.len() >= PART_BYTES {
                break;
            }
            if Instant::now() >= request.deadline {
                if !execution.cut("deadline", &mut found) {
                    return Err(Refusal::from(RecordsError::DeadlinePassed).into());
                }
                return Ok(json(200, found));
            }
            tokio::task::yield_now().await;
            let is_gone = poll_fn(|cx| Poll::Ready(socket.poll_gone(cx).is_ready())).await;
            if is_gone {
                return Err(End::Gone);
            }
        }
        let mut reply = json(200, Vec::new());
        reply.body = Body::Lines(Box::new(Results {
            snapshot,
            execution,
            found,
            deadline: request.deadline,
            _place: place,
        }));
        Ok(reply)
    }

    async fn change<S: Stream>(
        &self,
        request: &Request<'_>,
        statement: Statement,
        bytes: usize,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        let operation = StatementOperation {
            statement,
            settings: Arc::clone(&self.records.settings),
            grants: self.records.visitor(request.head).grants(),
            deadline: request.deadline,
        };
        let work = vec![Work::Statement(Box::new(operation))];
        let pending = self.records.open.writer().submit(work, bytes + OPERATION_BYTES)?;
        let done = outcome(pending, request.deadline, socket).await?.pop();
        let Some(Done::Answered(answer)) = done else {
            unreachable!("a statement is answered");
        };
        Ok(json(200, answer))
    }
}

fn part() -> Budget {
    Budget {
        records: PART_RECORDS,
        bytes: PART_BYTES,
        until: Some(Instant::now() + PART_TIME),
    }
}

/// Whether the body says that it is JSON, and so cannot be friendly text.
fn is_json(head: &Head) -> bool {
    let kind = head.field("content-type").unwrap_or_default();
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// The results of a statement as they are found. All are of one state of the store.
#[derive(Debug)]
struct Results {
    snapshot: Snapshot,
    execution: Execution,
    /// What was found before the answer began.
    found: Vec<u8>,
    deadline: Instant,
    _place: Option<StreamPlace>,
}

impl Pieces for Results {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        if !self.found.is_empty() {
            out.append(&mut self.found);
            return Ok(true);
        }
        if Instant::now() >= self.deadline && self.execution.cut("deadline", out) {
            return Ok(false);
        }
        let progress = self.execution.step(&self.snapshot, part(), out)?;
        Ok(progress == Progress::More)
    }
}
