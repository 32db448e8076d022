//! A connection's timer. Each request moves the connection's limit, mostly later, so the runtime's timer is touched only when a limit comes
//! before the one that is set, or when that one has passed.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use tokio::time::Sleep;

/// A timer that only one task polls.
#[derive(Debug)]
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// Whether the runtime will wake the task when `sleep` ends.
    registered: bool,
}

impl Timer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sleep: Box::pin(tokio::time::sleep_until(now.into())),
            registered: false,
        }
    }

    /// Ready once `limit` has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        let limit = limit.into();
        if self.sleep.deadline() > limit {
            self.set(limit);
        }
        loop {
            if self.registered && !self.sleep.is_elapsed() {
                return Poll::Pending;
            }
            self.registered = self.sleep.as_mut().poll(cx).is_pending();
            if self.registered {
                return Poll::Pending;
            }
            if self.sleep.deadline() == limit {
                return Poll::Ready(());
            }
            self.set(limit);
        }
    }

    fn set(&mut self, limit: tokio::time::Instant) {
        self.sleep.as_mut().reset(limit);
        self.registered = false;
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test]
    async fn a_limit_that_moves_in_either_direction_is_the_one_that_counts() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut timer = Timer::new(start);
        for limits in [[20, 60, 40], [200, 80, 90], [100, 100, 100]] {
            for limit in limits {
                poll_fn(|cx| {
                    assert!(timer.poll(cx, ms(limit)).is_pending() || Instant::now() >= ms(limit));
                    Poll::Ready(())
                })
                .await;
            }
            let last = limits[2];
            poll_fn(|cx| timer.poll(cx, ms(last))).await;
            assert!(Instant::now() >= ms(last), "not before its limit");
            assert!(
                Instant::now() < ms(last) + Duration::from_secs(5),
                "not long after it"
            );
        }
    }
}
