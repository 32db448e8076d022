//! What a path asks of the server. Nothing here does anything: a path becomes an [`Action`], or the text of its refusal.

use super::delay::{DELAY_MAX_NS, Distribution};

/// Longest body that can be asked for.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Longest stall, and longest distance between two.
const STALL_MAX_MS: f64 = 10_000.0;
/// Most bytes of an answer per second that still count as slow.
const SLOW_BYTES_MAX: f64 = 1e9;

/// What is to be done about a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// A small answer that is always the same.
    Hello,
    /// So many bytes.
    Bytes(u64),
    /// So many bytes in chunks.
    Chunked(u64),
    /// The small answer, later.
    Delay(u64),
    /// The small answer, later by a random time.
    DelayBy(Distribution),
    /// The whole server stands still for so long, again and again if `every_ns` is not 0.
    Stall {
        every_ns: u64,
        for_ns: u64,
    },
    Status(u16),
    /// The body of the request.
    Echo,
    /// The small answer, then the connection is closed; `announced`: the answer says so.
    Close {
        announced: bool,
    },
    /// Something that no server should do, on this share of the requests. The others get the small answer.
    Fault {
        fault: Fault,
        share: f64,
    },
    /// What the server has counted.
    Stats,
    /// The counts begin again.
    Reset,
    /// What cannot be done.
    Refused {
        status: u16,
        text: String,
    },
}

/// What no server should do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// A reset in place of an answer.
    Reset,
    /// An orderly close in place of an answer.
    Silent,
    /// An orderly close in the middle of the body.
    Truncate,
    /// An orderly close in the middle of the head.
    HalfHead,
    /// Bytes that are no HTTP.
    Garbage,
    /// The answer bit by bit.
    Slow { bytes_per_s: f64 },
    /// No answer, and no close.
    Never,
    /// Two lengths that contradict each other.
    TwoLengths,
    /// A head that does not end.
    OverlongHead,
    /// A chunk whose size is not a number.
    BadChunk,
    /// A second answer that nobody asked for.
    Unsolicited,
    /// Interim answers before the answer. This one is allowed, but often forgotten.
    Interim,
}

/// The names of the faults, as paths have them.
const FAULTS: [(&str, Fault); 11] = [
    ("reset", Fault::Reset),
    ("silent", Fault::Silent),
    ("truncate", Fault::Truncate),
    ("half-head", Fault::HalfHead),
    ("garbage", Fault::Garbage),
    ("never", Fault::Never),
    ("two-lengths", Fault::TwoLengths),
    ("overlong-head", Fault::OverlongHead),
    ("bad-chunk", Fault::BadChunk),
    ("unsolicited", Fault::Unsolicited),
    ("interim", Fault::Interim),
];

/// What is said about a path that is none.
const PATHS: &str = "/, /bytes/N, /chunked/N, /status/N, /echo, /delay/MS, /delay/dist?p50=MS&p99=MS, \
    /stall?for=MS&every=MS, /close, /close?silent, /fault/NAME?p=SHARE, /fault/slow?bytes_per_s=N, /stats, /reset";

impl Action {
    /// What a request target asks for.
    pub(super) fn of(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let read = match path {
            "/" => Ok(Self::Hello),
            "/echo" => Ok(Self::Echo),
            "/stats" => Ok(Self::Stats),
            "/reset" => Ok(Self::Reset),
            "/close" => close(query),
            "/stall" => stall(query),
            "/delay/dist" => distribution(query),
            "/fault/slow" => slow(query),
            _ => parametrised(path, query),
        };
        read.unwrap_or_else(|refused| refused)
    }
}

fn parametrised(path: &str, query: &str) -> Result<Action, Action> {
    let Some((kind, value)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
        return Err(unknown(path));
    };
    match kind {
        "bytes" => Ok(Action::Bytes(whole("/bytes/N", value, 0, BODY_BYTES_MAX)?)),
        "chunked" => Ok(Action::Chunked(whole("/chunked/N", value, 0, BODY_BYTES_MAX)?)),
        "status" => Ok(Action::Status(whole("/status/N", value, 200, 599)? as u16)),
        "delay" => {
            let ms = number("/delay/MS", value, 0.0, DELAY_MAX_NS as f64 / 1e6)?;
            Ok(Action::Delay((ms * 1e6) as u64))
        }
        "fault" => {
            let known = FAULTS.iter().find(|(name, _)| *name == value);
            let (_, fault) = known.ok_or_else(|| unknown_fault(value))?;
            let [share] = parameters(query, ["p"])?;
            Ok(Action::Fault {
                fault: *fault,
                share: share.map_or(Ok(1.0), |share| number("p", share, 0.0, 1.0))?,
            })
        }
        _ => Err(unknown(path)),
    }
}

fn close(query: &str) -> Result<Action, Action> {
    let [silent] = parameters(query, ["silent"])?;
    Ok(Action::Close {
        announced: silent.is_none(),
    })
}

fn stall(query: &str) -> Result<Action, Action> {
    let [every, length] = parameters(query, ["every", "for"])?;
    let length =
        length.ok_or_else(|| refused("`for` is missing: /stall?for=MS, with &every=MS again and again"))?;
    let length = number("for", length, 0.0, STALL_MAX_MS)?;
    let every = every.map_or(Ok(0.0), |every| number("every", every, 0.0, STALL_MAX_MS))?;
    if every > 0.0 && every <= length {
        return Err(refused(
            "`every` must be longer than `for`, or nothing would ever be answered",
        ));
    }
    Ok(Action::Stall {
        every_ns: (every * 1e6) as u64,
        for_ns: (length * 1e6) as u64,
    })
}

fn distribution(query: &str) -> Result<Action, Action> {
    let [p50, p99] = parameters(query, ["p50", "p99"])?;
    let max = DELAY_MAX_NS as f64 / 1e6;
    let p50 = number("p50", p50.unwrap_or("5"), 0.001, max)?;
    let p99 = number("p99", p99.unwrap_or("50"), 0.001, max)?;
    if p99 < p50 {
        return Err(refused("p99 is below p50"));
    }
    Ok(Action::DelayBy(Distribution::new(p50 * 1e6, p99 * 1e6)))
}

fn slow(query: &str) -> Result<Action, Action> {
    let [rate, share] = parameters(query, ["bytes_per_s", "p"])?;
    Ok(Action::Fault {
        fault: Fault::Slow {
            bytes_per_s: number("bytes_per_s", rate.unwrap_or("100"), 0.1, SLOW_BYTES_MAX)?,
        },
        share: share.map_or(Ok(1.0), |share| number("p", share, 0.0, 1.0))?,
    })
}

/// The values of the parameters with these names; a parameter without `=` has an empty one.
fn parameters<'a, const N: usize>(query: &'a str, names: [&str; N]) -> Result<[Option<&'a str>; N], Action> {
    let mut values = [None; N];
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let Some(at) = names.iter().position(|known| *known == name) else {
            return Err(refused(&format!(
                "`{name}` is not known here; accepted: {}",
                names.join(", ")
            )));
        };
        values[at] = Some(value);
    }
    Ok(values)
}

fn whole(what: &str, text: &str, min: u64, max: u64) -> Result<u64, Action> {
    let value = text.parse().ok().filter(|value| (min..=max).contains(value));
    value.ok_or_else(|| {
        refused(&format!(
            "{what}: `{text}` is not a whole number from {min} to {max}"
        ))
    })
}

fn number(what: &str, text: &str, min: f64, max: f64) -> Result<f64, Action> {
    let value = text.parse().ok().filter(|value| (min..=max).contains(value));
    value.ok_or_else(|| refused(&format!("{what}: `{text}` is not a number from {min} to {max}")))
}

fn refused(text: &str) -> Action {
    Action::Refused {
        status: 400,
        text: text.to_owned(),
    }
}

fn unknown(path: &str) -> Action {
    Action::Refused {
        status: 404,
        text: format!("there is no `{path}`; there are {PATHS}"),
    }
}

fn unknown_fault(name: &str) -> Action {
    let names: Vec<_> = FAULTS.iter().map(|(name, _)| *name).collect();
    Action::Refused {
        status: 404,
        text: format!("there is no fault `{name}`; there are slow, {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_what_is_to_be_done() {
        for (path, action) in [
            ("/", Action::Hello),
            ("/?anything=1", Action::Hello),
            ("/bytes/70000", Action::Bytes(70_000)),
            ("/chunked/0", Action::Chunked(0)),
            ("/status/503", Action::Status(503)),
            ("/delay/2.5", Action::Delay(2_500_000)),
            (
                "/stall?for=200",
                Action::Stall {
                    every_ns: 0,
                    for_ns: 200_000_000,
                },
            ),
            (
                "/stall?every=1000&for=200",
                Action::Stall {
                    every_ns: 1_000_000_000,
                    for_ns: 200_000_000,
                },
            ),
            ("/close", Action::Close { announced: true }),
            ("/close?silent", Action::Close { announced: false }),
            (
                "/fault/reset",
                Action::Fault {
                    fault: Fault::Reset,
                    share: 1.0,
                },
            ),
            (
                "/fault/never?p=0.25",
                Action::Fault {
                    fault: Fault::Never,
                    share: 0.25,
                },
            ),
            (
                "/fault/slow?bytes_per_s=7",
                Action::Fault {
                    fault: Fault::Slow { bytes_per_s: 7.0 },
                    share: 1.0,
                },
            ),
        ] {
            assert_eq!(Action::of(path), action, "{path}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_reason() {
        for (path, status, part) in [
            ("/nothing", 404, "/bytes/N"),
            ("*", 404, "there is no"),
            ("/bytes/-1", 400, "whole number"),
            ("/bytes/99999999999", 400, "to 1073741824"),
            ("/status/100", 400, "200 to 599"),
            ("/delay/never", 400, "`never` is not a number"),
            ("/delay/NaN", 400, "number"),
            ("/delay/dist?p50=9&p99=3", 400, "below"),
            ("/delay/dist?p=9", 400, "accepted: p50, p99"),
            ("/stall", 400, "`for` is missing"),
            ("/stall?every=5&for=5", 400, "longer"),
            ("/fault/reset?p=2", 400, "from 0 to 1"),
            ("/fault/flood", 404, "overlong-head"),
        ] {
            let Action::Refused { status: found, text } = Action::of(path) else {
                panic!("{path} was accepted");
            };
            assert_eq!(found, status, "{path}");
            assert!(text.contains(part), "{path}: {text}");
        }
    }
}
