//! Which traces the last requests have begun or joined, for log lines that name a request: a worker's line often arrives after the response.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::context::{SpanId, TraceId};

/// Requests remembered; a new one replaces the oldest.
const REQUESTS_MAX: usize = 8192;

/// The ids of the requests that were last traced for a collector.
#[derive(Debug, Default)]
pub(crate) struct TracedRequests(Mutex<Traced>);

#[derive(Debug, Default)]
struct Traced {
    ids: HashMap<String, (TraceId, SpanId)>,
    /// The same requests, the oldest first. An id that a client has used twice is in it twice.
    order: VecDeque<String>,
}

impl TracedRequests {
    pub(super) fn put(&self, request_id: &str, trace: TraceId, span: SpanId) {
        let mut traced = self.0.lock();
        if traced.order.len() == REQUESTS_MAX
            && let Some(oldest) = traced.order.pop_front()
        {
            traced.ids.remove(&oldest);
        }
        traced.order.push_back(request_id.to_owned());
        traced.ids.insert(request_id.to_owned(), (trace, span));
    }

    /// The ids of a request's trace and of its span, as hexadecimal digits.
    pub(crate) fn find(&self, request_id: &str) -> Option<(String, String)> {
        let (trace, span) = *self.0.lock().ids.get(request_id)?;
        Some((trace.to_string(), span.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_requests_are_found_and_the_others_forgotten() {
        let traced = TracedRequests::default();
        for number in 0..=REQUESTS_MAX as u64 {
            traced.put(&number.to_string(), TraceId(number.into()), SpanId(number));
        }
        assert_eq!(traced.find("0"), None);
        let found = (format!("{:032x}", 1), format!("{:016x}", 1));
        assert_eq!(traced.find("1"), Some(found));
        let traced = traced.0.into_inner();
        assert_eq!(
            (traced.ids.len(), traced.order.len()),
            (REQUESTS_MAX, REQUESTS_MAX)
        );
    }
}
