//! Generates `docs/reference/load.md`: the syntax of values, the destinations of results, and the flags of other tools, from their tables.

use std::{fmt::Write as _, fs, path::Path};

use super::tools::TABLES;

const HEAD: &str = r"# `forebay load`

<!-- Made from crates/cli/src/commands/load. To refresh: FOREBAY_REFRESH=1 cargo test -p forebay -->

All options, each with an example, are in the [reference of commands](cli.md#forebay-load); `forebay load --help` has a line for each. This
page says what they have in common, and which command lines of other tools are understood.

## Values

| | written as | meaning |
|---|---|---|
| time | `10`, `1.5s`, `500ms`, `1m30s`, `1h` | without a unit, seconds; at most a year |
| count | `1000`, `10k`, `2m`, `1.5k` | k is a thousand, m a million |
| rate | `5000`, `2.5k`, `100/s`, `300/m` | requests a second, or a minute |
| header | `Name: value`, `Name=value` | |
| statuses | `200`, `2xx`, `200-299`, `2xx,304` | any of them |
| stage | `10s:100` | 100 connections for 10 s |
| | `10s:1..100` | rising from 1 to 100 connections |
| | `30s:500/s` | 500 requests a second, on as many connections as `-c` says |
| | `1m:0..1000/s` | rising to 1000 requests a second |
| condition | `p99<10ms`, `errors<0.1%`, `rps>5000` | for `--assert` and `--slo`; several with commas |

A file named `-` is standard input, or standard output.

## Placeholders

With `--template` these are filled in in the URL, in headers and in the body, and in the lines of `--urls`:

| | becomes |
|---|---|
| `{{counter}}`, `{{counter 1000}}` | the number of the request, from 1 or from another one |
| `{{random 1 100}}` | a random whole number between two, both included |
| `{{uuid}}` | a random UUID |
| `{{line FILE}}` | a line of a file: the first request takes the first line |

`\{{` stands for the braces themselves.

## Lists of requests

`--urls` reads a file whose lines are `[METHOD] URL`, such as `PUT /two`; `#` begins a comment. A path without a host goes
to the URL of the command line.

## Defaults

64 connections on one thread (on more than two cores, half as many threads as cores), 10 s of measuring after a warm-up, keep-alive, one request
at a time on a connection, 10 s for an answer, statuses 200 to 399 count as right. With `-n` the run is as long as its requests take, and
there is no warm-up unless `--warmup` asks for it; neither with `--stage`.

The warm-up ends when the server has stopped changing (`--warmup auto`): when between two neighbouring parts of its last half neither
throughput nor median latency has changed by more than 3 %, or by more than chance explains where answers are few. It takes 0.5 s at least
and 5 s at most; when the server is not steady by then, the verdict says so. `--warmup 0` is none.

## Where results go

The result goes to standard output, everything else to standard error: what is about to be done, progress, notes, and which assertions
hold. `--json` without a file takes the place of the text; `--json=FILE` and `--html FILE` are written besides it. Progress is a line every two
seconds.

`--save` keeps all that was measured; its field `record` is for `forebay load report`, and the rest is what `--json` writes.

## A server of its own

`--vs-cmd` runs a command in a shell and waits until it listens on the port that it finds in `PORT`. At the end its process group gets SIGTERM
and 5 s; then what is left of the group is killed. A process that has left the group goes on, and so does everything when the generator itself
is ended by SIGKILL.

## Before the first request

Options that cannot hold together, files that cannot be read, and hosts other than this machine (without `--allow-remote`) are refused
before a connection is opened, with exit code 2. Then one connection is made and closed again, to say clearly when nothing listens.

## Ctrl-C

The first one ends the measurement, waits for the answers that are due, and prints what was measured until then. Assertions are not
judged in that case. The second one ends the process at once, with exit code 130; a server that was started by `--vs-cmd`
is ended too.

## Exit codes

| code | meaning |
|---|---|
| 0 | the run has ended, and every assertion holds |
| 1 | the run has failed: nothing listens, or not one answer came |
| 2 | the command line asks for something impossible, or for an option that is no longer there |
| 3 | an assertion does not hold |
| 130 | Ctrl-C was pressed twice |

## Command lines of other tools

Put `forebay load` before a command line of one of these tools. Its flags mean what they mean there, and its defaults hold. The report is
that of `forebay load`, with the percentiles that the tool prints. Requests are HTTP/1.1, those of ab HTTP/1.0.
";

fn page() -> String {
    let mut page = String::from(HEAD);
    for table in TABLES {
        let name = table.name;
        write!(
            page,
            "\n### {name}\n\n```\nforebay load {name} [flags] {}\n```\n\n| flag | meaning |\n|---|---|\n",
            table.operands
        )
        .unwrap();
        for (flag, meaning) in table.meanings() {
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
