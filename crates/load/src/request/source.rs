//! Gives a thread its next request.

use super::{Message, Order, Requests};

/// Where one thread takes a lane's requests from.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The bytes of one request, so often in a row that one write can carry a whole pipeline.
    Same {
        repeated: Vec<u8>,
        each: usize,
        head_only: bool,
    },
    Several {
        messages: std::sync::Arc<[Message]>,
        order: Order,
        next: usize,
        random: Random,
    },
}

/// What was put out by [`Source::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) head_only: bool,
}

impl Source {
    /// For writes of at most `depth` requests; `thread` keeps threads from being in step.
    pub(crate) fn new(requests: &Requests, depth: usize, seed: u64, thread: usize) -> Self {
        let kind = match requests {
            Requests::Same(message) => Kind::Same {
                repeated: message.bytes.repeat(depth),
                each: message.bytes.len(),
                head_only: message.head_only,
            },
            Requests::Several { messages, order } => Kind::Several {
                next: thread % messages.len(),
                messages: messages.clone(),
                order: *order,
                random: Random::new(seed.wrapping_add(thread as u64)),
            },
        };
        Self { kind }
    }

    /// The bytes of the next `count` requests when all are the same.
    pub(crate) fn same(&self, count: usize) -> Option<(&[u8], Put)> {
        match &self.kind {
            Kind::Same {
                repeated,
                each,
                head_only,
            } => Some((
                &repeated[..count * each],
                Put {
                    head_only: *head_only,
                },
            )),
            Kind::Several { .. } => None,
        }
    }

    /// Appends the next request.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Put {
        match &mut self.kind {
            Kind::Same {
                repeated,
                each,
                head_only,
            } => {
                out.extend_from_slice(&repeated[..*each]);
                Put {
                    head_only: *head_only,
                }
            }
            Kind::Several {
                messages,
                order,
                next,
                random,
            } => {
                let at = match order {
                    Order::InTurn => std::mem::replace(next, (*next + 1) % messages.len()),
                    Order::Random => random.below(messages.len()),
                };
                let message = &messages[at];
                out.extend_from_slice(&message.bytes);
                Put {
                    head_only: message.head_only,
                }
            }
        }
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): small, and the same everywhere for a seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// From 0 up to, not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
