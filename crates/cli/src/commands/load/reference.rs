//! The reference in `docs/reference/load.md`: how values are written, where results go, and the flags of other tools, made from their
//! tables.

use std::{fmt::Write as _, fs, path::Path};

use super::tools::{Tool, words};

const HEAD: &str = r"# `forebay load`

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
| header | `Name: value`, `Name=value` | |
| statuses | `200`, `2xx`, `200-299`, `2xx,304` | any of them |
| stage | `10s:100` | 100 connections for 10 s |
| | `10s:1..100` | rising from 1 to 100 connections |
| | `30s:500/s` | 500 requests a second, on as many connections as `-c` says |
| | `1m:0..1000/s` | rising to 1000 requests a second |
| condition | `p99<10ms`, `errors<0.1%`, `rps>5000` | for `--assert` and `--slo`; several with commas |

A file named `-` is standard input, or standard output.

## Defaults

64 connections on one thread (on more than two cores, half as many threads as cores), 10 s of measuring after 1 s of warm-up, keep-alive, one request
at a time on a connection, 10 s for an answer, statuses 200 to 399 count as right. With `-n` the run is as long as its requests take, and
there is no warm-up unless `--warmup` asks for it.

## Where results go

The result goes to standard output, everything else to standard error: what is about to be done, progress, notes, and which assertions
hold. `--json`, `--ndjson`, `--csv` and `--hgrm` without a file take the place of the text; with `=FILE` they are written besides it.
On a terminal, progress is redrawn in place; elsewhere it is a line every two seconds.

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
printed in its form. Requests are always HTTP/1.1, and latencies are measured in nanoseconds without the corrections that some tools
make unasked; only their printing follows the tool.
";

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
