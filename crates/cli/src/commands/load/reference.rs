//! The reference in `docs/reference/load.md`: how values are written, where results go, and the flags of other tools, made from their
//! tables.

use std::{fmt::Write as _, fs, path::Path};

use super::tools::{Tool, words};

const HEAD: &str = r#"# `forebay load`

<!-- Made from crates/cli/src/commands/load. To refresh: FOREBAY_REFRESH=1 cargo test -p forebay -->

All options, each with an example, are in the [reference of commands](cli.md#forebay-load); `forebay load --help` lists them too. This
page says what they have in common, and which command lines of other tools are understood.

## Values

| | written as | meaning |
|---|---|---|
| time | `10`, `1.5s`, `500ms`, `1m30s`, `1h` | without a unit, seconds; at most a year |
| count | `1000`, `10k`, `2m`, `1.5k` | k is a thousand, m a million |
| rate | `5000`, `2.5k`, `100/s`, `300/m` | requests a second, or a minute |
| share | `1%`, `0.01` | above 0, below 1 |
| factor | `2x`, `0.5x` | how much faster |
| arrivals | `uniform`, `poisson`, `burst:100` | how the requests of `--rate` or `--find-rate` are spread; of bursts there are as many as make the rate |
| header | `Name: value`, `Name=value` | |
| statuses | `200`, `2xx`, `200-299`, `2xx,304` | any of them |
| stage | `10s:100` | 100 connections for 10 s |
| | `10s:1..100` | rising from 1 to 100 connections |
| | `30s:500/s` | 500 requests a second, on as many connections as `-c` says |
| | `1m:0..1000/s` | rising to 1000 requests a second |
| condition | `p99<10ms`, `errors<0.1%`, `rps>5000` | for `--assert` and `--slo`; several with commas |

A file named `-` is standard input, or standard output.

## Placeholders

With `--template`, and in the steps of a scenario, these are filled in in the URL, in headers and in the body:

| | becomes |
|---|---|
| `{{counter}}`, `{{counter 1000}}` | the number of the request, from 1 or from another one |
| `{{uuid}}` | a random UUID |
| `{{random 1 100}}` | a random whole number between two, both included |
| `{{float 0 1}}`, `{{float 0 1 2}}` | a random number between two, with six digits behind the point, or so many |
| `{{regex [a-z]{8}}}` | a random string that matches: signs, `.`, `[...]`, `\d`, `\w`, `\s`, `(...)`, `\|`, `?`, `*`, `+`, `{m,n}`; what has no upper bound repeats at most ten times more than it must |
| `{{timestamp}}`, `{{timestamp ms}}` | seconds, or milliseconds, since 1970 |
| `{{env NAME}}` | a variable of the environment, read once |
| `{{csv.COLUMN}}` | a value of the request's row of `--csv-data` |

`\{{` stands for the braces themselves.

## Lists of requests

`--urls` reads a file whose lines may be of any of these kinds:

| | |
|---|---|
| `http://localhost:8080/one` | a URL; without a host it goes to that of the command line |
| `PUT /two weight=3` | with a method, and with a weight that counts with `--shuffle` |
| `X-Id: 7` | a header of the request above, as in vegeta's targets |
| `@body.json` | a file with the body of the request above |
| `{"method": "POST", "url": "/three", "header": {"X-Id": ["7"]}, "body": "aGk="}` | vegeta's targets in JSON, with the body in base64 |
| `1500<TAB>http://localhost:8080/four` | a request of any kind that is due after so many milliseconds, for `--replay` |
| `# a comment` | |

`--replay` sends each request once, when it is due, and latency counts from then. An access log knows seconds: the requests of one are
spread evenly over it.

## Defaults

64 connections on one thread (on more than two cores, half as many threads as cores), 10 s of measuring after a warm-up, keep-alive, one request
at a time on a connection, 10 s for an answer, statuses 200 to 399 count as right. With `-n` the run is as long as its requests take, and
there is no warm-up unless `--warmup` asks for it; neither with `--stage`.

The warm-up ends when the server has stopped changing (`--warmup auto`): when between two neighbouring parts of its last half neither
throughput nor median latency has changed by more than 3 %, or by more than chance explains where answers are few. It takes 0.5 s at least
and 5 s at most; when the server is not steady by then, the verdict says so. `--warmup 5s` is so long whatever the server does,
`--warmup 0` none. The report says how long it took.

## Where results go

The result goes to standard output, everything else to standard error: what is about to be done, progress, notes, and which assertions
hold. `--json`, `--ndjson`, `--csv` and `--hgrm` without a file take the place of the text; with `=FILE` they are written besides it.
On a terminal, progress is redrawn in place; elsewhere it is a line every two seconds.

## Through a proxy

`--proxy HOST:PORT` does what curl's does. Requests for `http` go to the proxy with the whole URL in their first line, and it sends them
on; so what is measured is the proxy, and a connection is one to the proxy. For `https`, for `--http2`, and with `--proxytunnel`, the proxy
is asked for a connection to the server (CONNECT) that it does not look into. What lies behind the proxy must be on this machine too,
unless `--allow-remote` is given.

## A server of its own

`--on-port -- CMD` starts a command and waits until it listens: where the URL says, or with a path alone wherever one of its processes
listens. Of several listeners the one that was opened first is loaded, and the others are named. At the end the command gets SIGTERM and
5 s; then everything that is left of it is ended, children that left its process group and daemons too. What somebody else starts for it,
such as a service manager or a container's daemon, goes on; and so does everything when the generator itself is ended by SIGKILL.

`--ndjson` is written while the run lasts: a line for each slice as it ends, a tenth of a second long at first and longer in a run of more than
half a minute. `--log` is, too: a CSV line for each request, with when it was due (seconds since 1970), its latency in milliseconds, its
status (0 without an answer), the bytes of the answer with its head, and the class of what failed. A thread of the load never waits for the disk; what
finds no room is lost, and how much is told. `--csv` has two tables: percentiles, and after an empty line the slices of the run.

`--save` keeps all that was measured; its field `record` is for `forebay load report`, and the rest is what `--json` writes. The histograms in it are
HdrHistogram's compressed V2 form in base64, which its other tools read.

## Several machines

| | |
|---|---|
| agents of one run | at most 64, each named once |
| shares | of connections, `--rate` and `-n`; each agent gets at least one connection and one request |
| an agent runs | one share at a time, for at most an hour; its owner's `--allow-remote` decides where to |
| the token | `--token`, or the variable `FOREBAY_LOAD_TOKEN`, on both sides; agents that other machines can reach need one |
| silence | of ten seconds counts as gone: an agent then ends its run, a controller says which agent has failed |
| refused | options that read or write files on the agent, start commands, or make several runs |

## Before the first request

Options that cannot hold together, files that cannot be read, and hosts other than this machine (without `--allow-remote`) are refused
before a connection is opened, with exit code 2. Then one connection is made and closed again, to say clearly when nothing listens.

## Ctrl-C

The first one ends the measurement, waits for the answers that are due, and prints what was measured until then. Assertions are not
judged in that case. The second one ends the process at once, with exit code 130; a server that was started by `--on-port` or `--vs-cmd`
is ended too.

## Exit codes

| code | meaning |
|---|---|
| 0 | the run has ended, and every assertion holds |
| 1 | the run has failed: nothing listens, or not one answer came |
| 2 | the command line asks for something impossible |
| 3 | an assertion does not hold |
| 130 | Ctrl-C was pressed twice |

## Command lines of other tools

Put `forebay load` before a command line of one of these tools. Its flags mean what they mean there, its defaults hold, and the result is
printed in its form. Requests are HTTP/1.1, those of ab HTTP/1.0, and latencies are measured in nanoseconds without the corrections that some tools
make unasked; only their printing follows the tool.
"#;

fn page() -> String {
    let mut page = String::from(HEAD);
    for tool in Tool::ALL {
        let table = tool.table();
        let name = tool.name();
        write!(
            page,
            "\n### {name}\n\n```\nforebay load {name} [flags] {}\n```\n\n| flag | meaning |\n|---|---|\n",
            table.operands
        )
        .unwrap();
        for (flag, meaning) in words::meanings(&table) {
            writeln!(
                page,
                "| `{}` | {} |",
                flag.replace('|', "\\|"),
                meaning.replace('|', "\\|")
            )
            .unwrap();
        }
    }
    page
}

#[test]
fn the_reference_of_load_is_fresh() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/load.md");
    let made = page();
    if std::env::var_os("FOREBAY_REFRESH").is_some() {
        fs::write(&file, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap_or_default() == made,
        "docs/reference/load.md is stale; refresh it: FOREBAY_REFRESH=1 cargo test -p forebay"
    );
}
