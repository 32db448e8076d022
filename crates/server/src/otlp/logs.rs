//! Log records: the lines of the log, as their JSON form has them.

use std::{borrow::Cow, sync::Arc};

use serde::Serialize;
use serde_json::Value as Json;
use tracing::Level;

use super::{
    Item,
    body::{Attribute, Decimal, Value, attribute, encode, nanos},
};
use crate::logging::{ACCESS_TARGET, Entry, Members};

/// Most bytes of lines that wait for the collector, as many as may wait for the log's file.
pub(crate) const LOG_BYTES_MAX: usize = 4 << 20;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    time_unix_nano: Decimal<u64>,
    severity_number: u8,
    severity_text: &'static str,
    body: Value<'static>,
    attributes: Vec<Attribute<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    /// Of W3C Trace Context: an id is only logged of a request that is sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    flags: Option<u8>,
}

impl Item for Arc<Entry> {
    const PATH: &'static str = "/v1/logs";
    const UNITS: &'static str = "log records";
    const REJECTED: &'static str = "rejectedLogRecords";
    /// In bytes of JSON lines.
    const BATCH_SIZE: usize = 256 << 10;

    fn units(&self) -> usize {
        1
    }

    fn size(&self) -> usize {
        self.json.len()
    }

    fn encode(batch: &[Self], service: &str) -> Vec<u8> {
        let mut targets: Vec<(String, Vec<Record>)> = Vec::new();
        for entry in batch {
            let (target, record) = record(entry);
            match targets.iter_mut().find(|(known, _)| *known == target) {
                Some((_, records)) => records.push(record),
                None => targets.push((target, vec![record])),
            }
        }
        let by_scope = targets.iter().map(|(target, records)| (&**target, &**records));
        encode(["resourceLogs", "scopeLogs", "logRecords"], service, by_scope)
    }
}

/// A line's target, and its record.
fn record(entry: &Entry) -> (String, Record) {
    // A handler may log values nested deeper than the JSON reader allows.
    let Members(members) = serde_json::from_str(&entry.json).unwrap_or_else(|_| {
        let whole = Json::String(entry.json.trim_end().to_owned());
        Members(vec![("message".to_owned(), whole)])
    });
    let (severity_number, severity_text) = severity(entry.level);
    let mut record = Record {
        time_unix_nano: Decimal(nanos(entry.at)),
        severity_number,
        severity_text,
        body: Value::String(Cow::Borrowed("")),
        attributes: Vec::with_capacity(members.len()),
        trace_id: None,
        span_id: None,
        flags: None,
    };
    let mut target = String::new();
    let mut request = [String::new(), String::new()];
    for (name, value) in members {
        match (&*name, value) {
            ("timestamp" | "level", _) => {}
            ("target", Json::String(name)) => target = name,
            ("message", Json::String(message)) => record.body = Value::String(message.into()),
            ("trace_id", Json::String(id)) => (record.trace_id, record.flags) = (Some(id), Some(1)),
            ("span_id", Json::String(id)) => record.span_id = Some(id),
            (_, value) => {
                if let Some(part) = ["method", "path"].iter().position(|part| *part == name)
                    && let Json::String(text) = &value
                {
                    text.clone_into(&mut request[part]);
                }
                record.attributes.extend(attribute(name, value));
            }
        }
    }
    if target == ACCESS_TARGET {
        record.body = Value::String(request.join(" ").into());
    }
    (target, record)
}

const fn severity(level: Level) -> (u8, &'static str) {
    match level {
        Level::TRACE => (1, "TRACE"),
        Level::DEBUG => (5, "DEBUG"),
        Level::INFO => (9, "INFO"),
        Level::WARN => (13, "WARN"),
        Level::ERROR => (17, "ERROR"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;

    fn entry(level: Level, line: &Json) -> Arc<Entry> {
        Arc::new(Entry {
            level,
            at: UNIX_EPOCH + Duration::from_micros(1_500_000_000_000_001),
            json: format!("{line}\n"),
        })
    }

    #[test]
    fn a_line_is_a_record_of_its_target_with_its_fields_as_attributes() {
        let lines = [
            entry(
                Level::WARN,
                &json!({ "timestamp": "-", "level": "WARN", "target": "forebay::worker", "message": "low",
                    "pool": "api", "worker": 3, "fields": { "left": [1.5, null, true] }, "request": null,
                    "trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331" }),
            ),
            entry(
                Level::INFO,
                &json!({ "timestamp": "-", "level": "INFO", "target": "forebay::access", "method": "GET", "path": "/a", "status": 200 }),
            ),
        ];
        let body: Json = serde_json::from_slice(&Item::encode(&lines, "shop")).unwrap();
        let scopes = &body["resourceLogs"][0]["scopeLogs"];
        assert_eq!(scopes[0]["scope"]["name"], "forebay::worker");
        assert_eq!(
            scopes[0]["logRecords"],
            json!([{
                "timeUnixNano": "1500000000000001000", "severityNumber": 13, "severityText": "WARN",
                "body": { "stringValue": "low" },
                "attributes": [
                    { "key": "fields", "value": { "kvlistValue": { "values": [
                        { "key": "left", "value": { "arrayValue": { "values": [{ "doubleValue": 1.5 }, { "boolValue": true }] } } }
                    ] } } },
                    { "key": "pool", "value": { "stringValue": "api" } },
                    { "key": "worker", "value": { "intValue": "3" } },
                ],
                "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "flags": 1,
            }])
        );
        let access = &scopes[1]["logRecords"][0];
        assert_eq!(access["body"]["stringValue"], "GET /a");
        assert_eq!(access["traceId"], Json::Null);
    }

    #[test]
    fn a_line_that_is_nested_too_deep_is_a_text() {
        let json = format!("{{\"fields\":{}{}}}\n", "[".repeat(127), "]".repeat(127));
        let deep = Arc::new(Entry {
            level: Level::INFO,
            at: UNIX_EPOCH,
            json: json.clone(),
        });
        let body: Json = serde_json::from_slice(&Item::encode(&[deep], "shop")).unwrap();
        let record = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["body"]["stringValue"], json.trim_end());
    }
}
