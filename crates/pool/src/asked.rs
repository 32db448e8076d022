//! Jobs of those who have no mailbox: a server thread submits them, and hands on the answer when it is whole.

use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{Answer, Delivery, Failure, Job, LocalMailbox, Pool, mailbox::Work};

/// A whole answer.
#[derive(Debug)]
pub struct Whole {
    /// Its head, with the first bytes of its body.
    pub answer: Answer,
    /// All of its body.
    pub body: Bytes,
    /// The last commit to the store that the worker had made when the answer was whole; 0 where there is none.
    pub commit: u64,
}

/// Why there is no whole answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The job has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// Its body is longer than it may be.
    #[error("the body of the answer is longer than {bytes_max} bytes")]
    Long {
        /// How long it may be.
        bytes_max: usize,
    },
}

impl Pool {
    /// Has a job done, from whatever thread, with the part of its body that its payload has not. Dropping the future cancels it.
    ///
    /// # Errors
    /// The job has failed, or the body of its answer has more than `bytes_max` bytes.
    pub async fn ask(&self, job: Job, rest: Bytes, bytes_max: usize) -> Result<Whole, NoAnswer> {
        let (mut tell, told) = oneshot::channel();
        let pool = self.clone();
        let work = move |mailbox: Rc<LocalMailbox>| {
            drop(tokio::task::spawn_local(async move {
                tokio::select! {
                    whole = pool.whole(&mailbox, job, rest, bytes_max) => drop(tell.send(whole)),
                    () = tell.closed() => {}
                }
            }));
        };
        self.shared.mailboxes.hand(Work(Box::new(work)));
        // Threads that have ended take nothing.
        told.await.unwrap_or_else(|_| {
            Err(NoAnswer::Failed(Failure::Stopping {
                pool: self.name().to_owned(),
            }))
        })
    }

    async fn whole(
        &self,
        mailbox: &Rc<LocalMailbox>,
        job: Job,
        mut rest: Bytes,
        bytes_max: usize,
    ) -> Result<Whole, NoAnswer> {
        let mut pending = self.submit(mailbox, job)?;
        let mut head: Option<Answer> = None;
        let mut body = Vec::new();
        loop {
            let (bytes, end, commit) = match pending.next().await {
                Delivery::Window(bytes) => {
                    let piece = rest.split_to(rest.len().min(bytes as usize));
                    if !piece.is_empty() && !pending.send_body(&piece, rest.is_empty()) {
                        rest.clear();
                    }
                    continue;
                }
                Delivery::Failed(failure) => return Err(failure.into()),
                Delivery::Answer(answer) => {
                    let (bytes, end, commit) = (answer.body(), answer.ended(), answer.commit());
                    head = Some(answer);
                    (bytes, end, commit)
                }
                Delivery::Chunk { bytes, end, commit } => {
                    pending.grant(bytes.len() as u32);
                    (bytes, end, commit)
                }
            };
            if body.len() + bytes.len() > bytes_max {
                return Err(NoAnswer::Long { bytes_max });
            }
            match head {
                Some(answer) if end => {
                    // The usual answer comes as one.
                    let body = if body.is_empty() {
                        bytes
                    } else {
                        [&body, &*bytes].concat().into()
                    };
                    return Ok(Whole { answer, body, commit });
                }
                _ => body.extend_from_slice(&bytes),
            }
        }
    }
}
