//! The options of `forebay load`. Command lines of other tools are read into the same ones.

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::{ffi::OsString, net::IpAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use clap::ValueEnum;
use forebay_load::{plan::Arrivals, report::style::Style, search::WarmUp, techempower::Test, tls};

use super::{
    forms::Forms,
    values::{self, ConnectTo, Stage},
};

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
    /// Cookies of every request; may be repeated. Example: --cookie session=42
    #[arg(long = "cookie", value_name = "NAME=VALUE")]
    pub(crate) cookies: Vec<String>,
    /// Who asks, with a password (Basic authentication). Example: --user ann:secret
    #[arg(long, value_name = "USER:PASSWORD")]
    pub(crate) user: Option<String>,
    /// Sign requests as AWS wants it (Signature Version 4), with --user KEY:SECRET. Example: --aws-sigv4 aws:us-east-1:s3 --user KEY:SECRET
    #[arg(long, value_name = "PROVIDER:REGION:SERVICE", requires = "user", conflicts_with_all = ["chunked", "follow_redirects"])]
    pub(crate) aws_sigv4: Option<String>,
    /// The body of every request. Example: -b '{"id":1}'
    #[arg(short = 'b', long, value_name = "TEXT", conflicts_with_all = ["body_file", "form"])]
    pub(crate) body: Option<String>,
    /// A file with the body of every request; `-` is standard input. Example: --body-file order.json
    #[arg(long, value_name = "FILE", conflicts_with = "form")]
    pub(crate) body_file: Option<PathBuf>,
    /// A file with a body on each line: requests take them in turn, or at random with --shuffle. Example: --body-lines orders.ndjson
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body", "body_file", "form", "chunked", "raw_request", "urls_file", "har", "access_log", "requests"])]
    pub(crate) body_lines: Option<PathBuf>,
    /// A part of a form (multipart/form-data), `@` before a file's name; or the whole form as JSON. May be repeated. Example: -F name=Rob -F photo=@me.png
    #[arg(short = 'F', long, value_name = "NAME=VALUE")]
    pub(crate) form: Vec<String>,
    /// Send the body in chunks, as a client does that does not know its length. Example: --body-file order.json --chunked
    #[arg(long)]
    pub(crate) chunked: bool,
    /// A file with a whole request as it goes over the wire: its first line, headers, an empty line, the body. The URL only says where.
    /// Example: --raw-request request.txt
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "body", "body_file", "form", "chunked", "urls_file", "har", "access_log", "requests"])]
    pub(crate) raw_request: Option<PathBuf>,
    /// Follow so many redirects in a row, on the same server; others count as failed. Example: --follow-redirects 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) follow_redirects: Option<u32>,
    /// Ask for compressed answers (gzip, br, zstd, deflate); what looks at bodies looks at them uncompressed. Example: --compressed
    #[arg(long)]
    pub(crate) compressed: bool,
    /// Fill in {{counter}}, {{uuid}}, {{random 1 100}}, {{float 0 1}}, {{regex [a-z]{8}}}, {{timestamp}}, {{env NAME}} and, from a CSV
    /// file, {{csv.COLUMN}} in URL, headers and body.
    /// Example: --template 'http://localhost:8080/user/{{random 1 100}}'
    #[arg(long)]
    pub(crate) template: bool,
    /// The file of {{csv.COLUMN}}: a line of names, then a line for each request. Example: --csv-data users.csv
    #[arg(long, value_name = "FILE")]
    pub(crate) csv_data: Option<PathBuf>,
    /// A file with a URL on each line, perhaps with a method before and a weight behind it, or vegeta's targets; requested in turn.
    /// Example: --urls urls.txt
    #[arg(long = "urls", value_name = "FILE", conflicts_with_all = ["har", "requests"])]
    pub(crate) urls_file: Option<PathBuf>,
    /// Take URLs, or the bodies of --body-lines, at random instead of in turn. Example: --urls urls.txt --shuffle
    #[arg(long)]
    pub(crate) shuffle: bool,
    /// The requests in a web server's access log (common or combined format), in turn. Example: --access-log access.log
    #[arg(long, value_name = "FILE", conflicts_with_all = ["urls_file", "har", "requests", "method", "body", "body_file", "form"])]
    pub(crate) access_log: Option<PathBuf>,
    /// Send each request when it is due, once: as the access log says, or milliseconds and a tab before each line of --urls. Example:
    /// --access-log access.log --replay
    #[arg(long, conflicts_with_all = ["rate", "rate_per_connection", "stages", "warmup", "shuffle", "find_best", "find_rate", "until_ci", "vs", "vs_cmd", "preset"])]
    pub(crate) replay: bool,
    /// How much faster than it was. Example: --replay --replay-speed 2x
    #[arg(long, value_name = "FACTOR", requires = "replay", value_parser = values::factor)]
    pub(crate) replay_speed: Option<f64>,
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
    /// How requests of --rate or --find-rate are spread: uniform (at equal distances), poisson (at random, as from many users), or burst:N
    /// (N at once, as many times a second as make the rate). Example: --rate 1k --arrivals burst:100
    #[arg(long, value_name = "KIND", value_parser = values::arrivals)]
    pub(crate) arrivals: Option<Arrivals>,
    /// Most requests under way on a connection; 1 if not given. Example: --pipeline 16
    #[arg(long, value_name = "N", value_parser = values::some_size)]
    pub(crate) pipeline: Option<usize>,
    /// How long to send before measuring. `auto` is until throughput and latency are steady, 0.5 s at least and 5 s at most; auto if not
    /// given, 0 with -n or --stage. Example: --warmup 5s
    #[arg(long, value_name = "auto|TIME", value_parser = values::warm_up)]
    pub(crate) warmup: Option<WarmUp>,
    /// A part of the run with its own load, instead of -c, --rate and -d; may be repeated: so many connections, requests a second
    /// (/s), or a rise (..). Example: --stage 10s:10..200 --stage 30s:200
    #[arg(long = "stage", value_name = "TIME:LOAD", value_delimiter = ',', value_parser = values::stage,
          conflicts_with_all = ["duration", "count", "rate", "rate_per_connection"])]
    pub(crate) stages: Vec<Stage>,
    /// Longest wait for a whole answer; it then counts as failed, with this latency; 10s if not given. Example: --timeout 2s
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Longest wait for the first byte of an answer, from when its request was written; less than --timeout. Example:
    /// --first-byte-timeout 500ms
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) first_byte_timeout: Option<Duration>,
    /// Longest silence within an answer; less than --timeout. Example: --idle-timeout 2s --timeout 5m
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// Longest wait for a connection; 5s if not given. Example: --connect-timeout 500ms
    #[arg(long, value_name = "TIME", value_parser = values::some_duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// Close each connection after one answer. Example: forebay load localhost:8080/local --no-keepalive
    #[arg(long)]
    pub(crate) no_keepalive: bool,
    /// Close each connection after so many requests. Example: --requests-per-connection 100
    #[arg(long, value_name = "N", value_parser = values::some_count, conflicts_with = "no_keepalive")]
    pub(crate) requests_per_connection: Option<u64>,
    /// Connections opened a second at the start, instead of all at once; what is still closed when measuring begins is opened within it.
    /// Example: -c 1000 --connect-rate 100 --warmup 10s
    #[arg(long, value_name = "RATE", value_parser = values::connect_rate, conflicts_with_all = ["find_best", "preset"])]
    pub(crate) connect_rate: Option<f64>,
    /// End the run after so many failures. Example: --bail 100
    #[arg(long, value_name = "COUNT", value_parser = values::some_count)]
    pub(crate) bail: Option<u64>,
    /// How the kernel is asked to receive and send: io_uring takes less CPU where it can serve (HTTP/1.1 without TLS, connections
    /// that stay open, Linux 6.1); auto takes it there for closed loads of 16 connections a thread or more. Example: --engine epoll
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) engine: Option<EngineName>,

    /// Seed of everything random; 1 if not given. Example: --seed 7
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Send HTTP/1.0 requests, with Connection: keep-alive unless --no-keepalive is given. Example: --http1.0
    #[arg(long = "http1.0", conflicts_with_all = ["http2", "chunked"])]
    pub(crate) http10: bool,
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
    /// The lowest version of TLS. Example: --tls-min 1.3
    #[arg(long, value_name = "1.2|1.3", value_parser = values::tls_version)]
    pub(crate) tls_min: Option<tls::Version>,
    /// The highest version of TLS. Example: --tls-max 1.2
    #[arg(long, value_name = "1.2|1.3", value_parser = values::tls_version)]
    pub(crate) tls_max: Option<tls::Version>,
    /// The cipher suites of TLS to offer, the preferred first. Example: --tls-ciphers TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) tls_ciphers: Vec<String>,
    /// Make a whole TLS handshake for every connection. Example: --no-keepalive --no-tls-resumption
    #[arg(long)]
    pub(crate) no_tls_resumption: bool,
    /// The server's name for TLS, instead of the URL's host. Example: --server-name shop.example
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// Go through this HTTP proxy: requests for http are sent to it with the whole URL, for https it is asked for a connection (CONNECT).
    /// Example: --proxy ann:secret@localhost:3128
    #[arg(
        long,
        value_name = "[USER:PASSWORD@]HOST:PORT",
        conflicts_with = "unix_socket"
    )]
    pub(crate) proxy: Option<String>,
    /// Ask the proxy for a connection (CONNECT) for http, too. Example: --proxy localhost:3128 --proxytunnel
    #[arg(long, requires = "proxy")]
    pub(crate) proxytunnel: bool,
    /// The local addresses of connections, which take them in turn. Example: --bind 127.0.0.2,127.0.0.3
    #[arg(
        long,
        value_name = "ADDRESS",
        conflicts_with = "unix_socket",
        value_delimiter = ','
    )]
    pub(crate) bind: Vec<IpAddr>,
    /// Connect to another host and port than a URL says; parts that are empty mean any, or the same. May be repeated, the first that
    /// fits counts. Example: --connect-to shop.example:443:localhost:8443
    #[arg(long, value_name = "HOST:PORT:HOST:PORT", value_parser = values::connect_to, conflicts_with_all = ["unix_socket", "proxy"])]
    pub(crate) connect_to: Vec<ConnectTo>,
    /// Resolve the host's name anew for each connection; opening it includes that. Example: --no-keepalive --dns-each
    #[arg(long, conflicts_with_all = ["unix_socket", "proxy"])]
    pub(crate) dns_each: bool,
    /// Take the host's IPv4 address. Example: --ipv4
    #[arg(long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Take the host's IPv6 address. Example: --ipv6
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Connect to a Unix socket instead of the URL's host. Example: --unix-socket web.sock
    #[arg(long, value_name = "FILE")]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Permit hosts other than this machine. Only for servers that are yours. Example: --allow-remote
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Statuses that count as right; 200-399 if not given. Example: --expect-status 2xx,304
    #[arg(long, value_name = "STATUSES", value_delimiter = ',', value_parser = values::statuses)]
    pub(crate) expect_status: Vec<RangeInclusive<u16>>,
    /// A header that every answer must have, or its name alone; may be repeated. Example: --expect-header 'content-type: text/html'
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) expect_header: Vec<String>,
    /// What every body must be; after `~`, what must be in it. Also regex:EXPRESSION, length:BYTES and sha256:HEX. Example:
    /// --expect-body '~hello'
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_json")]
    pub(crate) expect_body: Option<String>,
    /// The JSON that every body must be, however it is written; or a path in it, with `=` and the value that must be there. Example:
    /// --expect-json '$.user.name=Ann'
    #[arg(long, value_name = "JSON")]
    pub(crate) expect_json: Option<String>,

    #[command(flatten)]
    pub(crate) forms: Forms,
    /// Write a CSV line for each request: when it was due, its latency, status, bytes, and what failed. Example: --log requests.csv
    #[arg(long, value_name = "FILE", conflicts_with = "until_ci")]
    pub(crate) log: Option<PathBuf>,
    /// Leave out the latency of what failed. Example: --exclude-errors
    #[arg(long)]
    pub(crate) exclude_errors: bool,
    /// A name for the run. Example: --title 'after the change'
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Print the result only. Example: --quiet
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Send one request, print it and its answer as they go over the wire, and end. Example: --debug
    #[arg(long, conflicts_with_all = ["find_best", "find_rate", "until_ci", "vs", "vs_cmd", "preset", "stages", "assertions", "json"])]
    pub(crate) debug: bool,

    /// What must hold, with commas; otherwise exit code 3. Example: --assert 'p99<10ms,errors<0.1%,rate>5000'
    #[arg(long = "assert", value_name = "CONDITIONS")]
    pub(crate) assertions: Vec<String>,
    /// Write the assertions as JUnit XML. Example: --assert 'p99<10ms' --junit load.xml
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
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
    /// Let agents on several machines make the load together, each with its share of connections, rate and count; they are started with
    /// `forebay load agent`. Example: --agents 10.0.0.5:9400,10.0.0.6:9400
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// What the agents of --agents want to hear. Example: --token 2f9e8c
    #[arg(
        long,
        value_name = "TEXT",
        env = "FOREBAY_LOAD_TOKEN",
        hide_env_values = true,
        requires = "agents"
    )]
    pub(crate) token: Option<String>,
    /// A known protocol of measuring. tfb is TechEmpower's: a URL without a path has the answers of all its routes checked, /json, /plaintext, /db,
    /// /queries, /fortunes, /cached-queries, /updates, and measured with each number of connections or rows, 15 s each, a quarter of an hour in all; a URL with a
    /// path is loaded with 16 to 512 connections. The last rung of plaintext opens 16,384, for which server.connections_max of a Forebay must be raised. Example: forebay load --preset tfb http://localhost:8080/ -d 2
    #[arg(long, value_name = "NAME", conflicts_with_all = ["connections", "count", "stages", "rate", "rate_per_connection", "vs", "vs_cmd", "until_ci"])]
    pub(crate) preset: Option<Preset>,
    /// Only these tests of --preset. Example: --tests db,queries
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "preset")]
    pub(crate) tests: Vec<Test>,
    /// These numbers of connections for all tests of --preset. Example: --levels 16,256
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "preset", value_parser = values::some_size)]
    pub(crate) levels: Vec<usize>,
    /// These numbers of rows for the tests of --preset that ask for several. Example: --rows 1,20
    #[arg(long, value_name = "N,N", value_delimiter = ',', requires = "preset", value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) rows: Vec<u32>,

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
        self.forms.style == Some(Style::Jmeter)
    }
}

/// How the kernel is asked to receive and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    Auto,
    Epoll,
    IoUring,
}

/// Known protocols of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// TechEmpower's framework benchmarks.
    Tfb,
}
