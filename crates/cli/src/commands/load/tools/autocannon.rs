//! `autocannon`: 10 connections, 10 s, no warm-up unless `-W`.

use std::time::Duration;

use forebay_load::search::WarmUp;

use super::{Extra, Grammar, Table, flags, words::Flag};
use crate::commands::load::values::{rate, some_count, some_duration};

/// How long it runs when nothing says so.
const DURATION: Duration = Duration::from_secs(10);
/// Shortest sample: the course of a run is kept in slices of this length.
const SAMPLE_MS_MIN: u64 = 100;

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL... [-- CMD]",
    defaults: |options| {
        options.connections = Some(10);
        options.threads = Some(1);
        options.warmup = Some(WarmUp::NONE);
    },
    flags: &[
        flags::connections(&["-c", "--connections"], "Connections; 10 if not given."),
        flags::pipeline(&["-p", "--pipelining"]),
        flags::duration(
            &["-d", "--duration"],
            "SECONDS",
            "How long; 10 if not given. 1m works too.",
        ),
        flags::count(
            &["-a", "--amount"],
            "COUNT",
            "How many requests, instead of a duration.",
        ),
        flags::count(
            &["-O", "--maxOverallRequests"],
            "COUNT",
            "Most requests of the whole run.",
        ),
        Flag::value(
            &["-M", "--maxConnectionRequests"],
            "COUNT",
            "Most requests of each connection; they are counted together, so many times the connections.",
            |options, text| {
                options.old.loops = Some(some_count(text)?);
                Ok(())
            },
        ),
        flags::threads(&["-w", "--workers"], "Threads; 1 if not given."),
        Flag::value(
            &["-W", "--warmup"],
            "[ -c N -d SECONDS ]",
            "Warm-up before the run, on the run's own connections.",
            |options, text| {
                options.warmup = Some(WarmUp::For(warm_up(text)?));
                Ok(())
            },
        ),
        Flag::switch(
            &["--on-port"],
            "Start the command after --, and load it once it listens.",
            |options| {
                options.on_port = true;
            },
        ),
        flags::method(&["-m", "--method"], "The method; GET if not given."),
        flags::timeout(
            &["-t", "--timeout"],
            "SECONDS",
            "Longest wait for an answer; 10 if not given.",
        ),
        Flag::value(
            &["-T", "--title"],
            "TEXT",
            "A name for the run.",
            |options, text| {
                options.title = Some(text.to_owned());
                Ok(())
            },
        ),
        flags::body(&["-b", "--body"], "The body of every request."),
        flags::body_file(&["-i", "--input"]),
        Flag::value(
            &["-F", "--form"],
            "JSON",
            "A form: JSON, or the path of a file with it.",
            |options, text| {
                options.form.push(text.to_owned());
                Ok(())
            },
        ),
        flags::headers(
            &["-H", "--headers"],
            "K=V",
            "A header, `K=V` or `K: V`; may be repeated.",
        ),
        Flag::value(
            &["--har"],
            "FILE",
            "The requests that a browser has recorded.",
            |options, text| {
                options.har = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-S", "--socketPath"],
            "FILE",
            "Connect to a Unix socket.",
            |options, text| {
                options.unix_socket = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-B", "--bailout"],
            "COUNT",
            "End after so many failures.",
            |options, text| {
                options.bail = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-r", "--connectionRate"],
            "RATE",
            "Requests a second on each connection.",
            |options, text| {
                options.rate_per_connection = Some(rate(text)?);
                Ok(())
            },
        ),
        flags::overall_rate(
            &["-R", "--overallRate"],
            "Requests a second over all connections.",
        ),
        Flag::switch(
            &["-C", "--ignoreCoordinatedOmission"],
            "Latencies from when a request was written, not from when it was due.",
            |options| {
                options.old.raw_latency = true;
            },
        ),
        Flag::value(
            &["-D", "--reconnectRate"],
            "COUNT",
            "Close each connection after so many requests.",
            |options, text| {
                options.requests_per_connection = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-L", "--sampleInt"],
            "MILLISECONDS",
            "Length of a sample of Req/Sec and Bytes/Sec, from 100 on; 1000 if not given.",
            |options, text| {
                options.old.sample_ms = Some(sample_ms(text)?);
                Ok(())
            },
        ),
        flags::quiet(&["-n", "--no-progress"]),
        Flag::switch(&["-l", "--latency"], "All percentiles of latency.", |options| {
            options.old.more.push(Extra::Latency);
        }),
        Flag::switch(&["--renderStatusCodes"], "A table of statuses.", |options| {
            options.old.more.push(Extra::Statuses);
        }),
        Flag::switch(
            &["-I", "--idReplacement"],
            "An id of its own for each [<id>] in URL, headers and body.",
            |options| {
                options.old.ids = true;
            },
        ),
        Flag::switch(
            &["-j", "--json"],
            "The result as autocannon's JSON, on standard output.",
            |options| {
                options.old.more.push(Extra::Machine);
                options.quiet = true;
            },
        ),
        Flag::switch(&["-f", "--forever"], "Until Ctrl-C.", |options| {
            options.old.forever = true;
        }),
        flags::server_name(&["-s", "--servername"]),
        Flag::value(
            &["-E", "--expectBody"],
            "TEXT",
            "What every body must be.",
            |options, text| {
                options.expect_body = Some(format!("equals:{text}"));
                Ok(())
            },
        ),
        flags::certificate(&["--cert"]),
        flags::key(&["--key"]),
        flags::authority(
            &["--ca"],
            "Certificates that the server's must lead to. Without it any is taken.",
        ),
        Flag::switch(
            &["-V", "--verbose"],
            "All tables. They are always printed here.",
            |_| {},
        ),
        Flag::switch(
            &["-x", "--excludeErrorStats"],
            "Leave the latency of what failed out of the statistics.",
            |options| options.exclude_errors = true,
        ),
        Flag::refused(
            &["--debug"],
            "`forebay load URL --debug` shows a request and its answer",
        ),
        flags::version(&["-v", "--version"]),
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        options.url = operands.to_vec();
        if options.url.is_empty() && !options.on_port {
            return Err("a URL is missing, such as http://localhost:3000/".to_owned());
        }
        if !options.command.is_empty() && !options.on_port {
            return Err("a command after -- needs --on-port".to_owned());
        }
        options.insecure = options.cacert.is_none();
        if let (Some(each), Some(connections)) = (options.old.loops.take(), options.connections) {
            let all = each.saturating_mul(connections as u64);
            options.count = Some(options.count.map_or(all, |count| count.min(all)));
            // As without -M, whichever comes first.
            options.duration = options.duration.or(Some(DURATION));
        }
        Ok(())
    },
};

fn sample_ms(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(ms) if ms >= SAMPLE_MS_MIN => Ok(ms),
        _ => Err(format!(
            "found {text:?}, expected {SAMPLE_MS_MIN} milliseconds or more"
        )),
    }
}

/// The duration among the flags in the brackets of `-W`.
fn warm_up(text: &str) -> Result<Duration, String> {
    let mut duration = None;
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let mut words = inner.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-d" | "--duration" => duration = Some(some_duration(words.next().unwrap_or_default())?),
            // The connections are those of the run: what is warmed up shall be what is measured.
            _ if word.starts_with('-') => drop(words.next()),
            _ => {
                return Err(format!(
                    "found {word:?}, expected flags in brackets such as [ -c 1 -d 3 ]"
                ));
            }
        }
    }
    duration.ok_or_else(|| format!("found {text:?}, expected a duration in it such as [ -c 1 -d 3 ]"))
}
