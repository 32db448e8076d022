//! Posts to the collector, one at a time for each signal.

use std::time::Duration;

use bytes::Bytes;
use forebay_http_client::{Post, PostAddress, PostError, Posted};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::config;

/// Limit from the start of a request to the end of its response.
const POST_MAX: Duration = Duration::from_secs(10);
/// Most attempts to send a body.
const POSTS_MAX: u32 = 5;
/// Delay before the second attempt; it doubles with each further one.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// Longest delay, whatever the collector asks for.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Why the collector did not accept a body.
#[derive(Debug, PartialEq, Eq)]
struct Refused {
    reason: String,
    /// Delay before the next attempt; `None` if a retry is pointless.
    again_after: Option<Duration>,
}

/// Posts the bodies of one signal, and logs once that the collector does not take them and once that it does again.
#[derive(Debug)]
pub(super) struct Delivery {
    post: Result<Post, PostError>,
    collector: PostAddress,
    /// The name of the units in the log.
    units: &'static str,
    /// True once the server stops.
    ending: watch::Receiver<bool>,
    posts_max: u32,
    is_failing: bool,
}

impl Delivery {
    /// To this path below the collector's address.
    pub(super) fn new(
        config: &config::Trace,
        path: &str,
        units: &'static str,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let headers = config.headers.iter();
        let mut headers: Vec<_> = headers
            .map(|(name, value)| (name.clone(), value.reveal().to_owned()))
            .collect();
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        Self {
            post: Post::new(&config.otlp, path, &headers),
            collector: config.otlp.clone(),
            units,
            ending,
            posts_max: POSTS_MAX,
            is_failing: false,
        }
    }

    /// Without retries: for bodies that the next one makes obsolete.
    pub(super) fn once(self) -> Self {
        Self { posts_max: 1, ..self }
    }

    /// Posts a body. Returns how many of its units the collector has taken, and how many it has not. `member` of the response says how many
    /// it has rejected.
    pub(super) async fn deliver(&mut self, body: Vec<u8>, units: usize, member: &str) -> (usize, usize) {
        let (failed, refused) = match self.send(&Bytes::from(body)).await {
            Ok(answer) => {
                let (rejected, reason) = rejected(&answer, member);
                let rejected = rejected.min(units);
                let reason = format!("it has refused {rejected} of {units} {}: {reason}", self.units);
                (rejected, (rejected > 0).then_some(reason))
            }
            Err(reason) => (units, Some(reason)),
        };
        let (collector, what) = (&self.collector, self.units);
        match &refused {
            Some(reason) if !self.is_failing => {
                tracing::warn!(target: "forebay::trace", %collector, reason, "the collector does not take {what}; the log says when it does again");
            }
            None if self.is_failing => {
                tracing::info!(target: "forebay::trace", %collector, "the collector takes {what} again");
            }
            _ => {}
        }
        self.is_failing = refused.is_some();
        (units - failed, failed)
    }

    /// Sends a body, with retries. Returns the collector's response, or why it was not accepted.
    async fn send(&mut self, body: &Bytes) -> Result<Bytes, String> {
        let post = self.post.as_ref().map_err(PostError::to_string)?;
        let mut posts = 0;
        loop {
            posts += 1;
            // A body under way when the server begins to stop gets one more attempt.
            let is_last = *self.ending.borrow() || posts == self.posts_max;
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
                _ = self.ending.wait_for(|ending| *ending) => {}
            }
        }
    }
}

/// The number of units that this member of a response reports as rejected, and the reason.
fn rejected(answer: &[u8], member: &str) -> (usize, String) {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let partial = &answer["partialSuccess"];
    let rejected = &partial[member];
    let rejected = match rejected.as_str() {
        Some(text) => text.parse().ok(),
        None => rejected.as_u64(),
    };
    let reason = partial["errorMessage"].as_str().unwrap_or("without a reason");
    let rejected = usize::try_from(rejected.unwrap_or(0)).unwrap_or(usize::MAX);
    (rejected, reason.chars().take(200).collect())
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
            assert_eq!(
                rejected(answer.as_bytes(), "rejectedSpans").0,
                expected,
                "{answer}"
            );
        }
    }
}
