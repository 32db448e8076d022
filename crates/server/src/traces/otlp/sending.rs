//! The task that sends queued spans to the collector, one batch at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_script::{Post, PostError, Posted};
use serde_json::Value;
use tokio::time::{sleep, timeout, timeout_at};

use super::{Exporter, Served, SpanOutcome, body};
use crate::config;

/// The path of the endpoint, relative to the collector's address.
const PATH: &str = "/v1/traces";
/// Limit from the start of a request to the end of its response.
const POST_MAX: Duration = Duration::from_secs(10);
/// Most attempts to send a batch.
const POSTS_MAX: u32 = 5;
/// Delay before the second attempt; it doubles with each further one.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// Longest delay, whatever the collector asks for.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Why the collector did not accept a batch.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    reason: String,
    /// Delay before the next attempt; `None` if a retry is pointless.
    again_after: Option<Duration>,
}

/// Sends batches until the exporter ends and the queue is empty.
pub(super) async fn send_all(exporter: Arc<Exporter>, config: config::Trace) {
    let headers = config.headers.iter();
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.clone(), value.reveal().to_owned()))
        .collect();
    headers.push(("content-type".to_owned(), "application/json".to_owned()));
    let post = Post::new(&config.otlp, PATH, &headers);
    let mut ending = exporter.ending.subscribe();
    let mut is_failing = false;
    loop {
        let batch = match exporter.take(Instant::now()) {
            Ok(batch) => batch,
            Err(None) if *ending.borrow() => return,
            Err(due) => {
                let more = async {
                    tokio::select! {
                        () = exporter.filled.notified() => {}
                        // The sender is a field of the exporter, so it cannot be closed here.
                        _ = ending.wait_for(|ending| *ending) => {}
                    }
                };
                match due {
                    None => more.await,
                    Some(due) => drop(timeout_at(due.into(), more).await),
                }
                continue;
            }
        };
        let spans: usize = batch.iter().map(Served::spans).sum();
        let body = Bytes::from(body::of(&batch, &config.service));
        drop(batch);
        let refused = match send(&post, &body, &exporter).await {
            Ok(answer) => count_taken(&exporter, spans, &answer),
            Err(reason) => {
                exporter.count(SpanOutcome::Failed, spans);
                Some(reason)
            }
        };
        match refused {
            Some(reason) if !is_failing => {
                is_failing = true;
                tracing::warn!(target: "forebay::trace", collector = %config.otlp, reason, "the collector does not take spans; the log says when it does again");
            }
            None if is_failing => {
                is_failing = false;
                tracing::info!(target: "forebay::trace", collector = %config.otlp, "the collector takes spans again");
            }
            _ => {}
        }
    }
}

/// Counts a successfully delivered batch; returns the collector's message about spans it rejected.
fn count_taken(exporter: &Exporter, spans: usize, answer: &[u8]) -> Option<String> {
    let (rejected, reason) = rejected(answer);
    let rejected = rejected.min(spans);
    exporter.count(SpanOutcome::Sent, spans - rejected);
    exporter.count(SpanOutcome::Failed, rejected);
    (rejected > 0).then(|| format!("it has refused {rejected} of {spans} spans: {reason}"))
}

/// The number of spans that a response reports as rejected, and the reason.
fn rejected(answer: &[u8]) -> (usize, String) {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let rejected = &partial["rejectedSpans"];
    let rejected = match rejected.as_str() {
        Some(text) => text.parse().ok(),
        None => rejected.as_u64(),
    };
    let reason = partial["errorMessage"].as_str().unwrap_or("without a reason");
    let rejected = usize::try_from(rejected.unwrap_or(0)).unwrap_or(usize::MAX);
    (rejected, reason.chars().take(200).collect())
}

/// Sends a batch, with retries. Returns the collector's response, or why it was not accepted.
async fn send(post: &Result<Post, PostError>, body: &Bytes, exporter: &Exporter) -> Result<Bytes, String> {
    let post = post.as_ref().map_err(PostError::to_string)?;
    let mut ending = exporter.ending.subscribe();
    let mut posts = 0;
    loop {
        posts += 1;
        // A batch under way when the server begins to stop gets one more attempt.
        let is_last = *ending.borrow() || posts == POSTS_MAX;
        let answer = timeout(POST_MAX, post.send(body.clone())).await;
        let refused = match answer {
            Ok(Ok(answer)) => match judged(answer, posts) {
                Ok(body) => return Ok(body),
                Err(refused) => refused,
            },
            Ok(Err(error)) => Refused {
                reason: error.to_string(),
                again_after: Some(wait(posts)),
            },
            Err(_) => Refused {
                reason: format!("it has not answered after {POST_MAX:?}"),
                again_after: Some(wait(posts)),
            },
        };
        let Some(again_after) = refused.again_after.filter(|_| !is_last) else {
            return Err(refused.reason);
        };
        tokio::select! {
            () = sleep(again_after) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    }
}

/// The delay before the next attempt, after this many.
fn wait(posts: u32) -> Duration {
    WAIT_MIN * (1 << (posts - 1))
}

fn judged(answer: Posted, posts: u32) -> Result<Bytes, Refused> {
    let status = answer.status;
    let may_later = matches!(status, 429 | 502 | 503 | 504);
    if (200..300).contains(&status) {
        return Ok(answer.body);
    }
    Err(Refused {
        reason: format!("it has answered with {status}"),
        again_after: may_later.then(|| answer.retry_after.unwrap_or(wait(posts)).min(WAIT_MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<u64>) -> Posted {
        Posted {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn what_a_collector_may_take_later_is_posted_again_after_a_bounded_wait() {
        let again = |status, retry_after, posts| {
            let judged = judged(answer(status, retry_after), posts);
            judged.map_err(|refused| refused.again_after).err()
        };
        assert_eq!(again(200, None, 1), None);
        for status in [400, 401, 404, 413, 500] {
            assert_eq!(again(status, Some(1), 1), Some(None), "{status}");
        }
        for status in [429, 502, 503, 504] {
            assert_eq!(again(status, None, 1), Some(Some(WAIT_MIN)));
            assert_eq!(again(status, None, 4), Some(Some(8 * WAIT_MIN)));
            assert_eq!(again(status, Some(7), 1), Some(Some(Duration::from_secs(7))));
            assert_eq!(again(status, Some(u64::MAX), 1), Some(Some(WAIT_MAX)));
        }
    }

    #[test]
    fn what_a_collector_leaves_out_is_read_of_its_answer() {
        for (answer, expected) in [
            ("", 0),
            ("{}", 0),
            (r#"{"partialSuccess":{}}"#, 0),
            (
                r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"full"}}"#,
                3,
            ),
            (r#"{"partialSuccess":{"rejectedSpans":4}}"#, 4),
            (r#"{"partialSuccess":{"rejectedSpans":-4}}"#, 0),
        ] {
            assert_eq!(rejected(answer.as_bytes()).0, expected, "{answer}");
        }
    }
}
