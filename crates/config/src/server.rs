//! `[server]`, `[tls.NAME]`, `[admin]`, `[log]`

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_tls::ClientCertificates;

use crate::build::Context;
use crate::fields::Fields;
use crate::key::{GIB, HOUR, KIB, TIB, YEAR};
use crate::network::TrustedProxies;
use crate::section::{Entry, Unused, section, unless, words};
use crate::setting::{Text, parsed, text_settings};
use crate::{Listen, Secret};

/// Longest path of a Unix socket on Linux, in bytes (`sun_path` without its NUL).
const SOCKET_PATH_MAX: usize = 107;

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

section! {
    /// The listeners, and what bounds every connection and request.
    #[check(Server::check)]
    #[unused(Server::unused)]
    pub struct Server {
        /// Addresses to listen on: `host:port`, `[v6]:port` or `unix:path`, and `https://host:port` with the certificates of `[tls.NAME]`.
        /// Port 0 lets the system choose.
        listen: Vec<Listen> as at_least(1) = "127.0.0.1:8080",
        /// A PEM file with the authorities that sign certificates of clients, for listeners with TLS. Without it clients are asked for
        /// none.
        client_ca: Option<PathBuf> as FILE,
        /// PEM files with lists of revoked certificates of clients.
        client_crl: Vec<PathBuf> as FILES = "",
        /// Whether a client without a certificate is turned away.
        client_certificates: ClientAuthentication = "required" => "the handshake fails",
        /// Addresses of proxies, such as `10.0.0.0/8`, and `unix` for those that come by Unix sockets. What they say about a client, its
        /// address and whether it speaks TLS, is believed; what others say is not.
        trusted_proxies: TrustedProxies = "",
        /// Where they say it: in the header fields `X-Forwarded-For` and `X-Forwarded-Proto`, in `Forwarded` (RFC 7239), or by the PROXY
        /// protocol, version 1 or 2, with which each of their connections must then begin. A proxy must say it itself, whatever the client
        /// sent.
        forwarded: ForwardedField = "x-forwarded-for",
        /// Requests without TLS are redirected to the same address with it (308). Those from Unix sockets are not, unless a trusted proxy
        /// there says that the client had none.
        https_only: bool = "false",
        /// How long browsers that were here with TLS insist on it (`Strict-Transport-Security`); `0s`: the header is not sent.
        hsts: Duration as duration(0, 10 * YEAR) = "0s",
        /// NAMEs of `[policy.NAME]` that hold for every request, also for one that no route answers. Those of routes come after them.
        policy: Vec<String> as names("policy") = "",
        /// Permissions of the Unix sockets in `listen`, in octal: `0660` lets their owner and group connect. Without the key those that the
        /// umask leaves.
        unix_mode: Option<UnixMode>,
        /// I/O threads; 0: one per core, with pools one per two cores, as of the server's start.
        threads: usize as integer(0, 256) = "0",
        /// Request line and headers together, with 100 header fields at most.
        header_bytes_max: u64 as size(KIB, 256 * KIB) = "32KiB" => "431",
        /// A request's body.
        body_bytes_max: u64 as size(0, TIB) = "1MiB" => "413",
        /// From a request's first byte to the end of its headers.
        header_timeout: Duration as TIMEOUT = "10s" => "408",
        /// How long the server waits for the bytes of a body, all waits together.
        body_timeout: Duration as TIMEOUT = "30s" => "408",
        /// Bodies up to this are read whole before a pool's worker gets the request, so that no slow client holds a worker. Longer ones
        /// reach it as they come.
        body_buffer_max: u64 as size(0, GIB) = "1MiB",
        /// How much of an answer that a worker has whole is kept in memory for a client that takes it slowly; what is longer goes to a
        /// temporary file. Streams, whose length a worker does not announce, wait at the worker. 0: all do.
        answer_buffer_max: u64 as size(0, GIB) = "1MiB",
        /// Most bytes of all answers together in temporary files, which have no name, in the folder that `TMPDIR` says. Beyond it answers
        /// wait at their workers.
        answer_spool_max: u64 as size(0, TIB) = "1GiB",
        /// Most memory of `body_buffer_max` and `answer_buffer_max` for all requests together. Beyond it bodies reach workers as they come,
        /// and answers go to files.
        buffers_max: u64 as size(0, TIB) = "256MiB",
        /// Bytes a second that a client has to send of a body, or take of an answer, while it is waited for and `min_rate_grace` is over.
        /// 0: any rate will do.
        min_rate: u64 as size(0, GIB) = "256B" => "408, or the connection is closed",
        /// How long a client may be slower than `min_rate`, all waits for it together.
        min_rate_grace: Duration as TIMEOUT = "10s",
        /// Which answers are compressed, with zstd, Brotli or gzip, for clients that accept it. `public`: none that may hold a secret
        /// beside text that somebody else chose, see routing.md; `always`: those too; `off`: none. Only types that become shorter, such as
        /// text, JSON, JavaScript and SVG.
        compress: Compress = "off",
        /// Answers shorter than this are not compressed, unless the client accepts nothing else. Those whose length is not known beforehand
        /// are.
        compress_bytes_min: u64 as size(0, GIB) = "1KiB",
        /// The share of its time, over about a second, that an I/O thread may spend on compression. Beyond it answers go out as they are,
        /// and those already begun wait.
        compress_cpu_max: f64 = "0.25",
        /// How long a connection stays open without a request; and how long it is written to while its client takes nothing.
        idle_timeout: Duration as TIMEOUT = "75s" => "the connection is closed",
        /// Open connections on all listeners together.
        connections_max: usize as integer(1, 1_000_000) = "10000" => "the new connection is closed",
        /// From a request's arrival to its answer, queue time included.
        deadline: Duration as TIMEOUT = "30s" => "504",
        /// How long a stopping server waits for the requests it has read.
        drain_max: Duration as duration(0, HOUR) = "30s" => "the connection is closed",
        /// How long `forebay upgrade` waits until the new process is ready.
        upgrade_timeout: Duration as TIMEOUT = "1m" => "the old process continues",
        /// The user to switch to when started by root, after listeners are open and certificates are read. Workers run as this user, too.
        user: Option<String>,
        /// The group to switch to; without the key, that of `user`.
        group: Option<String>,
    }
}

section! {
    /// Status of the server, its web console, and its control socket.
    #[check(Admin::check)]
    pub struct Admin {
        /// Address for health, metrics, status and the web console, written as in `server.listen`; `off`: none. Without `edit_token` it only
        /// reads; changes go through the socket.
        listen: Option<Listen> = "127.0.0.1:8081",
        /// Permissions of a Unix socket in `listen`, as in `server.unix_mode`.
        unix_mode: Option<UnixMode>,
        /// Host names that the listener accepts besides `localhost` and addresses; this protects against DNS rebinding.
        hosts: Vec<String> = "" => "421",
        /// The environment variable with the token that lets the web console read. Without this key, whoever is on the same machine may do that,
        /// and nobody else.
        read_token: Option<Secret> => "401",
        /// The environment variable with the token that lets the web console read and change: documents, pools, releases, jobs. Without this key
        /// it changes nothing.
        edit_token: Option<Secret> => "401 or 403",
        /// File of the control socket, mode 0600: reload, resize, stop, log level; `off`: none.
        socket: Option<PathBuf> as NEW_FILE = "forebay.sock",
    }
}

section! {
    /// Level, format and destination of the log.
    #[check(Log::check)]
    pub struct Log {
        /// `error`, `warn`, `info`, `debug` or `trace`; also per target, as in `info,forebay::pool=debug`.
        level: String = "info",
        /// `auto`: text on a terminal, a JSON object a line otherwise.
        format: LogFormat = "auto",
        /// Where lines go instead of standard error.
        file: Option<PathBuf> as NEW_FILE,
        /// When `file` is renamed and begun anew.
        rotate: LogRotation,
        /// Whether each request is logged.
        access: bool = "false",
    }
}

section! {
    /// When a log file is rotated.
    #[derive(Copy)]
    pub struct LogRotation {
        /// The file's size.
        size: u64 as size(64 * KIB, TIB) = "100MiB",
        /// Old files kept.
        keep: usize as integer(1, 1_000) = "10",
    }
}

words! {
    /// Whether clients have to have certificates.
    pub enum ClientAuthentication {
        /// A client without one is turned away.
        Required = "required",
        /// A client without one is served.
        Optional = "optional",
    }
}

words! {
    /// Where a proxy speaks of its client.
    pub enum ForwardedField {
        /// `X-Forwarded-For` and `X-Forwarded-Proto`.
        XForwardedFor = "x-forwarded-for",
        /// `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
        /// The PROXY protocol, in front of everything else.
        ProxyProtocol = "proxy-protocol",
    }
}

words! {
    /// Which responses are compressed.
    pub enum Compress {
        /// None.
        Off = "off",
        /// Responses that hold no secret of one user beside text that another user chose.
        Public = "public",
        /// All whose type becomes shorter.
        Always = "always",
    }
}

words! {
    /// The format of log lines.
    pub enum LogFormat {
        /// Text on a terminal, JSON otherwise.
        Auto = "auto",
        /// Human-readable lines.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

impl Server {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if self.threads == 0 {
            // Workers of pools need cores too, and with fewer threads they receive larger batches.
            let cores = context.environment.cores;
            let has_pools = !context.sections.of("pool").is_empty();
            let threads = if has_pools { cores.div_ceil(2) } else { cores }.min(256);
            self.threads = context.environment.io_threads.unwrap_or(threads);
        }
        let written = fields.texts("listen").iter();
        let valid = written.clone().filter(|spot| spot.text.parse::<Listen>().is_ok());
        for (at, (listen, spot)) in self.listen.iter().zip(valid).enumerate() {
            if listen.is_taken(&self.listen[..at]) {
                let message = format!("`{listen}` is listed twice");
                context.note(fields.problem_at(spot.line, "listen", message));
            }
        }
        if self.https_only && !written.clone().any(|spot| spot.text.starts_with("https://")) {
            let message = "no address of `listen` begins with `https://`";
            context.note(fields.problem("https_only", message));
        }
        if let Some(listen) = self.listen.iter().find(|listen| listen.is_tls())
            && context.sections.of("tls").is_empty()
        {
            let message = format!(
                "`{listen}` needs a certificate: add [tls.NAME] with `cert` and `key`, or with `acme`"
            );
            context.note(fields.problem("listen", message));
        }
    }

    fn unused(&self) -> Unused {
        let why = "it says something only beside `client_ca`";
        unless(
            self.client_ca.is_some(),
            &["client_crl", "client_certificates"],
            why,
        )
    }

    /// Certificates that clients have; `None`: they are asked for none.
    pub fn client_certificates(&self) -> Option<ClientCertificates> {
        Some(ClientCertificates {
            authorities: self.client_ca.clone()?,
            revoked: self.client_crl.clone(),
            are_required: self.client_certificates == ClientAuthentication::Required,
        })
    }
}

impl Admin {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if let Some(path) = &self.socket {
            check_socket_path(path, fields.line_of("socket"), "socket", fields, context);
        }
    }

    /// Checks that the address is not one of the server.
    pub(crate) fn check_beside(&self, server: &Server, fields: &Fields, context: &mut Context<'_>) {
        let Some(listen) = &self.listen else { return };
        if listen.is_tls() {
            let message = format!("`{listen}` would be encrypted, which this address is not");
            context.note(fields.problem("listen", message));
        }
        if listen.is_taken(&server.listen) {
            let message = format!("`{listen}` is an address of server.listen too");
            context.note(fields.problem("listen", message));
        }
    }
}

impl Log {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if !is_level_list(&self.level) {
            let message = format!(
                "found {:?}, expected one of error, warn, info, debug, trace, off, \
                 or a list such as \"info,forebay::pool=debug\"",
                self.level
            );
            context.note(fields.problem("level", message));
        }
    }
}

/// Whether a text is a valid `log.level`.
pub fn is_level_list(text: &str) -> bool {
    text.split(',').all(|part| {
        let (target, level) = part.split_once('=').unwrap_or(("forebay", part));
        let is_target = !target.is_empty()
            && target
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':' || b == b'-');
        is_target && LEVELS.contains(&level)
    })
}

impl Text for Listen {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        match written.parse() {
            Ok(Self::Unix(path)) => {
                let path = context.resolve(entry.fields, path);
                check_socket_path(&path, line, entry.key.name, entry.fields, context);
                Some(Self::Unix(path))
            }
            Ok(listen) => Some(listen),
            Err(error) => {
                entry.note(context, line, error.to_string());
                None
            }
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}
text_settings!(Listen);

fn check_socket_path(path: &Path, line: usize, key: &str, fields: &Fields, context: &mut Context<'_>) {
    let bytes = path.as_os_str().len();
    if bytes > SOCKET_PATH_MAX {
        let path = path.display();
        let message =
            format!("`{path}` has {bytes} bytes, a Unix socket's path has at most {SOCKET_PATH_MAX}");
        context.note(fields.problem_at(line, key, message));
    }
}

/// Permissions of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixMode(pub u32);

impl std::str::FromStr for UnixMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self)
            .ok_or_else(|| format!("found {text:?}, expected permissions in octal, such as \"0660\""))
    }
}

impl std::fmt::Display for UnixMode {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:04o}", self.0)
    }
}
parsed!("": UnixMode);
