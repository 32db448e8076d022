//! The result of ab as HTML tables: its options `-w`, `-x`, `-y` and `-z`. Attributes are put in as they were given; everything else is
//! escaped.

use std::io::{self, Write};

use super::{Line, Step, Times};
use crate::report::{
    Report,
    html::escape,
    style::{
        Extra, StyleOptions, TEXT_MAX,
        figures::{Failed, url},
    },
    words,
};

/// Attributes of the tables' elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Of the table: `-x`.
    pub table: String,
    /// Of each row: `-y`.
    pub row: String,
    /// Of each cell: `-z`.
    pub cell: String,
}

impl Default for Attributes {
    /// What ab takes when it is told nothing.
    fn default() -> Self {
        Self {
            table: String::new(),
            row: "bgcolor=white".into(),
            cell: "bgcolor=white".into(),
        }
    }
}

pub(super) fn announce(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<p>\n This is forebay load in the style of ApacheBench, Version 2.3<br>\n</p>\n<p>"
    )
}

pub(super) fn write(report: &Report, options: &StyleOptions, out: &mut dyn Write) -> io::Result<()> {
    let usual = Attributes::default();
    let attributes = options.attributes.as_ref().unwrap_or(&usual);
    writeln!(out, "\n\n<table {}>", attributes.table)?;
    for (name, value) in totals(report, options) {
        attributes.pair(&name, &value, out)?;
    }
    let times = Times::of(report);
    if times.count > 0 {
        attributes.times(&times, out)?;
    }
    writeln!(out, "</table>")
}

/// Everything but times, as name and value; a value without a name goes over all columns.
fn totals(report: &Report, options: &StyleOptions) -> Vec<(String, String)> {
    let (run, failed) = (&report.run, Failed::of(report));
    let url = url(&run.urls);
    let host = url.as_ref().map_or("", |url| &url.host);
    let path = url.as_ref().map_or("/", |url| &url.path_and_query);
    let server = words::plain(report.server().unwrap_or_default(), TEXT_MAX);
    let length = if options.has(Extra::AnyLength) {
        "Variable".to_owned()
    } else {
        let length = report.body_bytes_in as f64 / report.answers.max(1) as f64;
        format!("{} bytes", length.round())
    };
    let mut rows = vec![
        ("Server Software:", escape(&server)),
        ("Server Hostname:", escape(host)),
        ("Server Port:", url.as_ref().map_or(0, |url| url.port).to_string()),
        ("Document Path:", escape(path)),
        ("Document Length:", length),
        ("Concurrency Level:", run.connections.to_string()),
        ("Time taken for tests:", format!("{:.3} seconds", report.seconds)),
        ("Complete requests:", report.answers.to_string()),
        ("Failed requests:", super::bad(&failed).to_string()),
    ];
    if super::bad(&failed) > 0 {
        let Failed {
            connect,
            mismatch,
            malformed,
            ..
        } = failed;
        let parts = format!("   (Connect: {connect}, Length: {mismatch}, Exceptions: {malformed})");
        rows.push(("", parts));
    }
    let others = super::other_statuses(report);
    if others > 0 {
        rows.push(("Non-2xx responses:", others.to_string()));
    }
    if run.keep_alive {
        rows.push((
            "Keep-Alive requests:",
            super::on_open_connections(report).to_string(),
        ));
    }
    rows.push(("Total transferred:", format!("{} bytes", report.bytes_in)));
    let has_body = run.body_bytes > 0;
    if has_body {
        rows.push(("Total body sent:", report.bytes_out.to_string()));
    }
    rows.push(("HTML transferred:", format!("{} bytes", report.body_bytes_in)));
    if report.seconds > 0.0 {
        let kilobytes = |bytes: u64| bytes as f64 / 1024.0 / report.seconds;
        rows.push(("Requests per second:", format!("{:.2}", report.per_second)));
        rows.push((
            "Transfer rate:",
            format!("{:.2} kb/s received", kilobytes(report.bytes_in)),
        ));
        if has_body {
            let both = report.bytes_in + report.bytes_out;
            rows.push(("&nbsp;", format!("{:.2} kb/s sent", kilobytes(report.bytes_out))));
            rows.push(("&nbsp;", format!("{:.2} kb/s total", kilobytes(both))));
        }
    }
    rows.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

impl Attributes {
    fn pair(&self, name: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { row, cell, .. } = self;
        match name {
            "" => writeln!(out, "<tr {row}><td colspan=4 {cell} >{value}</td></tr>"),
            "&nbsp;" => writeln!(
                out,
                "<tr {row}><td colspan=2 {cell}>{name}</td><td colspan=2 {cell}>{value}</td></tr>"
            ),
            _ => writeln!(
                out,
                "<tr {row}><th colspan=2 {cell}>{name}</th><td colspan=2 {cell}>{value}</td></tr>"
            ),
        }
    }

    fn times(&self, times: &Times, out: &mut dyn Write) -> io::Result<()> {
        let Self { row, cell, .. } = self;
        writeln!(
            out,
            "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>"
        )?;
        writeln!(
            out,
            "<tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   <th {cell}>max</th></tr>"
        )?;
        let lines = [
            ("Connect:", times.line(|step| step.connect_ns)),
            ("Processing:", times.line(|step| step.processing_ns)),
            ("Total:", times.line(Step::total)),
        ];
        for (name, Line { min, mean, max, .. }) in lines {
            writeln!(
                out,
                "<tr {row}><th {cell}>{name}</th><td {cell}>{min:5}</td><td {cell}>{mean:5}</td><td {cell}>{max:5}</td></tr>"
            )?;
        }
        Ok(())
    }
}
