//! The options of `forebay load`. Command lines of other tools are read into the same ones.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::{ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::ValueEnum;
use forebay_load::search::WarmUp;

use super::values::{self, Stage};

/// The file name that stands for standard output.
pub(crate) const STANDARD_OUTPUT: &str = "-";

/// The targets, the load, and the report. The first paragraph of each comment is its line of `--help`.
#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Options {
    /// The URLs to load
    ///
    /// Connections take several URLs in turn. Example: http://localhost:8080/local
    #[arg(value_name = "URL")]
    pub(crate) url: Vec<String>,

    /// Connections, held open [default: 64]
    ///
    /// Example: -c 128
    #[arg(short = 'c', long, value_name = "N", value_parser = values::some_size)]
    pub(crate) connections: Option<usize>,
    /// Threads [default: half of the cores]
    ///
    /// Each has its share of the connections. Example: -t 2
    #[arg(short = 't', long, value_name = "N", value_parser = values::some_size)]
    pub(crate) threads: Option<usize>,
    /// How long to measure [default: 10s, without -n]
    ///
    /// Example: -d 1m30s
    #[arg(short = 'd', long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) duration: Option<Duration>,
    /// How many requests to send, exactly
    ///
    /// With -d, whichever ends first. Example: -n 100k
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = values::some_count)]
    pub(crate) count: Option<u64>,
    /// Requests a second, whatever the answers do
    ///
    /// Requests are sent when they are due, and latencies count from then. Example: --rate 5k
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) rate: Option<f64>,
    /// A part of the run with its own load
    ///
    /// May be repeated, instead of -c, --rate and -d: so many connections, requests a second (/s), or a rise (..).
    /// Example: --stage 10s:10..200 --stage 30s:200
    #[arg(long = "stage", value_name = "TIME:LOAD", value_delimiter = ',', value_parser = values::stage,
          conflicts_with_all = ["duration", "count", "rate"])]
    pub(crate) stages: Vec<Stage>,
    /// Load before measuring [default: auto]
    ///
    /// auto is until throughput and latency are steady, 0.5 s at least and 5 s at most. With -n and --stage the default is 0.
    /// Example: --warmup 5s
    #[arg(long, value_name = "auto|TIME", value_parser = values::warm_up)]
    pub(crate) warmup: Option<WarmUp>,
    /// Most requests under way on a connection
    ///
    /// 1 if not given. Example: --pipeline 16
    #[arg(long, value_name = "N", value_parser = values::some_size)]
    pub(crate) pipeline: Option<usize>,
    /// Close each connection after one answer
    ///
    /// Example: forebay load localhost:8080/local --no-keepalive
    #[arg(long)]
    pub(crate) no_keepalive: bool,
    /// Longest wait for an answer [default: 10s]
    ///
    /// The request then counts as failed, with this latency. Example: --timeout 2s
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Longest wait for a connection [default: 5s]
    ///
    /// Example: --connect-timeout 500ms
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// End the run after so many failures
    ///
    /// Example: --bail 100
    #[arg(long, value_name = "COUNT", value_parser = values::some_count)]
    pub(crate) bail: Option<u64>,
    /// How to wait for sockets
    ///
    /// io_uring takes less CPU where it can serve (connections without TLS that stay open, Linux 6.1). auto takes it there for closed
    /// loads of 16 connections a thread or more. Example: --engine epoll
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) engine: Option<EngineName>,

    /// The method [default: GET; POST with a body]
    ///
    /// Example: -m PUT
    #[arg(short = 'm', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header of every request; may be repeated
    ///
    /// Example: -H 'Accept: application/json'
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = values::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Basic authentication
    ///
    /// Example: --user ann:secret
    #[arg(long, value_name = "USER:PASSWORD")]
    pub(crate) user: Option<String>,
    /// The body of every request
    ///
    /// Example: -b '{"id":1}'
    #[arg(short = 'b', long, value_name = "TEXT", conflicts_with = "body_file")]
    pub(crate) body: Option<String>,
    /// A file with the body; - is standard input
    ///
    /// Example: --body-file order.json
    #[arg(long, value_name = "FILE")]
    pub(crate) body_file: Option<PathBuf>,
    /// A file with a body on each line
    ///
    /// Requests take the lines in turn. Example: --body-lines orders.ndjson
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "body_file", "urls_file"])]
    pub(crate) body_lines: Option<PathBuf>,
    /// Fill in {{counter}}, {{random 1 9}}, {{uuid}}, {{line FILE}}
    ///
    /// In URLs, headers and bodies. {{line FILE}} takes the lines of a file in turn.
    /// Example: --template 'http://localhost:8080/user/{{random 1 100}}'
    #[arg(long)]
    pub(crate) template: bool,
    /// A file of requests: [METHOD] URL on each line
    ///
    /// They are sent in turn. Example: --urls urls.txt
    #[arg(long = "urls", value_name = "FILE")]
    pub(crate) urls_file: Option<PathBuf>,
    /// Seed of everything random [default: 1]
    ///
    /// Example: --seed 7
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Certificates (PEM) to trust instead of the system's
    ///
    /// Example: --cacert ca.pem
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// Trust any server
    ///
    /// Example: --insecure
    #[arg(long)]
    pub(crate) insecure: bool,
    /// The server's name for TLS
    ///
    /// Instead of the URL's host. Example: --server-name shop.example
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Permit hosts other than this machine
    ///
    /// Only for servers that are yours. Example: --allow-remote
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Statuses that count as right [default: 200-399]
    ///
    /// Example: --expect-status 2xx,304
    #[arg(long, value_name = "STATUSES", value_delimiter = ',', value_parser = values::statuses)]
    pub(crate) expect_status: Vec<RangeInclusive<u16>>,
    /// Expect each body to equal this text or, after ~, to contain it
    ///
    /// Example: --expect-body '~hello'
    #[arg(long, value_name = "TEXT")]
    pub(crate) expect_body: Option<String>,
    /// A condition on the result; exit code 3 if it does not hold
    ///
    /// Several conditions have commas between them. Example: --assert 'p99<10ms,errors<0.1%,rate>5000'
    #[arg(long = "assert", value_name = "CONDITIONS")]
    pub(crate) assertions: Vec<String>,
    /// Find the connections that are enough for the highest rate
    ///
    /// -c is the most that are tried. Example: --find-best
    #[arg(long, conflicts_with_all = ["find_rate", "rate", "stages", "count", "vs", "vs_cmd"])]
    pub(crate) find_best: bool,
    /// Find the highest rate that meets --slo
    ///
    /// Example: --find-rate --slo 'p99<10ms,errors<0.1%'
    #[arg(long, requires = "slo", conflicts_with_all = ["rate", "stages", "count", "vs", "vs_cmd"])]
    pub(crate) find_rate: bool,
    /// The service level that --find-rate must keep
    ///
    /// Example: --slo 'p99<10ms,errors<0.1%'
    #[arg(long, value_name = "CONDITIONS", requires = "find_rate")]
    pub(crate) slo: Option<String>,
    /// Compare with a second URL, in turn
    ///
    /// Example: --vs http://localhost:8081/local
    #[arg(long, value_name = "URL", conflicts_with_all = ["vs_cmd", "stages", "count"])]
    pub(crate) vs: Option<String>,
    /// Compare with a server that this command starts
    ///
    /// It gets its port as $PORT, and the same path. Example: --vs-cmd 'node old.mjs'
    #[arg(long, value_name = "CMD", conflicts_with_all = ["stages", "count"])]
    pub(crate) vs_cmd: Option<String>,
    /// The server's process: show its CPU and memory
    ///
    /// Its CPU time for each request and its memory, children included. Example: --server-pid 4711
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) server_pid: Option<u32>,
    #[command(flatten)]
    pub(crate) forms: Forms,
    /// A name for the run
    ///
    /// Example: --title 'after the change'
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Print the result only
    ///
    /// Example: --quiet
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Settings that only command lines of other tools use.
    #[arg(skip)]
    pub(crate) of_tool: ToolOptions,
}

/// Settings that only the command lines of other tools can make.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolOptions {
    /// Numbers of connections to measure one after the other.
    pub(crate) sizes: Vec<usize>,
    /// Whether requests are HTTP/1.0.
    pub(crate) http10: bool,
    /// Whether a body of another length than the first counts as a failure.
    pub(crate) same_length: bool,
    /// Notes for standard error before the run.
    pub(crate) notes: Vec<String>,
}

/// How a result is written, and where to. A run and `forebay load report` have the same options for it.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Forms {
    /// Which percentiles to show
    ///
    /// 50,75,90,95,99,99.9,99.99 if not given. Example: --percentiles 50,99,99.99
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::percentile)]
    pub(crate) percentiles: Vec<f64>,
    /// Write the result as JSON
    ///
    /// One object, to standard output or a file. Example: --json=result.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write the result as a page
    ///
    /// It needs no other file. Example: --html report.html
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Save the run, for load report
    ///
    /// All that was measured is in it. Example: --save before.json
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

impl Forms {
    /// Files that are written.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.json, &self.html, &self.save].into_iter().flatten()
    }
}

/// How to wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    Auto,
    Epoll,
    IoUring,
}
