//! What a run tells of its connections, and of the beginnings of its answers.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{
    Report, steps,
    words::{self, count},
};

/// The part of the answers that must have come in pieces for their first bytes to be told.
const PIECES_MIN: f64 = 0.01;
/// The part by which first bytes must come before whole answers.
const APART_MIN: f64 = 0.05;
/// From so many openings on their percentiles say more than the median and the longest.
const OPENINGS_MIN: u64 = 10;

impl Report {
    /// First bytes of answers, where they came noticeably before the last ones: by a twentieth in the middle or among the slow ones.
    pub(crate) fn separate_first_bytes(&self) -> Option<&Histogram<u64>> {
        let differ = |percent| {
            let whole = steps::percentile(&self.latency_ns, percent) as f64;
            let first = steps::percentile(&self.first_byte_ns, percent) as f64;
            whole - first > whole * APART_MIN
        };
        let some = self.in_pieces > 0 && self.in_pieces as f64 >= PIECES_MIN * self.answers as f64;
        (some && (differ(50.0) || differ(99.0))).then_some(&self.first_byte_ns)
    }

    /// Latency in the ways in which it is told, each with its name: of nothing but whole answers there is one, without a name.
    pub(crate) fn latencies(&self) -> Vec<(&'static str, &Histogram<u64>)> {
        let first = self.separate_first_bytes().map(|first| ("first byte", first));
        let all = match (&self.service_ns, &first) {
            (Some(_), _) => "from due",
            (None, Some(_)) => "whole",
            (None, None) => "",
        };
        let sent = self.service_ns.as_ref().map(|service| ("from sent", service));
        std::iter::once((all, &self.latency_ns))
            .chain(sent)
            .chain(first)
            .collect()
    }

    /// How long openings took, and the part of TLS, where there is more to tell than a median: connections were made anew, or TLS was
    /// agreed on.
    pub(crate) fn detailed_openings(&self) -> Vec<(&'static str, &Histogram<u64>)> {
        let all = &self.connecting_ns;
        let again = self.connects >= 2 * self.run.connections as u64;
        if all.len() < OPENINGS_MIN || (!again && self.handshakes_ns.is_empty()) {
            return Vec::new();
        }
        let tls = (!self.handshakes_ns.is_empty()).then_some(("TLS handshake", &self.handshakes_ns));
        std::iter::once(("opening", all)).chain(tls).collect()
    }

    /// Requests for each connection that there was. `None` without connections.
    pub fn requests_per_connection(&self) -> Option<f64> {
        let connections = self.held + self.connects;
        (connections > 0).then(|| self.sent as f64 / connections as f64)
    }
}

/// How many connections there were, and what became of them: `64 held from before, 3 opened, 1 failed; 37,031 requests on each`.
pub(super) fn facts(report: &Report) -> String {
    let mut facts = Vec::new();
    if report.held > 0 {
        facts.push(format!("{} held from before", count(report.held)));
    }
    facts.push(format!("{} opened", count(report.connects)));
    if report.connects_failed > 0 {
        facts.push(format!("{} failed", count(report.connects_failed)));
    }
    let mut text = facts.join(", ");
    if let Some(requests) = report.requests_per_connection() {
        let _ = write!(text, "; {} requests on each", words::rate(requests));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_are_told_only_where_they_tell_something() {
        let mut report = Report::example();
        report.in_pieces = report.answers;
        assert!(
            report.separate_first_bytes().is_none(),
            "pieces that come together"
        );
        report.first_byte_ns.reset();
        report.first_byte_ns.saturating_record_n(100_000, report.answers);
        assert!(report.separate_first_bytes().is_some());
        report.in_pieces = 1_000;
        assert!(report.separate_first_bytes().is_none(), "a few of very many");
    }

    #[test]
    fn openings_are_told_in_full_when_there_were_many() {
        let mut report = Report::example();
        assert!(report.detailed_openings().is_empty(), "few were opened twice");
        report.handshakes_ns = report.connecting_ns.clone();
        assert_eq!(report.detailed_openings().len(), 2);
        report.handshakes_ns.reset();
        report.connects = 128;
        assert_eq!(report.detailed_openings().len(), 1);
    }

    #[test]
    fn connections_from_before_are_not_forgotten() {
        let mut report = Report::example();
        (report.held, report.connects, report.connects_failed) = (64, 3, 1);
        assert_eq!(
            facts(&report),
            "64 held from before, 3 opened, 1 failed; 35,373 requests on each"
        );
        (report.held, report.connects, report.connects_failed) = (0, 0, 5);
        assert_eq!(facts(&report), "0 opened, 5 failed");
    }
}
