//! `[server]`, `[admin]`, `[log]`.

use std::path::Path;

use super::Builder;
use crate::config::fields::{Fields, Spot};
use crate::config::{
    Admin, Compress, ForwardedField, Listen, Log, LogFormat, LogRotation, NetworkError, Server,
    TrustedProxies,
};

/// Longest path of a Unix socket on Linux, in bytes (`sun_path` without its NUL).
const SOCKET_PATH_MAX: usize = 107;

/// The word for proxies that come by Unix sockets.
pub(crate) const UNIX: &str = "unix";

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

impl Builder<'_> {
    pub(super) fn server(&mut self, fields: &Fields, has_pools: bool) -> Server {
        let threads = match fields.integer("threads") as usize {
            // Workers of pools need cores too, and with fewer threads they receive larger batches.
            0 if has_pools => self.environment.cores.div_ceil(2).min(256),
            0 => self.environment.cores.min(256),
            threads => threads,
        };
        Server {
            listen: self.listeners(fields),
            trusted_proxies: self.trusted_proxies(fields),
            client_certificates: self.client_certificates(fields),
            https_only: self.https_only(fields),
            hsts: fields.duration("hsts"),
            unix_mode: self.unix_mode(fields),
            threads,
            header_bytes_max: fields.integer("header_bytes_max"),
            body_bytes_max: fields.integer("body_bytes_max"),
            header_timeout: fields.duration("header_timeout"),
            body_timeout: fields.duration("body_timeout"),
            body_buffer_max: fields.integer("body_buffer_max"),
            answer_buffer_max: fields.integer("answer_buffer_max"),
            answer_spool_max: fields.integer("answer_spool_max"),
            buffers_max: fields.integer("buffers_max"),
            min_rate: fields.integer("min_rate"),
            min_rate_grace: fields.duration("min_rate_grace"),
            compress: compress(fields.text("compress")),
            compress_bytes_min: fields.integer("compress_bytes_min"),
            compress_cpu_max: fields.share("compress_cpu_max"),
            idle_timeout: fields.duration("idle_timeout"),
            connections_max: fields.integer("connections_max") as usize,
            deadline: fields.duration("deadline"),
            drain_max: fields.duration("drain_max"),
        }
    }

    pub(super) fn admin(&mut self, fields: &Fields, server: &Server) -> Admin {
        let written = Spot {
            text: fields.text("listen").to_owned(),
            line: fields.line_of("listen"),
        };
        let listen = if written.text == "off" {
            None
        } else {
            self.listener(fields, &written)
        };
        if let Some(listen) = listen.as_ref().filter(|listen| listen.is_tls()) {
            self.note(fields.problem(
                "listen",
                format!("`{listen}` would be encrypted, which this address is not"),
            ));
        }
        if let Some(listen) = listen.as_ref().filter(|listen| is_taken(listen, &server.listen)) {
            self.note(fields.problem("listen", format!("`{listen}` is an address of server.listen too")));
        }
        let socket = if fields.text("socket") == "off" {
            None
        } else {
            self.file_to_make(fields, "socket")
        };
        if let Some(path) = &socket {
            self.check_socket_path(fields, "socket", fields.line_of("socket"), path);
        }
        Admin {
            listen,
            unix_mode: self.unix_mode(fields),
            hosts: fields
                .texts("hosts")
                .iter()
                .map(|host| host.text.clone())
                .collect(),
            socket,
        }
    }

    fn trusted_proxies(&mut self, fields: &Fields) -> TrustedProxies {
        let mut networks = Vec::new();
        for written in fields
            .texts("trusted_proxies")
            .iter()
            .filter(|written| written.text != UNIX)
        {
            match written.text.parse() {
                Ok(network) => networks.push(network),
                Err(error) => {
                    let error: NetworkError = error;
                    let message = format!("{error}, or \"{UNIX}\"");
                    self.note(fields.problem_at(written.line, "trusted_proxies", message));
                }
            }
        }
        TrustedProxies {
            networks,
            unix: fields
                .texts("trusted_proxies")
                .iter()
                .any(|written| written.text == UNIX),
            field: match fields.text("forwarded") {
                "forwarded" => ForwardedField::Forwarded,
                "proxy-protocol" => ForwardedField::ProxyProtocol,
                _ => ForwardedField::XForwardedFor,
            },
        }
    }

    fn https_only(&mut self, fields: &Fields) -> bool {
        let wanted = fields.flag("https_only");
        let has_tls = fields
            .texts("listen")
            .iter()
            .any(|listen| listen.text.starts_with("https://"));
        if wanted && !has_tls {
            let message = "no address of `listen` begins with `https://`".to_owned();
            self.note(fields.problem("https_only", message));
        }
        wanted
    }

    fn unix_mode(&mut self, fields: &Fields) -> Option<u32> {
        let text = fields.opt_text("unix_mode")?;
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        if mode.is_none() {
            let message = format!("found {text:?}, expected permissions in octal, such as \"0660\"");
            self.note(fields.problem("unix_mode", message));
        }
        mode
    }

    pub(super) fn log(&mut self, fields: &Fields) -> Log {
        let level = fields.text("level");
        if !is_level_list(level) {
            let message = format!(
                "found {level:?}, expected one of error, warn, info, debug, trace, off, \
                 or a list such as \"info,forebay::pool=debug\""
            );
            self.note(fields.problem("level", message));
        }
        Log {
            level: level.to_owned(),
            format: match fields.text("format") {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => LogFormat::Auto,
            },
            file: self.file_to_make(fields, "file"),
            rotate: rotation(fields.table("rotate")),
            access: fields.flag("access"),
        }
    }

    fn listeners(&mut self, fields: &Fields) -> Vec<Listen> {
        let mut listeners = Vec::new();
        for written in fields.texts("listen") {
            let Some(listen) = self.listener(fields, written) else {
                continue;
            };
            if is_taken(&listen, &listeners) {
                let message = format!("`{listen}` is listed twice");
                self.note(fields.problem_at(written.line, "listen", message));
            }
            listeners.push(listen);
        }
        listeners
    }

    fn listener(&mut self, fields: &Fields, written: &Spot) -> Option<Listen> {
        match written.text.parse() {
            Ok(Listen::Unix(path)) => {
                let path = self.resolve(fields, path);
                self.check_socket_path(fields, "listen", written.line, &path);
                Some(Listen::Unix(path))
            }
            Ok(listen) => Some(listen),
            Err(error) => {
                self.note(fields.problem_at(written.line, "listen", error.to_string()));
                None
            }
        }
    }

    fn check_socket_path(&mut self, fields: &Fields, name: &str, line: usize, path: &Path) {
        let bytes = path.as_os_str().len();
        if bytes > SOCKET_PATH_MAX {
            let message = format!(
                "`{}` has {bytes} bytes, a Unix socket's path has at most {SOCKET_PATH_MAX}",
                path.display()
            );
            self.note(fields.problem_at(line, name, message));
        }
    }
}

/// The meaning of the words of `compress`.
pub(super) fn compress(word: &str) -> Compress {
    match word {
        "public" => Compress::Public,
        "always" => Compress::Always,
        _ => Compress::Off,
    }
}

/// Whether an address is already listed. Port 0 is never taken: it is a new port each time.
fn is_taken(listen: &Listen, others: &[Listen]) -> bool {
    others.iter().any(|other| match (listen, other) {
        (Listen::Tcp { port: 0, .. }, _) => false,
        (
            Listen::Tcp { host, port, .. },
            Listen::Tcp {
                host: taken,
                port: by,
                ..
            },
        ) => (host, port) == (taken, by),
        _ => listen == other,
    })
}

/// Whether a text is a valid `log.level`.
pub(crate) fn is_level_list(text: &str) -> bool {
    text.split(',').all(|part| {
        let (target, level) = part.split_once('=').unwrap_or(("forebay", part));
        let is_target = !target.is_empty()
            && target
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':' || b == b'-');
        is_target && LEVELS.contains(&level)
    })
}

/// When a log file is rotated.
pub(super) fn rotation(fields: &Fields) -> LogRotation {
    LogRotation {
        size_bytes: fields.integer("size"),
        keep: fields.integer("keep") as usize,
    }
}
