//! EXPLAIN: describes what a statement would do.

use std::{ops::Bound, time::Instant};

use forebay_store::{Read, json};

use super::{
    Statement,
    execution::{Budget, Progress, end_answer},
    plan::unanswered,
    walk::{Access, KindPlan, Lookup, Plan, Walk},
};
use crate::{RecordsError, settings::Settings};

/// Most records that are counted.
const COUNT_MAX: u64 = 10_000;
/// Most index lookups that are shown.
const LOOKUPS_SHOWN: usize = 10;

/// Records counted at a time.
const BATCH: usize = 256;

/// Number of records to examine, counted step by step. Walks only indexes and references.
#[derive(Debug, Default)]
pub(super) struct Count {
    walk: Walk,
    /// Counts by kind.
    kinds: Vec<u64>,
    counted: u64,
    more: bool,
}

impl Count {
    pub(super) fn step(
        &mut self,
        plan: &Plan,
        read: &impl Read,
        budget: Budget,
    ) -> Result<Progress, RecordsError> {
        self.kinds.resize(plan.kinds.len(), 0);
        let (mut found, mut looked) = (Vec::new(), 0);
        while let Some(kind) = self.walk.next(plan, read, BATCH, &mut found)? {
            self.kinds[kind] += found.len() as u64;
            self.counted += found.len() as u64;
            if self.counted >= COUNT_MAX {
                self.more = true;
                break;
            }
            looked += BATCH as u64;
            let is_late = budget.until.is_some_and(|until| Instant::now() >= until);
            if looked >= budget.records || is_late || read.has_read_much() {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}

/// Writes the plan as an answer.
pub(super) fn write(
    statement: &Statement,
    settings: &Settings,
    plan: &Plan,
    count: &Count,
    out: &mut Vec<u8>,
) {
    let (counted, more) = (count.counted, count.more);
    out.extend_from_slice(b"{\"code\":0,\"plan\":{\"kinds\":[");
    for (at, kind) in plan.kinds.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        write_kind(kind, &unanswered(statement, settings, kind), out);
        out.extend_from_slice(format!(",\"examined\":{}}}", count.kinds[at]).as_bytes());
    }
    // Counting stops early if there is much to count.
    out.extend_from_slice(format!("],\"examined\":{counted},\"more\":{more}}}").as_bytes());
    end_answer(statement, out);
}

fn write_kind(plan: &KindPlan, unanswered: &[String], out: &mut Vec<u8>) {
    let text = |name: &str, text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(&json::string(name));
        out.push(b':');
        out.extend_from_slice(&json::string(text));
    };
    text("kind", &plan.kind, out);
    out.push(b',');
    match &plan.access {
        Access::One(_) => text("by", "reference", out),
        Access::Scan => text("by", "all records", out),
        Access::Lookups(lookups) => {
            text("by", "index", out);
            out.extend_from_slice(b",\"lookups\":[");
            for (at, lookup) in lookups.iter().take(LOOKUPS_SHOWN).enumerate() {
                out.extend_from_slice(if at > 0 { b"," } else { b"" });
                write_lookup(lookup, out);
            }
            out.extend_from_slice(format!("],\"lookups_total\":{}", lookups.len()).as_bytes());
        }
    }
    out.extend_from_slice(b",\"filtered\":[");
    for (at, condition) in unanswered.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        out.extend_from_slice(&json::string(condition));
    }
    out.push(b']');
}

fn write_lookup(lookup: &Lookup, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"index\":");
    out.extend_from_slice(&json::string(&lookup.index));
    out.extend_from_slice(b",\"equal\":[");
    for (at, value) in lookup.query.equal.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        out.extend_from_slice(value);
    }
    out.push(b']');
    for (name, bound) in [("from", &lookup.query.from), ("to", &lookup.query.to)] {
        if let Bound::Included(value) | Bound::Excluded(value) = bound {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            out.extend_from_slice(value);
        }
    }
    out.push(b'}');
}
