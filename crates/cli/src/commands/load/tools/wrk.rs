//! `wrk` and `wrk2`: 10 connections on 2 threads for 10 s; wrk2 with a rate.

use forebay_load::search::WarmUp;

use super::{Extra, Grammar, Table, flags, one_url, words::Flag};
use crate::commands::load::arguments::Options;

const CONNECTIONS: Flag = flags::connections(&["-c", "--connections"], "Connections; 10 if not given.");
const DURATION: Flag = flags::duration(&["-d", "--duration"], "TIME", "How long; 10s if not given.");
const THREADS: Flag = flags::threads(&["-t", "--threads"], "Threads; 2 if not given.");
const HEADER: Flag = flags::headers(&["-H", "--header"], "HEADER", flags::HEADER);
const TIMEOUT: Flag = flags::timeout(
    &["--timeout"],
    "TIME",
    "Longest wait for an answer; 2s if not given.",
);
const SCRIPT: Flag = Flag::refused(
    &["-s", "--script"],
    "Lua is not run; `forebay load URL` has --template for values that change and --requests for sequences",
);
const VERSION: Flag = flags::version(&["-v", "--version"]);

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults,
    flags: &[
        CONNECTIONS,
        DURATION,
        THREADS,
        HEADER,
        TIMEOUT,
        Flag::switch(&["--latency"], "Percentiles of latency.", detailed),
        SCRIPT,
        VERSION,
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        options.old.notes.push(
            "wrk itself fills in latencies that it believes it missed; these are those of the requests that were sent".to_owned(),
        );
        one_url(options, operands)
    },
};

pub(super) const TABLE_2: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults,
    flags: &[
        CONNECTIONS,
        DURATION,
        THREADS,
        flags::overall_rate(
            &["-R", "--rate"],
            "Requests a second over all connections; must be given.",
        ),
        HEADER,
        TIMEOUT,
        Flag::switch(&["-L", "--latency"], "The whole spectrum of latencies.", detailed),
        Flag::switch(
            &["-U", "--u_latency"],
            "The latencies from when requests were written, too.",
            |options| options.old.more.extend([Extra::Uncorrected, Extra::Latency]),
        ),
        Flag::refused(&["-B", "--batch_latency"], "each request's latency is its own"),
        SCRIPT,
        VERSION,
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        if options.rate.is_none() {
            return Err("-R is missing: wrk2 needs a rate, such as -R 2000".to_owned());
        }
        one_url(options, operands)
    },
};

fn defaults(options: &mut Options) {
    options.connections = Some(10);
    options.threads = Some(2);
    options.duration = Some(std::time::Duration::from_secs(10));
    options.timeout = Some(std::time::Duration::from_secs(2));
    // It asks no server for its name.
    options.insecure = true;
    options.warmup = Some(WarmUp::NONE);
}

fn detailed(options: &mut Options) {
    options.old.more.push(Extra::Latency);
}
