//! The options of `forebay load`. Command lines of other tools are read into the same ones.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::{ffi::OsString, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use forebay_load::report::style::Style;

use super::values::{self, Stage};

/// What to load, how hard, and what to say about it. What is `None` has a default, which its help names.
#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Options {
    /// What to load; connections take several URLs in turn. With --on-port a path is enough. Example: http://localhost:8080/local
    #[arg(value_name = "URL")]
    pub(crate) url: Vec<String>,

    /// Connections, held open all the time; 64 if not given. Example: -c 128
    #[arg(short = 'c', long, value_name = "N", value_parser = values::some_size)]
    pub(crate) connections: Option<usize>,
    /// Threads, each with its share of the connections; one on up to two cores, otherwise half of the cores. Example: -t 2
    #[arg(short = 't', long, value_name = "N", value_parser = values::some_size)]
    pub(crate) threads: Option<usize>,
    /// How long to measure; 10 s if neither this nor -n is given. Example: -d 1m30s
    #[arg(short = 'd', long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) duration: Option<Duration>,
    /// How many requests to send, exactly; with -d, whichever ends first. Example: -n 100k
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = values::some_count)]
    pub(crate) count: Option<u64>,

    /// The method; GET, or POST with a body. Example: -m PUT
    #[arg(short = 'm', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header of every request; may be repeated. Example: -H 'Accept: application/json'
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = values::header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The body of every request. Example: -b '{"id":1}'
    #[arg(short = 'b', long, value_name = "TEXT", conflicts_with_all = ["body_file", "form"])]
    pub(crate) body: Option<String>,
    /// A file with the body of every request; `-` is standard input. Example: --body-file order.json
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    pub(crate) body_file: Option<PathBuf>,
    /// A part of a form (multipart/form-data), `@` before a file's name; or the whole form as JSON. May be repeated. Example: -F name=Rob -F photo=@me.png
    #[arg(short = 'F', long, value_name = "NAME=VALUE")]
    pub(crate) form: Vec<String>,
    /// Fill in {{counter}}, {{uuid}}, {{random 1 100}} and, from a CSV file, {{csv.COLUMN}} in URL, headers and body.
    /// Example: --template 'http://localhost:8080/user/{{random 1 100}}'
    #[arg(long)]
    pub(crate) template: bool,
    /// The file of {{csv.COLUMN}}: a line of names, then a line for each request. Example: --csv-data users.csv
    #[arg(long, value_name = "FILE")]
    pub(crate) csv_data: Option<PathBuf>,
    /// A file with a URL on each line, requested in turn. Example: --urls urls.txt
    #[arg(long = "urls", value_name = "FILE", conflicts_with_all = ["har", "requests"])]
    pub(crate) urls_file: Option<PathBuf>,
    /// Take URLs at random instead of in turn. Example: --urls urls.txt --shuffle
    #[arg(long)]
    pub(crate) shuffle: bool,
    /// The requests that a browser has recorded (HAR), in turn. Example: --har session.har
    #[arg(long, value_name = "FILE", conflicts_with = "requests")]
    pub(crate) har: Option<PathBuf>,
    /// A scenario: requests in order, with values taken from answers, cookies and think time. Example: --requests shop.json
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,

    /// Requests a second over all connections, sent when they are due whatever the answers do. Example: --rate 5k
    #[arg(long, value_name = "RATE", value_parser = values::rate, conflicts_with = "rate_per_connection")]
    pub(crate) rate: Option<f64>,
    /// Requests a second on each connection. Example: --rate-per-connection 10
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) rate_per_connection: Option<f64>,
    /// How requests of --rate are spread: at equal distances, or at random as from many users. Example: --arrivals poisson
    #[arg(long, value_name = "KIND", requires = "rate")]
    pub(crate) arrivals: Option<ArrivalKind>,
    /// Most requests under way on a connection; 1 if not given. Example: --pipeline 16
    #[arg(long, value_name = "N", value_parser = values::some_size)]
    pub(crate) pipeline: Option<usize>,
    /// How long to send before measuring; 1s if not given, 0 with -n. Example: --warmup 5s
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) warmup: Option<Duration>,
    /// A part of the run with its own load, instead of -c, --rate and -d; may be repeated: so many connections, requests a second
    /// (/s), or a rise (..). Example: --stage 10s:10..200 --stage 30s:200
    #[arg(long = "stage", value_name = "TIME:LOAD", value_delimiter = ',', value_parser = values::stage,
          conflicts_with_all = ["duration", "count", "rate", "rate_per_connection"])]
    pub(crate) stages: Vec<Stage>,
    /// Longest wait for a whole answer; it then counts as failed, with this latency; 10s if not given. Example: --timeout 2s
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Longest wait for a connection; 5s if not given. Example: --connect-timeout 500ms
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Close each connection after one answer. Example: forebay load localhost:8080/local --no-keepalive
    #[arg(long)]
    pub(crate) no_keepalive: bool,
    /// Close each connection after so many requests. Example: --requests-per-connection 100
    #[arg(long, value_name = "N", value_parser = values::some_count, conflicts_with = "no_keepalive")]
    pub(crate) requests_per_connection: Option<u64>,
    /// Seed of everything random; 1 if not given. Example: --seed 7
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Speak HTTP/2. Example: --http2
    #[arg(long)]
    pub(crate) http2: bool,
    /// Certificates (PEM) that the server's must lead to, instead of the system's. Example: --cacert ca.pem
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) cacert: Option<PathBuf>,
    /// The client's certificate (PEM). Example: --cert client.pem --key client.key
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The client's private key (PEM). Example: --cert client.pem --key client.key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Take any certificate of the server. Example: --insecure
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Connect to a Unix socket instead of the URL's host. Example: --unix-socket web.sock
    #[arg(long, value_name = "FILE")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Permit hosts other than this machine. Only for servers that are yours. Example: --allow-remote
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Statuses that count as right; 200-399 if not given. Example: --expect-status 2xx,304
    #[arg(long, value_name = "STATUSES", value_delimiter = ',', value_parser = values::statuses)]
    pub(crate) expect_status: Vec<RangeInclusive<u16>>,
    /// What every body must be; after `~`, what must be in it. Also regex:EXPRESSION, length:BYTES and sha256:HEX. Example:
    /// --expect-body '~hello'
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_json")]
    pub(crate) expect_body: Option<String>,
    /// The JSON that every body must be, however it is written; or a path in it, with `=` and the value that must be there. Example:
    /// --expect-json '$.user.name=Ann'
    #[arg(long, value_name = "JSON")]
    pub(crate) expect_json: Option<String>,

    /// Which percentiles to show; 50,75,90,95,99,99.9 if not given. Example: --percentiles 50,99,99.99
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = values::percentile)]
    pub(crate) percentiles: Vec<f64>,
    /// Write the result as one JSON object, to standard output or a file. Example: --json=result.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
    /// Write one JSON object for each slice of the run. Example: --ndjson=slices.ndjson
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) ndjson: Option<PathBuf>,
    /// Write percentiles as CSV. Example: --csv=latency.csv
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) csv: Option<PathBuf>,
    /// Write one page that needs nothing else. Example: --html report.html
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the distribution of latencies as HdrHistogram's plotter reads it. Example: --hgrm=latency.hgrm
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Print the result as another tool does. Example: --style wrk
    #[arg(long, value_name = "TOOL", value_parser = style_names())]
    pub(crate) style: Option<Style>,
    /// A name for the run. Example: --title 'after the change'
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Print the result only. Example: --quiet
    #[arg(long)]
    pub(crate) quiet: bool,

    /// What must hold, with commas; otherwise exit code 3. Example: --assert 'p99<10ms,errors<0.1%,rate>5000'
    #[arg(long = "assert", value_name = "CONDITIONS")]
    pub(crate) assertions: Vec<String>,
    /// Write the assertions as JUnit XML. Example: --assert 'p99<10ms' --junit load.xml
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Save the result for --compare. Example: --save before.json
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Compare with a saved result. Example: --compare before.json
    #[arg(long, value_name = "FILE")]
    pub(crate) compare: Option<PathBuf>,

    /// Find the number of connections that is enough for the highest rate. Example: --find-best
    #[arg(long, conflicts_with_all = ["find_rate", "rate", "rate_per_connection", "stages", "count", "vs", "vs_cmd", "until_ci", "preset"])]
    pub(crate) find_best: bool,
    /// Find the highest rate that meets --slo. Example: --find-rate --slo 'p99<10ms,errors<0.1%'
    #[arg(long, requires = "slo", conflicts_with_all = ["rate", "rate_per_connection", "stages", "count", "vs", "vs_cmd", "until_ci", "preset"])]
    pub(crate) find_rate: bool,
    /// What --find-rate must keep to. Example: --slo 'p99<10ms,errors<0.1%'
    #[arg(long, value_name = "CONDITIONS", requires = "find_rate")]
    pub(crate) slo: Option<String>,
    /// Measure until the rate's 95 % interval is this narrow to either side, at most for -d. Example: --until-ci 1%
    #[arg(long, value_name = "SHARE", value_parser = values::share, conflicts_with_all = ["count", "stages"])]
    pub(crate) until_ci: Option<f64>,
    /// Compare with a second URL, slice by slice in turn. Example: --vs http://localhost:8081/local
    #[arg(long, value_name = "URL", conflicts_with_all = ["vs_cmd", "stages", "count", "until_ci"])]
    pub(crate) vs: Option<String>,
    /// Compare with the same path of another server, started by a command that gets its port as $PORT. Example: --vs-cmd 'node old.mjs'
    #[arg(long, value_name = "CMD", conflicts_with_all = ["stages", "count", "until_ci"])]
    pub(crate) vs_cmd: Option<String>,
    /// The server's process: show its CPU time for each request and its memory, children included. Example: --server-pid 4711
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) server_pid: Option<u32>,
    /// A known protocol of measuring: tfb is TechEmpower's ladder of connections. Example: --preset tfb
    #[arg(long, value_name = "NAME", conflicts_with_all = ["connections", "count", "stages", "rate", "rate_per_connection", "vs", "vs_cmd", "until_ci"])]
    pub(crate) preset: Option<Preset>,

    /// Start the command after `--`, wait until it listens, load it, and stop it. Example: --on-port / -- node server.mjs
    #[arg(long, requires = "command")]
    pub(crate) on_port: bool,
    /// The command of --on-port. Example: --on-port /local -- node server.mjs
    #[arg(last = true, value_name = "CMD", requires = "on_port")]
    pub(crate) command: Vec<OsString>,

    /// What only command lines of other tools can ask for.
    #[arg(skip)]
    pub(crate) old: super::tools::Extras,
}

impl Options {
    /// Whether statistics can be cleared by a key, as JMeter's users do.
    pub(crate) fn style_is_jmeter(&self) -> bool {
        self.style == Some(Style::Jmeter)
    }
}

/// Reads the name of a style, and lists all of them.
fn style_names() -> impl TypedValueParser<Value = Style> {
    PossibleValuesParser::new(Style::ALL.map(Style::name)).try_map(|name| name.parse::<Style>())
}

/// How requests of an open load are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ArrivalKind {
    Uniform,
    Poisson,
}

/// Known protocols of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// TechEmpower's framework benchmarks.
    Tfb,
}
