//! TQL statements over HTTP. A read-only statement runs on the I/O thread, from one snapshot, in parts small enough to let other requests
//! run in between, and its results are sent as they are found. All others are handed to the writer.

use std::{sync::Arc, task::Context, time::Instant};

use forebay_records::{RecordsError, tql::Statement};

use super::{
    End, RecordsTarget, Request,
    body_stream::StoreBody,
    media_type::is_body,
    post_only::{POSTED, unless_posted},
    snapshot_read::off_thread,
    store::{body, json, write::outcome},
};
use crate::{
    failure::Refusal,
    front::{Client, Head},
    reply::{Body, Reply},
    store::{
        Collected, Done, OPERATION_BYTES, Pieces, Selection, StatementOperation, Work, collect, collect_here,
    },
};

/// Bytes collected before they are sent.
const PART_BYTES: usize = 32 * 1024;

/// Answers TQL statements.
#[derive(Clone, Debug)]
pub(crate) struct TqlTarget {
    records: RecordsTarget,
}

impl TqlTarget {
    pub(crate) fn new(records: RecordsTarget) -> Self {
        Self { records }
    }

    /// Runs the statement in a request's body.
    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        client.before_waiting().await?;
        let answer = self.answered(request, client).await;
        answer.map_err(|end| match end {
            End::Refused(refusal) => refusal.in_statement().into(),
            End::Gone => End::Gone,
        })
    }

    async fn answered(&self, request: &Request<'_>, client: &mut dyn Client) -> Result<Reply<'static>, End> {
        let head = request.head;
        if let Some(reply) = unless_posted(head, POSTED)? {
            return Ok(reply);
        }
        let text = body::read(request, client).await?;
        let settings = &self.records.settings;
        // A body declared as JSON cannot be the text form of a statement.
        let statement = if is_body(head, "application/json") {
            Statement::read_json(&text, settings)
        } else {
            Statement::read(&text, settings)
        };
        let statement = statement.map_err(RecordsError::from).map_err(Refusal::from)?;
        if statement.only_reads() {
            self.select(request, statement, client).await
        } else {
            self.change(request, statement, text.len(), client).await
        }
    }

    async fn select(
        &self,
        request: &Request<'_>,
        statement: Statement,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let records = &self.records;
        let deadline = request.deadline;
        let select = |records: &RecordsTarget, head: &Head, statement| {
            let visitor = records.visitor(head);
            Selection::new(&records.open, statement, &records.settings, &visitor, PART_BYTES)
        };
        let (mut selection, mut found, collected) = if records.open.is_remote() {
            let target = records.clone();
            let begin = move |head: &Head| {
                let mut selection = select(&target, head, statement)?;
                let mut found = Vec::new();
                let collected = collect_here(&mut selection, &mut found, PART_BYTES, deadline)?;
                Ok((selection, found, collected))
            };
            Box::pin(off_thread(&records.open, request, client, begin)).await?
        } else {
            let mut selection = select(records, request.head, statement)?;
            let mut found = Vec::new();
            let is_gone = |cx: &mut Context<'_>| client.poll_gone(cx).is_ready();
            let collected = collect(&mut selection, &mut found, PART_BYTES, deadline, is_gone).await?;
            (selection, found, collected)
        };
        match collected {
            Collected::Whole => return Ok(json(200, found)),
            Collected::Late if selection.cut("deadline", &mut found) => return Ok(json(200, found)),
            Collected::Late => return Err(Refusal::from(RecordsError::DeadlinePassed).into()),
            Collected::Gone => return Err(End::Gone),
            Collected::Full => {}
        }
        let mut reply = json(200, Vec::new());
        let results = Results {
            selection,
            found,
            deadline,
        };
        reply.body = Body::Stream(Box::new(StoreBody::new(results, records.open.is_remote())));
        Ok(reply)
    }

    async fn change(
        &self,
        request: &Request<'_>,
        statement: Statement,
        bytes: usize,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let operation = StatementOperation {
            statement,
            settings: Arc::clone(&self.records.settings),
            grants: self.records.visitor(request.head).grants(),
            deadline: request.deadline,
        };
        let work = vec![Work::Statement(Box::new(operation))];
        let pending = self.records.open.writer().submit(work, bytes + OPERATION_BYTES)?;
        let done = outcome(pending, request.deadline, client).await?.pop();
        let Some(Done::Answered(answer)) = done else {
            unreachable!("a statement is answered");
        };
        Ok(json(200, answer))
    }
}

/// The results of a statement as they are found, all from one snapshot.
#[derive(Debug)]
struct Results {
    selection: Selection,
    /// Results found before the response began.
    found: Vec<u8>,
    deadline: Instant,
}

impl Pieces for Results {
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        if !self.found.is_empty() {
            out.append(&mut self.found);
            return Ok(true);
        }
        if Instant::now() >= self.deadline && self.selection.cut("deadline", out) {
            return Ok(false);
        }
        self.selection.next(out)
    }
}
