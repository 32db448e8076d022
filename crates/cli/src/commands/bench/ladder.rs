//! `forebay bench ladder`

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use forebay_bench::ladder::{self, Event, LadderError, Report, Saved, Settings, Suite, Verdict};

use super::{PEERS, STANDARD_OUTPUT};
use crate::{
    commands::{
        guard,
        load::{Interrupt, outputs, values},
    },
    failure::UsageError,
    output,
};

/// Where `make postgres` writes the address of its server.
const POSTGRES: &str = "target/postgres.env";
/// The variable with the address of PostgreSQL.
const POSTGRES_URL: &str = "FOREBAY_PG_URL";
/// Characters of a progress bar.
const BAR: usize = 20;

/// Measure every way of answering a request, each beside the one that it is built on
///
/// Starts its own server, on a free port and with a store in a temporary folder, and loads memory, files, records, scripts, pools of
/// Node, Bun and Python, workflows and SQL in turns, several times.
///
/// The table has requests a second, latency, CPU time of the server
/// and of its workers for each request, and what each way costs beyond the rung below. Every response is checked: a wrong one leaves its
/// rung without a figure. Ctrl-C ends the run and prints what was measured.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchLadderArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// Measure the routes of the TechEmpower benchmarks on PostgreSQL, beside axum, Fastify, Bun.sql and light-4j
///
/// The database is the one that FOREBAY_PG_URL names, or the one that `make postgres` has started. See forebay bench ladder.
#[derive(Debug, clap::Args)]
#[command(after_help = SQL_EXAMPLES)]
pub(crate) struct BenchSqlArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// Measure what more of something costs: connections, workers, bytes of a record, records of a store, nodes of a graph
///
/// Each curve has a server for each of its points, all of them loaded in turns, and says where the cost of a request grows faster than its
/// work. The largest store has ten million records and takes 2 GB of the folder of temporary files.
#[derive(Debug, clap::Args)]
#[command(after_help = SCALING_EXAMPLES)]
pub(crate) struct BenchScalingArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// Measure the tables of one of the documents that this server grew from, beside what they have published
///
/// Each row of a document's tables stands beside the same request here, with its ratio to the row that it is built on: that does not depend on
/// the machine. The routes and data are those of examples/seeds, where the documents' own commands can be run as printed.
#[derive(Debug, clap::Args)]
#[command(after_help = SEED_EXAMPLES)]
pub(crate) struct BenchSeedArgs {
    /// The document: qoper8 (a queue and a pool of workers), mgweb (mg_web with its store), wabur (WABuR and OpO), rengine (Rengine's executor)
    /// or pgasync (light-4j with postgres-async-driver). Example: qoper8
    #[arg(value_name = "DOCUMENT", value_parser = seed())]
    pub(super) suite: Suite,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// How a suite is run.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// A first look in less than three minutes: 64 connections, two slices of 3 s each. Without it, each rung is loaded by the number
    /// of connections that suits it best, in ten slices; that takes 20 to 45 minutes.
    /// Example: --quick
    #[arg(long)]
    quick: bool,
    /// Beside other programs: nginx, Fastify, Bun.serve, QOper8, gunicorn, Granian, lmdb-js, Redis, PostgreSQL, axum, light-4j, zen-engine.
    /// Programs that are not installed are left out, with the command that installs them. Example: --peers
    #[arg(long)]
    peers: bool,
    /// Measure this entry and those that it is compared with; may be repeated. Example: --only "pool, Bun"
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Slices of each entry. Example: --rounds 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Length of a slice. Example: --slice 10s
    #[arg(long, value_name = "TIME", value_parser = slice)]
    slice: Option<Duration>,
    /// Connections, instead of the best number of each entry. Example: --connections 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: Option<u16>,
    /// Close each connection after one answer. Example: --no-keepalive
    #[arg(long)]
    no_keepalive: bool,
    /// The folder with the pinned peers; bench/peers if not given. Example: --packages ~/peers
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// Keep every measurement in this file, and leave out what it has already: a run that was ended goes on. Example: --save ladder.jsonl
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the result as JSON, to standard output or to a file. Example: --json=ladder.json
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,
    /// Write the result as a page for a browser. Example: --html ladder.html
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Renew the figures in a Markdown document, between the lines <!-- forebay bench ladder: entries --> and <!-- end -->, with sql, scaling or
    /// seed NAME for ladder and tables, entries, bars or curves as the part; may be repeated. Example: --into README.md
    #[arg(long, value_name = "FILE")]
    into: Vec<PathBuf>,
    /// Say nothing while it runs. Example: --quiet
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  forebay bench ladder --quick                       the whole ladder in less than three minutes
  forebay bench ladder --quick --peers --json        beside other programs, as JSON on standard output
  forebay bench ladder --peers --save ladder.jsonl --html ladder.html    the full run, which may be ended and resumed
  forebay bench ladder --only \"pool, Bun\" --peers    one rung, what it is built on, and its peers

Exit code: 0 all bars hold or could not be compared, 1 a bar is missed or an entry answered wrongly.";

const SQL_EXAMPLES: &str = "\
Examples:
  forebay bench sql --quick --peers                  a first look
  forebay bench sql --peers --connections 256        many clients";

const SCALING_EXAMPLES: &str = "\
Examples:
  forebay bench scaling --quick --html scaling.html       a first look in five minutes, with curves
  forebay bench scaling --only \"graph of 100 nodes\"      one point";

const SEED_EXAMPLES: &str = "\
Examples:
  forebay bench seed wabur --quick                   a first look
  forebay bench seed qoper8 --peers --html qoper8.html    beside the document's own servers on this machine, with a page";

/// Reads the name of a document.
fn seed() -> impl TypedValueParser<Value = Suite> {
    PossibleValuesParser::new(Suite::seeds())
        .try_map(|name| Suite::seed(&name).ok_or("there is no such document"))
}

pub(super) fn run(suite: &Suite, arguments: &RunArgs) -> anyhow::Result<()> {
    let settings = settings(arguments)?;
    outputs::check_files(arguments.json.iter().chain(&arguments.html))?;
    for file in &arguments.into {
        read(file)?;
    }
    let mut saved = match &arguments.save {
        Some(file) => Saved::open(file, &settings)?,
        None => Saved::default(),
    };
    guard::enable();
    let interrupt = Interrupt::listen()?;
    let stop: Arc<AtomicBool> = Arc::default();
    interrupt.stops(Arc::clone(&stop));
    let mut progress = Progress {
        quiet: arguments.quiet,
        drawn: false,
        last: String::new(),
    };
    let report = ladder::run(suite, &settings, &mut saved, &stop, &mut |event| {
        progress.hear(event);
    });
    progress.erase();
    let report = report.map_err(|error| match error {
        LadderError::Unknown { .. } => UsageError(format!("--only: {error}")).into(),
        error => anyhow::Error::from(error),
    })?;
    let to_output = arguments.json.as_deref() == Some(Path::new(STANDARD_OUTPUT));
    if let Some(file) = &arguments.json {
        outputs::put(file, &ladder::json(&report))?;
    }
    if let Some(file) = &arguments.html {
        outputs::put(file, &ladder::html(&report, &command_line()))?;
    }
    for file in arguments.into.iter().filter(|_| !report.interrupted) {
        renew(file, &report)?;
    }
    if !to_output {
        output::whole(&ladder::text(&report))?;
    }
    let wrong = |verdict| matches!(verdict, Verdict::Misses | Verdict::Failed);
    let wrong: Vec<&str> = report
        .rows
        .iter()
        .filter(|row| wrong(row.verdict))
        .map(|row| row.name.as_str())
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "bars missed or answers wrong: {}",
        wrong.join("; ")
    ))
}

fn settings(arguments: &RunArgs) -> anyhow::Result<Settings> {
    let server = std::env::current_exe()?;
    let mut settings = if arguments.quick {
        Settings::quick(server)
    } else {
        Settings::full(server)
    };
    settings.peers = arguments.peers;
    settings.keep_alive = !arguments.no_keepalive;
    settings.only.clone_from(&arguments.only);
    if let Some(rounds) = arguments.rounds {
        settings.rounds = rounds.into();
    }
    if let Some(slice) = arguments.slice {
        settings.set_slice(slice);
    }
    if let Some(connections) = arguments.connections {
        settings.connections = Some(connections.into());
    }
    settings.peers_folder = match &arguments.packages {
        Some(folder) if folder.is_dir() => folder.clone(),
        Some(folder) => {
            return Err(UsageError(format!(
                "--packages {}: there is no such folder",
                folder.display()
            ))
            .into());
        }
        None => PEERS.into(),
    };
    settings.postgres = std::env::var(POSTGRES_URL)
        .ok()
        .filter(|url| !url.is_empty())
        .or_else(|| {
            let text = std::fs::read_to_string(POSTGRES).ok()?;
            let url = text
                .lines()
                .find_map(|line| line.strip_prefix(POSTGRES_URL)?.strip_prefix('='))?;
            Some(url.to_owned())
        });
    Ok(settings)
}

fn slice(text: &str) -> Result<Duration, String> {
    let slice = values::some_duration(text)?;
    if slice < Duration::from_millis(100) || slice > Duration::from_mins(5) {
        return Err(format!("found {text:?}, expected 100ms to 300s"));
    }
    Ok(slice)
}

/// Writes figures into a document.
fn renew(file: &Path, report: &Report) -> anyhow::Result<()> {
    let origin = format!(
        "`{}`, {}: {}.",
        command_line(),
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        ladder::environment(report)
    );
    let renewed = ladder::renew(&read(file)?, report, &origin);
    let renewed = renewed.map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))?;
    outputs::put(file, &renewed)
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file);
    text.map_err(|error| UsageError(format!("--into {}: {error}", file.display())).into())
}

/// The command line of this process, for reports, without where its results go.
fn command_line() -> String {
    let mut is_kept = true;
    let words = std::env::args().skip(1).filter(|word| {
        let goes = |option: &str| {
            word == option
                || word
                    .strip_prefix(option)
                    .is_some_and(|rest| rest.starts_with('='))
        };
        let is_value = !std::mem::replace(
            &mut is_kept,
            !["--into", "--html", "--save"].contains(&word.as_str()),
        );
        !is_value
            && !["--into", "--html", "--save", "--json", "--quiet", "-q"]
                .iter()
                .any(|option| goes(option))
    });
    let words = words.map(|word| {
        if word.contains([' ', '"']) {
            format!("{word:?}")
        } else {
            word
        }
    });
    std::iter::once("forebay".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Shows the progress: on a terminal a line that is redrawn, elsewhere a line for each entry and round.
struct Progress {
    quiet: bool,
    drawn: bool,
    last: String,
}

impl Progress {
    fn hear(&mut self, event: Event<'_>) {
        if self.quiet {
            return;
        }
        let line = match event {
            Event::Starting(what) => format!("starting {what}"),
            Event::Measuring { what, done, of, left } => {
                let full = BAR * done / of.max(1);
                format!(
                    "[{}{}] {}, {what}",
                    "#".repeat(full),
                    ".".repeat(BAR - full),
                    in_words(left)
                )
            }
        };
        if output::has_pictures() {
            output::picture(&format!("\r\x1b[K{line}"));
            self.drawn = true;
        } else if line != self.last {
            output::complaint(&line);
        }
        self.last = line;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.drawn) {
            output::picture("\r\x1b[K");
        }
    }
}

/// `1 min 20 s left`.
fn in_words(left: Duration) -> String {
    match left.as_secs() {
        seconds @ ..60 => format!("{seconds} s left"),
        seconds => format!("{} min {} s left", seconds / 60, seconds % 60),
    }
}
