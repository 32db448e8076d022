//! `hose`, and `perfer` after it: `-p` is a path, the operand `HOST:PORT`; connections are closed unless `-k`.

use forebay_load::search::WarmUp;

use super::{Grammar, Table, flags, words::Flag};

/// Connections of a hose that is not told how many.
const CONNECTIONS: usize = 1000;

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "HOST:PORT",
    defaults: |options| {
        options.connections = Some(CONNECTIONS);
        options.threads = Some(1);
        options.duration = Some(std::time::Duration::from_secs(1));
        options.no_keepalive = true;
        options.warmup = Some(WarmUp::NONE);
    },
    flags: &[
        flags::threads(&["-t", "--threads"], "Threads; 1 if not given."),
        flags::connections(&["-c", "--connections"], "Connections; 1000 if not given."),
        Flag::value(
            &["-p", "--path"],
            "PATH",
            "The path, with or without its first slash.",
            |options, text| {
                options.url = vec![text.to_owned()];
                Ok(())
            },
        ),
        flags::duration(&["-d", "--duration"], "SECONDS", "How long; 1.0 if not given."),
        flags::keep_alive(&["-k", "--keep-alive"], "Keep connections open."),
        flags::pipeline(&["-b", "--backlog"]),
        flags::overall_rate(&["-m", "--meter"], "Requests a second over all connections."),
        Flag::value(
            &["-r", "--request"],
            "FILE",
            "A file with a whole request as it goes over the wire.",
            |options, text| {
                options.raw_request = Some(text.into());
                options.old.sequence = true;
                Ok(())
            },
        ),
        flags::headers(&["-a", "--add"], "HEADER", flags::HEADER),
        flags::body(&["--post"], "The body, sent with POST."),
        Flag::switch(&["-j", "--json"], "The result as JSON.", |options| {
            options.forms.json = Some("-".into());
        }),
        Flag::refused(
            &["-l", "--spread"],
            "`forebay load URL --percentiles 50,90,99` shows percentiles",
        ),
        Flag::refused(
            &["-g", "--graph"],
            "`forebay load URL --html FILE` draws the latencies",
        ),
        Flag::refused(&["-z", "-e"], "how sockets are waited for is not chosen by hand"),
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        let path = options.url.pop().unwrap_or_default();
        let [host] = operands else {
            return Err(match operands {
                [] => "HOST:PORT is missing, such as 127.0.0.1:6363".to_owned(),
                _ => format!("found {:?} after HOST:PORT, expected nothing more", operands[1]),
            });
        };
        if host.starts_with("https:") {
            return Err("hose speaks http only; `forebay load https://...` speaks TLS".to_owned());
        }
        let host = host.trim_start_matches("http://");
        // Its author's later tool takes the whole URL; hose the path alone.
        let url = if path.is_empty() {
            host.to_owned()
        } else {
            format!("{}/{}", host.trim_end_matches('/'), path.trim_start_matches('/'))
        };
        options.url = vec![format!("http://{url}")];
        if options.pipeline.is_some_and(|depth| depth > 1) && options.no_keepalive {
            return Err("-b: more than one request on a connection needs -k".to_owned());
        }
        Ok(())
    },
};
