//! `go-wrk`: 1000 requests over 100 connections. Its `-m` is the method, but a document that many follow means the count; a number is
//! taken as what that document means.

use super::{Extra, Grammar, Table, one_url, words::Flag};
use crate::commands::load::values::{header, some_count, some_size};

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Go,
    operands: "URL",
    defaults: |options| {
        options.connections = Some(100);
        options.threads = Some(1);
        options.count = Some(1000);
        options.warmup = Some(std::time::Duration::ZERO);
    },
    flags: &[
        Flag::value(&["-t"], "N", "Threads; 1 if not given.", |options, text| {
            options.threads = Some(some_size(text)?);
            Ok(())
        }),
        Flag::value(&["-c"], "N", "Connections; 100 if not given.", |options, text| {
            options.connections = Some(some_size(text)?);
            Ok(())
        }),
        Flag::value(
            &["-n"],
            "COUNT",
            "Requests; 1000 if not given.",
            |options, text| {
                options.count = Some(some_count(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-m"],
            "METHOD",
            "The method; a number is the count of requests.",
            |options, text| {
                if let Ok(count) = some_count(text) {
                    options.count = Some(count);
                    options.old.notes.push(format!(
                    "go-wrk itself takes -m as the method: it would send 1000 requests with the method {text}. Here -m {text} is the \
                     number of requests; go-wrk's own flag for it is -n {text}"
                ));
                } else {
                    options.method = Some(text.to_owned());
                }
                Ok(())
            },
        ),
        Flag::value(&["-b"], "TEXT", "The body of every request.", |options, text| {
            options.body = Some(text.to_owned());
            Ok(())
        }),
        Flag::value(
            &["-p"],
            "FILE",
            "A file with the body of every request.",
            |options, text| {
                options.body_file = Some(text.into());
                Ok(())
            },
        ),
        Flag::switch(
            &["-k"],
            "Close each connection after one answer, as go-wrk's -k=true does.",
            |options| {
                options.no_keepalive = true;
            },
        ),
        Flag::value(
            &["-H"],
            "HEADERS",
            "Headers, `Name: value`, with \\n between two.",
            |options, text| {
                for line in text
                    .split('\n')
                    .flat_map(|line| line.split("\\n"))
                    .filter(|line| !line.is_empty())
                {
                    options.headers.push(header(line)?);
                }
                Ok(())
            },
        ),
        Flag::value(
            &["-cert"],
            "FILE",
            "The client's certificate (PEM).",
            |options, text| {
                options.cert = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-key"],
            "FILE",
            "The client's private key (PEM).",
            |options, text| {
                options.key = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-CA"],
            "FILE",
            "Certificates that the server's must lead to.",
            |options, text| {
                options.cacert = Some(text.into());
                Ok(())
            },
        ),
        Flag::switch(&["-i"], "Take any certificate of the server.", |options| {
            options.insecure = true;
        }),
        Flag::value(
            &["-s"],
            "TEXT",
            "What must be in every body; others count as failed.",
            |options, text| {
                options.expect_body = Some(format!("~{text}"));
                options.old.more.push(Extra::Matches);
                Ok(())
            },
        ),
        Flag::switch(&["-r"], "Read whole bodies. They always are here.", |_| {}),
        Flag::refused(
            &["-d", "-f"],
            "there are no masters and slaves; one process is enough on one machine",
        ),
        Flag::help(&["-h", "-help"]),
    ],
    finish: one_url,
};
