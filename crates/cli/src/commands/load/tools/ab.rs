//! `ab`: closed connections unless `-k`, one thread, a count.

use super::{Extra, Grammar, Table, one_url, words::Flag};
use crate::commands::load::{
    arguments::Options,
    values::{header, some_count, some_duration, some_size},
};

/// What `-t` means for the count.
const COUNT_WITH_TIME: u64 = 50_000;

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults: |options| {
        options.connections = Some(1);
        options.count = Some(1);
        options.threads = Some(1);
        options.no_keepalive = true;
        // It asks no server for its name.
        options.insecure = true;
        options.timeout = Some(std::time::Duration::from_secs(30));
        options.warmup = Some(std::time::Duration::ZERO);
    },
    flags: &[
        Flag::value(
            &["-n"],
            "REQUESTS",
            "Requests; 1 if not given.",
            |options, text| {
                options.count = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-c"],
            "CONCURRENCY",
            "Requests at a time; 1 if not given.",
            |options, text| {
                options.connections = Some(some_size(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-t"],
            "SECONDS",
            "Longest time; means -n 50000 unless -n follows.",
            |options, text| {
                options.duration = Some(some_duration(text)?);
                options.count = Some(COUNT_WITH_TIME);
                Ok(())
            },
        ),
        Flag::value(
            &["-s"],
            "SECONDS",
            "Longest wait for an answer; 30 if not given.",
            |options, text| {
                options.timeout = Some(some_duration(text)?);
                Ok(())
            },
        ),
        Flag::switch(
            &["-k"],
            "Keep connections open. Requests are HTTP/1.1, ab's are HTTP/1.0.",
            |options| {
                options.no_keepalive = false;
            },
        ),
        Flag::value(&["-p"], "FILE", "The body, sent with POST.", |options, text| {
            body(options, text, "POST");
            Ok(())
        }),
        Flag::value(&["-u"], "FILE", "The body, sent with PUT.", |options, text| {
            body(options, text, "PUT");
            Ok(())
        }),
        Flag::value(
            &["-T"],
            "TYPE",
            "Content-Type of the body; text/plain if not given.",
            |options, text| {
                options.headers.push(("Content-Type".to_owned(), text.to_owned()));
                Ok(())
            },
        ),
        Flag::switch(&["-i"], "HEAD instead of GET.", |options| {
            options.method = Some("HEAD".to_owned());
        }),
        Flag::value(&["-m"], "METHOD", "The method.", |options, text| {
            options.method = Some(text.to_owned());
            Ok(())
        }),
        Flag::value(
            &["-H"],
            "HEADER",
            "A header, `Name: value`; may be repeated.",
            |options, text| {
                options.headers.push(header(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-C"],
            "NAME=VALUE",
            "A cookie; may be repeated.",
            |options, text| {
                let known = options.headers.iter_mut().find(|(name, _)| name == "Cookie");
                match known {
                    Some((_, cookies)) => *cookies = format!("{cookies}; {text}"),
                    None => options.headers.push(("Cookie".to_owned(), text.to_owned())),
                }
                Ok(())
            },
        ),
        Flag::value(
            &["-A"],
            "USER:PASSWORD",
            "Basic authentication.",
            |options, text| {
                options.old.user = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::switch(&["-q"], "No progress.", |options| {
            options.quiet = true;
        }),
        Flag::switch(
            &["-l"],
            "Print no length of the document. Bodies may differ in length here anyway.",
            |options| options.old.more.push(Extra::AnyLength),
        ),
        Flag::switch(&["-r"], "Go on after socket errors. It always does here.", |_| {}),
        Flag::switch(&["-d"], "No percentages.", |options| {
            options.old.more.push(Extra::NoPercentages);
        }),
        Flag::switch(&["-S"], "No medians and deviations.", |options| {
            options.old.more.push(Extra::NoDeviations);
        }),
        Flag::value(&["-e"], "FILE", "Write percentages as CSV.", |options, text| {
            options.old.percentages = Some(text.into());
            Ok(())
        }),
        Flag::value(
            &["-g"],
            "FILE",
            "Write latencies as gnuplot reads them.",
            |options, text| {
                options.old.gnuplot = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-E"],
            "FILE",
            "The client's certificate and key (PEM).",
            |options, text| {
                options.cert = Some(text.into());
                options.key = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(&["-W"], "WORKERS", "Threads; 1 if not given.", |options, text| {
            options.threads = Some(some_size(text)?);
            Ok(())
        }),
        Flag::refused(
            &["-v"],
            "requests and answers are not printed; `curl -v URL` shows one",
        ),
        Flag::refused(
            &["-w", "-x", "-y", "-z"],
            "there are no HTML tables; `forebay load URL --html FILE` writes a page",
        ),
        Flag::refused(
            &["-X", "-P"],
            "there is no way through a proxy: it would be what is measured",
        ),
        Flag::refused(&["-b"], "the system sizes its own socket buffers"),
        Flag::refused(&["-B"], "the system chooses the local address"),
        Flag::refused(
            &["-R"],
            "connections are opened at once; `forebay load URL --stage 10s:1..200` raises their number",
        ),
        Flag::refused(
            &["-Z", "-f", "-I"],
            "ciphers, protocol and server name of TLS are not chosen by hand",
        ),
        Flag::refused(&["-V"], "`forebay version` prints the version"),
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        let has_type = options
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if options.body_file.is_some() && !has_type {
            options
                .headers
                .push(("Content-Type".to_owned(), "text/plain".to_owned()));
        }
        one_url(options, operands)
    },
};

fn body(options: &mut Options, file: &str, method: &str) {
    options.body_file = Some(file.into());
    options.method = Some(method.to_owned());
}
