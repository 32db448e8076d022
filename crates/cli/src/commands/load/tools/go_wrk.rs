//! `go-wrk`: 1000 requests over 100 connections. Its `-m` is the method, but a document that many follow means the count; a number is
//! taken as what that document means.

use forebay_load::search::WarmUp;

use super::{Extra, Grammar, Table, flags, one_url, words::Flag};
use crate::commands::load::values::{header, some_count};

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Go,
    operands: "URL",
    defaults: |options| {
        options.connections = Some(100);
        options.threads = Some(1);
        options.count = Some(1000);
        options.warmup = Some(WarmUp::NONE);
    },
    flags: &[
        flags::threads(&["-t"], "Threads; 1 if not given."),
        flags::connections(&["-c"], "Connections; 100 if not given."),
        flags::count(&["-n"], "COUNT", "Requests; 1000 if not given."),
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
        flags::body(&["-b"], "The body of every request."),
        flags::body_file(&["-p"]),
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
        flags::certificate(&["-cert"]),
        flags::key(&["-key"]),
        flags::authority(&["-CA"], "Certificates that the server's must lead to."),
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
