//! Options and sub-commands that `forebay load` once had, and what to use instead.

use super::arguments::Options;
use crate::failure::UsageError;

const K6: &str = "k6 (https://k6.io) runs scenarios";
const OHA: &str = "oha (https://github.com/hatoo/oha) has it";
const TEMPLATE: &str = "--template fills in {{counter}}, {{random LOW HIGH}}, {{uuid}} and {{line FILE}}";
const JSON: &str = "--json has every figure, slices and percentiles included; jq makes other formats of it";

#[rustfmt::skip]
const REMOVED: [(&[&str], &str); 28] = [
    (&["--style", "wrk", "wrk2"], "the report has the same figures, and --json has them for programs"),
    (&["serve"], "`forebay serve` with a route that has `respond` is a server to aim at"),
    (&["--http2"], "h2load of nghttp2 measures HTTP/2"),
    (&["--requests", "--cookie", "--har", "--follow-redirects"], K6),
    (&["--access-log", "--replay", "--replay-speed"], "--urls takes a list of requests, --rate sends them at a rate"),
    (&["--form", "-F", "--chunked", "--raw-request", "--compressed"], "--body-file sends any body, -H any header"),
    (&["--aws-sigv4", "--proxy", "--proxytunnel", "--connect-to", "--dns-each", "--ipv4", "--ipv6"], OHA),
    (&["--csv-data"], TEMPLATE),
    (&["--csv", "--ndjson", "--hgrm", "--prometheus", "--log", "--junit"], JSON),
    (&["--explain"], "docs/guide/load.md says what each figure means"),
    (&["--agents", "--token", "agent"], "several `forebay load --save` at the same time make the load of several machines"),
    (&["--preset", "--tests", "--levels", "--rows"], "bench/README.md has the levels of TechEmpower's benchmarks"),
    (&["--rate-per-connection"], "--rate is of all connections together"),
    (&["--connect-rate"], "--stage 10s:1..100 opens connections one after the other"),
    (&["--first-byte-timeout", "--idle-timeout"], "--timeout is for the whole answer"),
    (&["--exclude-errors"], "--expect-status says which answers are right; latencies are of all"),
    (&["--bind"], "several URLs of 127.0.0.1, 127.0.0.2 and so on give more ports"),
    (&["--tls-min", "--tls-max", "--tls-ciphers", "--no-tls-resumption", "--http1.0"], "the server's configuration decides what is spoken"),
    (&["--on-port"], "start the server before the load; --vs-cmd starts a second one to compare with"),
    (&["--requests-per-connection"], "--no-keepalive closes each connection after one answer"),
    (&["--cert", "--key"], OHA),
    (&["--debug"], "curl -v shows one request and its answer"),
    (&["--until-ci"], "-d measures for longer; the report has the interval of the rate"),
    (&["--compare"], "--save keeps a run, and `forebay load report --compare` sets two beside each other"),
    (&["--unix-socket"], "let the server listen on a port of 127.0.0.1, too"),
    (&["--expect-json", "--expect-header"], "--expect-body '~TEXT' says what must be in every body"),
    (&["--shuffle"], "--urls and --body-lines are taken in turn; {{random LOW HIGH}} of --template is random"),
    (&["--arrivals"], "--rate is even; --stage changes it over time"),
];

/// Advice on a removed option or sub-command; `None` for any other word.
pub(crate) fn advice(word: &str) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word);
    let found = REMOVED.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, advice)| *advice)
}

/// Rejects a removed sub-command, which would otherwise be read as a URL.
pub(super) fn check(options: &Options) -> Result<(), UsageError> {
    match options.url.first().and_then(|word| Some((word, advice(word)?))) {
        Some((word, advice)) => Err(UsageError(format!("`load {word}` is no longer there: {advice}"))),
        None => Ok(()),
    }
}
