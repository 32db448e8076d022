//! `autocannon`: 10 connections, 10 s, no warm-up unless `-W`.

use std::time::Duration;

use super::{Extra, Grammar, Table, words::Flag};
use crate::commands::load::values::{header, rate, some_count, some_duration, some_size};

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL... [-- CMD]",
    defaults: |options| {
        options.connections = Some(10);
        options.threads = Some(1);
        options.warmup = Some(Duration::ZERO);
    },
    flags: &[
        Flag::value(
            &["-c", "--connections"],
            "N",
            "Connections; 10 if not given.",
            |options, text| {
                options.connections = Some(some_size(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-p", "--pipelining"],
            "N",
            "Most requests under way on a connection; 1 if not given.",
            |options, text| {
                options.pipeline = Some(some_size(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-d", "--duration"],
            "SECONDS",
            "How long; 10 if not given. 1m works too.",
            |options, text| {
                options.duration = Some(some_duration(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-a", "--amount"],
            "COUNT",
            "How many requests, instead of a duration.",
            |options, text| {
                options.count = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-O", "--maxOverallRequests"],
            "COUNT",
            "Most requests of the whole run.",
            |options, text| {
                options.count = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-w", "--workers"],
            "N",
            "Threads; 1 if not given.",
            |options, text| {
                options.threads = Some(some_size(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-W", "--warmup"],
            "[ -c N -d SECONDS ]",
            "Warm-up before the run, on the run's own connections.",
            |options, text| {
                options.warmup = Some(warm_up(text)?);
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
        Flag::value(
            &["-m", "--method"],
            "METHOD",
            "The method; GET if not given.",
            |options, text| {
                options.method = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-t", "--timeout"],
            "SECONDS",
            "Longest wait for an answer; 10 if not given.",
            |options, text| {
                options.timeout = Some(some_duration(text)?);
                Ok(())
            },
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
        Flag::value(
            &["-b", "--body"],
            "TEXT",
            "The body of every request.",
            |options, text| {
                options.body = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-i", "--input"],
            "FILE",
            "A file with the body of every request.",
            |options, text| {
                options.body_file = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-F", "--form"],
            "JSON",
            "A form: JSON, or the path of a file with it.",
            |options, text| {
                options.form.push(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-H", "--headers"],
            "K=V",
            "A header, `K=V` or `K: V`; may be repeated.",
            |options, text| {
                options.headers.push(header(text)?);
                Ok(())
            },
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
                options.old.failures_max = Some(some_count(text)?);
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
        Flag::value(
            &["-R", "--overallRate"],
            "RATE",
            "Requests a second over all connections.",
            |options, text| {
                options.rate = Some(rate(text)?);
                Ok(())
            },
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
        Flag::switch(&["-n", "--no-progress"], "No progress.", |options| {
            options.quiet = true;
        }),
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
        Flag::value(
            &["-s", "--servername"],
            "NAME",
            "The server's name for TLS.",
            |options, text| {
                options.old.server_name = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-E", "--expectBody"],
            "TEXT",
            "What every body must be.",
            |options, text| {
                options.expect_body = Some(format!("equals:{text}"));
                Ok(())
            },
        ),
        Flag::value(
            &["--cert"],
            "FILE",
            "The client's certificate (PEM).",
            |options, text| {
                options.cert = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["--key"],
            "FILE",
            "The client's private key (PEM).",
            |options, text| {
                options.key = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["--ca"],
            "FILE",
            "Certificates that the server's must lead to. Without it any is taken.",
            |options, text| {
                options.cacert = Some(text.into());
                Ok(())
            },
        ),
        Flag::switch(
            &["-V", "--verbose"],
            "All tables. They are always printed here.",
            |_| {},
        ),
        Flag::refused(
            &["-M", "--maxConnectionRequests"],
            "requests are counted over all connections; -a COUNT says how many",
        ),
        Flag::refused(&["-L", "--sampleInt"], "samples are taken once a second"),
        Flag::refused(
            &["-x", "--excludeErrorStats"],
            "answers that count as failed stay in the statistics; --renderStatusCodes counts them",
        ),
        Flag::refused(&["--debug"], "requests are not dumped; `curl -v URL` shows one"),
        Flag::refused(&["-v", "--version"], "`forebay version` prints the version"),
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
        Ok(())
    },
};

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
