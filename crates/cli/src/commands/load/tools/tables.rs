//! The tables of flags. Flags that only change how the tool prints are understood where a founding document uses them.

use std::time::Duration;

use forebay_load::search::WarmUp;

use super::{
    Effect::{Help, Switch, Value},
    Flag, Grammar, Table,
};
use crate::commands::load::{
    arguments::Options,
    values::{self, some_count, some_duration, some_size},
};

type Taken = Result<(), String>;

fn connections(options: &mut Options, text: &str) -> Taken {
    options.connections = Some(some_size(text)?);
    Ok(())
}

fn threads(options: &mut Options, text: &str) -> Taken {
    options.threads = Some(some_size(text)?);
    Ok(())
}

fn duration(options: &mut Options, text: &str) -> Taken {
    options.duration = Some(some_duration(text)?);
    Ok(())
}

fn count(options: &mut Options, text: &str) -> Taken {
    options.count = Some(some_count(text)?);
    Ok(())
}

fn timeout(options: &mut Options, text: &str) -> Taken {
    options.timeout = Some(some_duration(text)?);
    Ok(())
}

fn pipeline(options: &mut Options, text: &str) -> Taken {
    options.pipeline = Some(some_size(text)?);
    Ok(())
}

fn rate(options: &mut Options, text: &str) -> Taken {
    options.rate = Some(values::rate(text)?);
    Ok(())
}

fn method(options: &mut Options, text: &str) -> Taken {
    options.method = Some(text.to_owned());
    Ok(())
}

fn header(options: &mut Options, text: &str) -> Taken {
    options.headers.push(values::header(text)?);
    Ok(())
}

fn body(options: &mut Options, text: &str) -> Taken {
    options.body = Some(text.to_owned());
    Ok(())
}

fn body_file(options: &mut Options, text: &str) -> Taken {
    options.body_file = Some(text.into());
    Ok(())
}

fn cert(options: &mut Options, text: &str) -> Taken {
    options.cert = Some(text.into());
    Ok(())
}

fn key(options: &mut Options, text: &str) -> Taken {
    options.key = Some(text.into());
    Ok(())
}

fn authority(options: &mut Options, text: &str) -> Taken {
    options.cacert = Some(text.into());
    Ok(())
}

fn quiet(options: &mut Options) {
    options.quiet = true;
}

fn json(options: &mut Options) {
    options.forms.json = Some("-".into());
    options.quiet = true;
}

fn keep_alive(options: &mut Options) {
    options.no_keepalive = false;
}

/// Operands that are one URL.
fn one_url(options: &mut Options, operands: &[String]) -> Taken {
    match operands {
        [url] => {
            options.url = vec![url.clone()];
            Ok(())
        }
        [] => Err("a URL is missing, such as http://localhost:8080/".to_owned()),
        [_, other, ..] => Err(format!("found {other:?} after the URL, expected nothing more")),
    }
}

/// What all these tools do: no warm-up, one thread.
fn defaults(options: &mut Options, connections: usize) {
    options.connections = Some(connections);
    options.threads = Some(1);
    options.warmup = Some(WarmUp::NONE);
}

const HELP: Flag = Flag(&["-h", "--help"], Help, "Print this list.");
const METHOD: &str = "The method; GET if not given, POST with a body.";
const HEADER: &str = "A header, `Name: value` or `Name=value`; may be repeated.";

pub(super) const AUTOCANNON: Table = Table {
    name: "autocannon",
    grammar: Grammar::Getopt,
    operands: "URL... [-- CMD]",
    defaults: |options| {
        defaults(options, 10);
        options.forms.percentiles = vec![2.5, 50.0, 97.5, 99.0];
    },
    flags: &[
        Flag(
            &["-c", "--connections"],
            Value("N", connections),
            "Connections; 10 if not given.",
        ),
        Flag(
            &["-p", "--pipelining"],
            Value("N", pipeline),
            "Most requests under way on a connection.",
        ),
        Flag(
            &["-d", "--duration"],
            Value("SECONDS", duration),
            "How long; 10 if not given.",
        ),
        Flag(
            &["-a", "--amount"],
            Value("COUNT", count),
            "How many requests, instead of a duration.",
        ),
        Flag(
            &["-w", "--workers"],
            Value("N", threads),
            "Threads; 1 if not given.",
        ),
        Flag(
            &["-W", "--warmup"],
            Value("[ -c N -d SECONDS ]", |options, text| {
                options.warmup = Some(WarmUp::For(bracketed_duration(text)?));
                Ok(())
            }),
            "Warm-up before the run, on the run's own connections.",
        ),
        Flag(&["-m", "--method"], Value("METHOD", method), METHOD),
        Flag(&["-H", "--headers"], Value("K=V", header), HEADER),
        Flag(
            &["-b", "--body"],
            Value("TEXT", body),
            "The body of every request.",
        ),
        Flag(
            &["-i", "--input"],
            Value("FILE", body_file),
            "A file with the body.",
        ),
        Flag(
            &["-t", "--timeout"],
            Value("SECONDS", timeout),
            "Longest wait for an answer; 10 if not given.",
        ),
        Flag(
            &["-R", "--overallRate"],
            Value("RATE", rate),
            "Requests a second over all connections.",
        ),
        Flag(
            &["-D", "--reconnectRate"],
            Value("COUNT", |options, text| {
                options.requests_per_connection = Some(some_count(text)?);
                Ok(())
            }),
            "Close each connection after so many requests.",
        ),
        Flag(
            &["-B", "--bailout"],
            Value("COUNT", |options, text| {
                options.bail = Some(some_count(text)?);
                Ok(())
            }),
            "End after so many failures.",
        ),
        Flag(
            &["-E", "--expectBody"],
            Value("TEXT", |options, text| {
                options.expect_body = Some(format!("equals:{text}"));
                Ok(())
            }),
            "What every body must be.",
        ),
        Flag(
            &["-S", "--socketPath"],
            Value("FILE", |options, text| {
                options.unix_socket = Some(text.into());
                Ok(())
            }),
            "Connect to a Unix socket.",
        ),
        Flag(
            &["-s", "--servername"],
            Value("NAME", |options, text| {
                options.server_name = Some(text.to_owned());
                Ok(())
            }),
            "The server's name for TLS.",
        ),
        Flag(
            &["--cert"],
            Value("FILE", cert),
            "The client's certificate (PEM).",
        ),
        Flag(&["--key"], Value("FILE", key), "The client's private key (PEM)."),
        Flag(
            &["--ca"],
            Value("FILE", authority),
            "Certificates to trust; without it any server is trusted.",
        ),
        Flag(
            &["-T", "--title"],
            Value("TEXT", |options, text| {
                options.title = Some(text.to_owned());
                Ok(())
            }),
            "A name for the run.",
        ),
        Flag(
            &["--on-port"],
            Switch(|options| options.on_port = true),
            "Start the command after --, and load it.",
        ),
        Flag(&["-j", "--json"], Switch(json), "The result as JSON."),
        Flag(&["-n", "--no-progress"], Switch(quiet), "No progress."),
        Flag(
            &["-l", "--latency"],
            Switch(|options| {
                options.forms.percentiles = vec![
                    0.001, 0.01, 0.1, 1.0, 2.5, 10.0, 25.0, 50.0, 75.0, 90.0, 97.5, 99.0, 99.9, 99.99, 99.999,
                ];
            }),
            "All percentiles of latency.",
        ),
        HELP,
    ],
    finish: |options, operands| {
        options.url = operands.to_vec();
        if options.url.is_empty() && !options.on_port {
            return Err("a URL is missing, such as http://localhost:3000/".to_owned());
        }
        if !options.command.is_empty() && !options.on_port {
            return Err("a command after -- needs --on-port".to_owned());
        }
        options.insecure = options.cacert.is_none();
        Ok(())
    },
};

/// The duration among the flags in the brackets of `-W`. Its connections are those of the run: what is warmed up shall be what is measured.
fn bracketed_duration(text: &str) -> Result<Duration, String> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let mut words = inner.split_whitespace();
    words
        .find(|word| matches!(*word, "-d" | "--duration"))
        .and_then(|_| words.next())
        .ok_or_else(|| format!("found {text:?}, expected a duration in it such as [ -c 1 -d 3 ]"))
        .and_then(some_duration)
}

pub(super) const AB: Table = Table {
    name: "ab",
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults: |options| {
        defaults(options, 1);
        options.count = Some(1);
        options.no_keepalive = true;
        options.of_tool.http10 = true;
        options.of_tool.same_length = true;
        // It asks no server for its name.
        options.insecure = true;
        options.timeout = Some(Duration::from_secs(30));
        options.forms.percentiles = vec![50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0];
    },
    flags: &[
        Flag(&["-n"], Value("REQUESTS", count), "Requests; 1 if not given."),
        Flag(
            &["-c"],
            Value("N", connections),
            "Requests at a time; 1 if not given.",
        ),
        Flag(
            &["-t"],
            Value("SECONDS", |options, text| {
                // As in ab, which takes the count of the last of the two.
                (options.duration, options.count) = (Some(some_duration(text)?), Some(50_000));
                Ok(())
            }),
            "Longest time; means -n 50000 unless -n follows.",
        ),
        Flag(
            &["-s"],
            Value("SECONDS", timeout),
            "Longest wait for an answer; 30 if not given.",
        ),
        Flag(&["-k"], Switch(keep_alive), "Keep connections open."),
        Flag(
            &["-p"],
            Value("FILE", |options, text| {
                options.method = Some("POST".to_owned());
                body_file(options, text)
            }),
            "The body, sent with POST.",
        ),
        Flag(
            &["-u"],
            Value("FILE", |options, text| {
                options.method = Some("PUT".to_owned());
                body_file(options, text)
            }),
            "The body, sent with PUT.",
        ),
        Flag(
            &["-T"],
            Value("TYPE", |options, text| {
                options.headers.push(("Content-Type".to_owned(), text.to_owned()));
                Ok(())
            }),
            "Content-Type of the body; text/plain if not given.",
        ),
        Flag(
            &["-i"],
            Switch(|options| options.method = Some("HEAD".to_owned())),
            "HEAD instead of GET.",
        ),
        Flag(&["-m"], Value("METHOD", method), "The method."),
        Flag(&["-H"], Value("HEADER", header), HEADER),
        Flag(
            &["-A"],
            Value("USER:PASSWORD", |options, text| {
                options.user = Some(text.to_owned());
                Ok(())
            }),
            "Basic authentication.",
        ),
        Flag(
            &["-l"],
            Switch(|options| options.of_tool.same_length = false),
            "Bodies may differ in length; without it those not as long as the first count as failed.",
        ),
        Flag(
            &["-r"],
            Switch(|_| {}),
            "Go on after socket errors. It always does here.",
        ),
        Flag(&["-q"], Switch(quiet), "No progress."),
        HELP,
    ],
    finish: |options, operands| {
        let has_type = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
        if options.body_file.is_some() && !options.headers.iter().any(has_type) {
            let plain = ("Content-Type".to_owned(), "text/plain".to_owned());
            options.headers.push(plain);
        }
        one_url(options, operands)
    },
};

pub(super) const HOSE: Table = Table {
    name: "hose",
    grammar: Grammar::Getopt,
    operands: "HOST:PORT",
    defaults: |options| {
        defaults(options, 1000);
        options.duration = Some(Duration::from_secs(1));
        options.no_keepalive = true;
    },
    flags: &[
        Flag(&["-t"], Value("N", threads), "Threads; 1 if not given."),
        Flag(
            &["-c"],
            Value("N", connections),
            "Connections; 1000 if not given.",
        ),
        Flag(
            &["-p"],
            Value("PATH", |options, text| {
                options.url = vec![text.to_owned()];
                Ok(())
            }),
            "The path, with or without its first slash.",
        ),
        Flag(&["-d"], Value("SECONDS", duration), "How long; 1.0 if not given."),
        Flag(&["-k"], Switch(keep_alive), "Keep connections open."),
        Flag(
            &["-b"],
            Value("N", pipeline),
            "Most requests under way on a connection; needs -k.",
        ),
        Flag(
            &["-m"],
            Value("RATE", rate),
            "Requests a second over all connections.",
        ),
        Flag(&["-a"], Value("HEADER", header), HEADER),
        Flag(&["-j"], Switch(json), "The result as JSON."),
        HELP,
    ],
    finish: |options, operands| {
        let path = options.url.pop().unwrap_or_default();
        let [host] = operands else {
            return Err(match operands {
                [] => "HOST:PORT is missing, such as 127.0.0.1:6363".to_owned(),
                _ => format!("found {:?} after HOST:PORT, expected nothing more", operands[1]),
            });
        };
        let host = host.trim_start_matches("http://").trim_end_matches('/');
        options.url = vec![format!("http://{host}/{}", path.trim_start_matches('/'))];
        if options.pipeline.is_some_and(|depth| depth > 1) && options.no_keepalive {
            return Err("-b: more than one request on a connection needs -k".to_owned());
        }
        Ok(())
    },
};

/// Its `-m` is the method, but the document that many follow means the count; a number is taken as what that document means.
pub(super) const GO_WRK: Table = Table {
    name: "go-wrk",
    grammar: Grammar::Go,
    operands: "URL",
    defaults: |options| {
        defaults(options, 100);
        options.count = Some(1000);
    },
    flags: &[
        Flag(&["-t"], Value("N", threads), "Threads; 1 if not given."),
        Flag(&["-c"], Value("N", connections), "Connections; 100 if not given."),
        Flag(&["-n"], Value("COUNT", count), "Requests; 1000 if not given."),
        Flag(
            &["-m"],
            Value("METHOD", |options, text| {
                if some_count(text).is_err() {
                    return method(options, text);
                }
                options.of_tool.notes.push(format!(
                "go-wrk itself takes -m as the method: it would send 1000 requests with the method {text}. Here -m {text} is the number \
                 of requests; go-wrk's own flag for it is -n {text}"
            ));
                count(options, text)
            }),
            "The method; a number is the count of requests.",
        ),
        Flag(&["-b"], Value("TEXT", body), "The body of every request."),
        Flag(&["-p"], Value("FILE", body_file), "A file with the body."),
        Flag(
            &["-k"],
            Switch(|options| options.no_keepalive = true),
            "Close each connection after one answer, as go-wrk's -k=true does.",
        ),
        Flag(
            &["-H"],
            Value("HEADERS", |options, text| {
                let lines = text.split('\n').flat_map(|line| line.split("\\n"));
                lines
                    .filter(|line| !line.is_empty())
                    .try_for_each(|line| header(options, line))
            }),
            "Headers, `Name: value`, with \\n between two.",
        ),
        Flag(&["-cert"], Value("FILE", cert), "The client's certificate (PEM)."),
        Flag(&["-key"], Value("FILE", key), "The client's private key (PEM)."),
        Flag(&["-CA"], Value("FILE", authority), "Certificates to trust."),
        Flag(
            &["-i"],
            Switch(|options| options.insecure = true),
            "Trust any server.",
        ),
        Flag(
            &["-s"],
            Value("TEXT", |options, text| {
                options.expect_body = Some(format!("~{text}"));
                Ok(())
            }),
            "What must be in every body; others count as failed.",
        ),
        Flag(
            &["-r"],
            Switch(|_| {}),
            "Read whole bodies. They always are here.",
        ),
        Flag(&["-h", "-help"], Help, "Print this list."),
    ],
    finish: one_url,
};

/// A thread group with one HTTP sampler: so many users, several sizes one after the other.
pub(super) const JMETER: Table = Table {
    name: "jmeter",
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults: |options| {
        defaults(options, 1);
        options.timeout = Some(Duration::from_mins(1));
        // About as long as a person waits for the summary to settle.
        options.duration = Some(Duration::from_secs(15));
    },
    flags: &[
        Flag(
            &["--threads"],
            Value("N,...", |options, text| {
                let sizes = text.split(',').map(|size| some_size(size.trim()));
                options.of_tool.sizes = sizes.collect::<Result<_, _>>()?;
                match options.of_tool.sizes.len() {
                    ..=SIZES_MAX => Ok(()),
                    found => Err(format!("found {found} sizes, expected at most {SIZES_MAX}")),
                }
            }),
            "Users, each with a connection; several sizes one after the other.",
        ),
        Flag(
            &["--ramp-up"],
            Value("0", |_, text| match text {
                "0" => Ok(()),
                _ => Err(format!(
                    "found {text:?}, expected 0: all users start at once; --stage of `forebay load` has a rise"
                )),
            }),
            "All users start at once.",
        ),
        Flag(
            &["--loops"],
            Value("forever", |_, text| match text {
                "forever" => Ok(()),
                _ => Err(format!(
                    "found {text:?}, expected forever; -n of `forebay load` counts requests"
                )),
            }),
            "Until --duration is over.",
        ),
        Flag(
            &["--duration"],
            Value("SECONDS", duration),
            "How long each size is measured; 15 if not given.",
        ),
        Flag(&["--method"], Value("METHOD", method), METHOD),
        Flag(&["--header"], Value("HEADER", header), HEADER),
        Flag(&["--body"], Value("TEXT", body), "The body of every request."),
        Flag(
            &["--timeout"],
            Value("SECONDS", timeout),
            "Longest wait for an answer; 60 if not given.",
        ),
        HELP,
    ],
    finish: one_url,
};

/// Most sizes of one run.
const SIZES_MAX: usize = 100;
