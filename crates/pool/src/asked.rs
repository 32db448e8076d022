//! Jobs from threads without a mailbox: a server thread submits them and passes on the complete response.

use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{Answer, Delivery, Failure, Job, LocalMailbox, Pool, mailbox::Work};

/// A complete response.
#[derive(Debug)]
pub struct Whole {
    /// The head, with the first bytes of the body.
    pub answer: Answer,
    /// The whole body.
    pub body: Bytes,
    /// The last commit to the store that the worker had made when the response was complete; 0 if there is none.
    pub commit: u64,
}

/// The reason why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The job failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The body exceeds the limit of the caller.
    #[error("the body of the answer is longer than {bytes_max} bytes")]
    Long {
        /// The limit that was exceeded.
        bytes_max: usize,
    },
}

impl Pool {
    /// Runs a job from any thread. `rest` is the part of the request body that the payload lacks. Dropping the future cancels the job.
    ///
    /// # Errors
    /// The job failed, or the body of its response has more than `bytes_max` bytes.
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
        // A thread that has ended drops the work.
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
                // The caller has no use for trailers.
                Delivery::Trailers(_) => continue,
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
                Delivery::Message(_) | Delivery::Close { .. } | Delivery::Overflow => {
                    unreachable!("these jobs allow no upgrade")
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
                    // The body usually arrives in one piece.
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
