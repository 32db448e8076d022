//! Produces the next request of a thread.

use std::sync::Arc;

use super::{Requests, Template, template::Draw};

/// Most bytes of repeated copies of one request: a larger write gains nothing.
const REPEATED_BYTES_MAX: usize = 1024 * 1024;

/// Source of one thread's requests for one lane.
#[derive(Debug)]
pub(crate) enum Source {
    /// The bytes of one request, repeated so that one write can carry a whole pipeline.
    Same {
        repeated: Vec<u8>,
        each: usize,
        head_only: bool,
    },
    Several {
        templates: Arc<[Template]>,
        next: usize,
        draws: Draws,
    },
}

/// Values for placeholders.
#[derive(Debug)]
pub(crate) struct Draws {
    /// The number of the next request.
    number: u64,
    /// Step from one number to the next. Threads and lanes take turns, so that no two requests have the same number.
    stride: u64,
    random: Random,
    body: Vec<u8>,
}

impl Draws {
    fn new(seed: u64, id: SourceId) -> Self {
        let place = id.thread * id.lanes + id.lane;
        Self {
            number: place as u64,
            stride: (id.threads * id.lanes) as u64,
            random: Random::new(mixed(seed).wrapping_add(mixed(place as u64))),
            body: Vec::new(),
        }
    }

    fn take_number(&mut self) -> u64 {
        let next = self.number.wrapping_add(self.stride);
        std::mem::replace(&mut self.number, next)
    }
}

/// Identifies one of all the sources of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceId {
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
}

impl Source {
    /// A source for writes of at most `depth` requests.
    pub(crate) fn new(requests: &Requests, depth: usize, seed: u64, id: SourceId) -> Self {
        match requests {
            Requests::Same(message) => {
                let each = message.bytes.len();
                Self::Same {
                    repeated: message
                        .bytes
                        .repeat(depth.min((REPEATED_BYTES_MAX / each.max(1)).max(1))),
                    each,
                    head_only: message.head_only,
                }
            }
            Requests::Several(templates) => Self::Several {
                // Threads begin at different requests; otherwise they would run in step.
                next: id.thread % templates.len(),
                templates: templates.clone(),
                draws: Draws::new(seed, id),
            },
        }
    }

    /// The bytes of the next `count` requests if all are the same, and not too many to be kept ready; and whether they are HEAD.
    pub(crate) fn same(&self, count: usize) -> Option<(&[u8], bool)> {
        match self {
            Self::Same {
                repeated,
                each,
                head_only,
            } => Some((repeated.get(..count * each)?, *head_only)),
            Self::Several { .. } => None,
        }
    }

    /// Appends the next request. Returns whether it is HEAD.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Same {
                repeated,
                each,
                head_only,
            } => {
                out.extend_from_slice(&repeated[..*each]);
                *head_only
            }
            Self::Several {
                templates,
                next,
                draws,
            } => {
                let at = std::mem::replace(next, (*next + 1) % templates.len());
                let mut draw = Draw {
                    number: draws.take_number(),
                    random: &mut draws.random,
                    body: &mut draws.body,
                };
                templates[at].render(&mut draw, out)
            }
        }
    }
}

/// The finishing step of `SplitMix64`: a one-to-one mapping, so different numbers stay different.
fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
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
        mixed(self.0)
    }

    /// From 0 up to, and including, `max`.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        ((u128::from(self.next()) * (u128::from(max) + 1)) >> 64) as u64
    }

    /// Below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// From 0 up to, not including, 1.
    #[cfg(test)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        request::{Grammar, Parts, Template},
        target::Url,
    };

    fn no_file(_: &std::path::Path) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn parts(path: &str) -> Parts {
        Parts {
            path_and_query: path.into(),
            ..Parts::get(&Url::parse("http://h/").unwrap())
        }
    }

    fn source(requests: &Requests, thread: usize, threads: usize, lane: usize, lanes: usize) -> Source {
        let id = SourceId {
            thread,
            threads,
            lane,
            lanes,
        };
        Source::new(requests, 4, 7, id)
    }

    fn paths(source: &mut Source, count: usize) -> Vec<String> {
        let path = |_| {
            let mut out = Vec::new();
            source.next(&mut out);
            let text = String::from_utf8(out).unwrap();
            text.split(' ').nth(1).unwrap().to_owned()
        };
        (0..count).map(path).collect()
    }

    #[test]
    fn no_two_threads_or_lanes_give_the_same_number() {
        let requests = Requests::one(&parts("/{{counter}}"), &Grammar::braces(&no_file)).unwrap();
        let mut all: Vec<u64> = (0..3)
            .flat_map(|thread| (0..2).map(move |lane| (thread, lane)))
            .flat_map(|(thread, lane)| paths(&mut source(&requests, thread, 3, lane, 2), 100))
            .map(|path| path[1..].parse().unwrap())
            .collect();
        all.sort_unstable();
        assert_eq!(all, (1..=600).collect::<Vec<_>>());
    }

    #[test]
    fn several_requests_follow_their_order() {
        let template = |path| Template::new(&parts(path), &Grammar::none()).unwrap();
        let several = Requests::Several(["/a", "/b", "/c"].map(template).into());
        assert_eq!(
            paths(&mut source(&several, 0, 1, 0, 1), 4),
            ["/a", "/b", "/c", "/a"]
        );
        assert_eq!(paths(&mut source(&several, 1, 2, 0, 1), 2), ["/b", "/c"]);
    }

    #[test]
    fn one_request_is_at_hand_as_often_as_a_write_can_carry_it() {
        let mut parts = parts("/");
        let small = source(&Requests::one(&parts, &Grammar::none()).unwrap(), 0, 1, 0, 1);
        let one = small.same(1).unwrap().0.len();
        assert_eq!(small.same(4).unwrap().0.len(), 4 * one);
        parts.body = vec![b'x'; REPEATED_BYTES_MAX];
        let mut large = source(&Requests::one(&parts, &Grammar::none()).unwrap(), 0, 1, 0, 1);
        assert!(
            large.same(1).is_some() && large.same(2).is_none(),
            "a large one is kept once"
        );
        let mut out = Vec::new();
        large.next(&mut out);
        assert_eq!(out, large.same(1).unwrap().0);
    }

    #[test]
    fn a_drawn_number_may_be_the_largest() {
        let mut random = Random::new(1);
        assert_eq!(random.up_to(0), 0);
        assert!(
            (0..100)
                .map(|_| random.up_to(u64::MAX))
                .any(|number| number > u64::MAX / 2)
        );
    }
}
