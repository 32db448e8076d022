//! What placeholders become, each time anew.

use std::{
    io::Write as _,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{Draw, Place, pattern::Pattern};
use crate::request::{
    body::Bodies,
    csv::Csv,
    parts::push_path,
    source::{Random, mixed},
};

#[derive(Clone, Debug)]
pub(super) enum Value {
    Counter {
        first: u64,
    },
    Id,
    Uuid,
    Random {
        low: i64,
        span: u64,
    },
    Float {
        low: f64,
        span: f64,
        digits: usize,
    },
    Pattern(Pattern),
    /// Seconds since 1970, or so many parts of them.
    Timestamp {
        per_second: u64,
    },
    Column(Arc<Csv>, usize),
    Line(Bodies),
    Variable(usize),
}

impl Value {
    pub(super) fn render(&self, place: Place, draw: &mut Draw<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Counter { first } => push_decimal(first.wrapping_add(draw.number), out),
            Self::Id => push_hex(mixed(draw.number.wrapping_add(draw.seed)), 16, out),
            Self::Uuid => push_uuid(draw.random, out),
            Self::Random { low, span } => {
                // Two's complement: the sum is right whatever the sign.
                let number = low.wrapping_add(draw.random.up_to(*span).cast_signed());
                if number < 0 {
                    out.push(b'-');
                }
                push_decimal(number.unsigned_abs(), out);
            }
            Self::Float { low, span, digits } => {
                let number = low + span * draw.random.unit();
                // A Vec takes everything.
                let _ = write!(out, "{number:.digits$}");
            }
            Self::Pattern(pattern) => {
                let start = out.len();
                pattern.render(draw.random, out);
                if place != Place::Body && !out[start..].iter().all(u8::is_ascii_alphanumeric) {
                    let text = out.split_off(start);
                    push_text(&text, place, out);
                }
            }
            Self::Timestamp { per_second } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let parts = since.subsec_nanos() / (1_000_000_000 / *per_second as u32);
                push_decimal(since.as_secs() * per_second + u64::from(parts), out);
            }
            Self::Line(bodies) => {
                let count = bodies.lines.len();
                let at = if bodies.random {
                    draw.random.below(count)
                } else {
                    (draw.number % count as u64) as usize
                };
                push_text(bodies.lines.get(at), place, out);
            }
            Self::Column(csv, column) => push_text(csv.value(draw.number, *column), place, out),
            Self::Variable(at) => push_text(draw.variables.get(*at).map_or(b"", Vec::as_slice), place, out),
        }
    }
}

fn push_text(text: &[u8], place: Place, out: &mut Vec<u8>) {
    match place {
        Place::Path => push_path(text, out),
        // A line end would begin another field.
        Place::Field => out.extend(text.iter().filter(|byte| !byte.is_ascii_control())),
        Place::Body => out.extend_from_slice(text),
    }
}

pub(super) fn push_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_hex(number: u64, digits: u32, out: &mut Vec<u8>) {
    let digit = |at: u32| b"0123456789abcdef"[(number >> (4 * at) & 15) as usize];
    out.extend((0..digits).rev().map(digit));
}

/// A random UUID (RFC 9562, version 4).
fn push_uuid(random: &mut Random, out: &mut Vec<u8>) {
    let (high, low) = (random.next(), random.next());
    push_hex(high >> 32, 8, out);
    out.push(b'-');
    push_hex(high >> 16, 4, out);
    out.push(b'-');
    push_hex(high & 0xfff | 0x4000, 4, out);
    out.push(b'-');
    push_hex(low >> 48 & 0x3fff | 0x8000, 4, out);
    out.push(b'-');
    push_hex(low, 12, out);
}
