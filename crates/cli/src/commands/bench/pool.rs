//! `forebay bench pool`

#![expect(
    clippy::doc_markdown,
    reason = "the comments of options are read on a terminal, where backticks and brackets would be in the way"
)]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::ValueEnum;
use forebay_bench::pool::{
    self, Contender, DELAY_MAX, Kind, Language, Load, OUTSTANDING_MAX, PAYLOAD_MAX, Peer, Plan, Report,
    SWEEP, Suite, WORKERS_MAX,
};
use forebay_server::config::Runtime;

use super::{PEERS, STANDARD_OUTPUT, progress::Progress};
use crate::{
    commands::load::{outputs, values},
    failure::UsageError,
    output,
};

/// Messages before those that are measured: a tenth of these, and at least so many.
const WARMUP_MIN: u64 = 10_000;
/// Most measurements of one pool.
const REPEATS_MAX: u16 = 1000;

/// Measure a pool of workers without HTTP: how many messages a second, what each costs, how long it takes
///
/// Messages go to workers whose handler only counts, or to your own. They are submitted as replies come, so that a number of them is
/// always under way; or in blocks, with a delay between two that may follow the queue, as QOper8's benchmark does. Each measurement
/// has a pool of its own, started afresh and warmed up. The result goes to standard output, everything else to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchPoolArgs {
    /// The dispatcher: the server's pool, in this process, or the library forebay/pool in a Node or Bun process.
    /// Example: --dispatcher node
    #[arg(long, value_enum, default_value = "server")]
    dispatcher: Dispatcher,
    /// The workers' runtime; by default node, or bun with --dispatcher bun. Only the server's pool can run workers in another runtime.
    /// Example: --runtime python
    #[arg(long, value_enum)]
    runtime: Option<RuntimeName>,
    /// Workers of forebay/pool: processes or threads. Example: --dispatcher node --kind thread
    #[arg(long, value_enum, default_value = "process")]
    kind: KindName,
    /// How many workers; several sizes, or `sweep` for 1, 2, 4, 8, 12, 16 and 24, are measured one after the other, and the best is
    /// named. Example: --workers sweep
    #[arg(long, value_name = "N|sweep", default_value = "2", value_delimiter = ',', value_parser = workers)]
    workers: Vec<Sizes>,
    /// Messages that are measured. Example: --messages 2m
    #[arg(long, value_name = "COUNT", default_value = "500k", value_parser = values::some_count)]
    messages: u64,
    /// Messages before them, which are not; a tenth of them, and at least 10,000, if not given. Example: --warmup 100k
    #[arg(long, value_name = "COUNT", value_parser = values::count)]
    warmup: Option<u64>,
    /// Messages of a block. Example: --block 500
    #[arg(long, value_name = "COUNT", default_value = "2000", value_parser = block)]
    block: usize,
    /// Messages without a reply at a time, refilled as replies come; twice --block if not given. Example: --outstanding 64
    #[arg(long, value_name = "COUNT", value_parser = block, conflicts_with_all = ["delay", "adaptive"])]
    outstanding: Option<usize>,
    /// Send blocks, with this between two of them. Example: --delay 20ms
    #[arg(long, value_name = "TIME", value_parser = delay)]
    delay: Option<Duration>,
    /// Send blocks, with a delay that grows by 1 ms when the queue is longer than before and shrinks when it is empty, and say so as
    /// QOper8 does; it begins with --delay, or 100ms. Example: --adaptive --delay 10ms
    #[arg(long)]
    adaptive: bool,
    /// Messages that a worker has at a time, and none ahead; as many as its pool does best with if not given. Example: --in-flight 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: Option<u16>,
    /// Text in each message. Example: --payload 10000
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = payload)]
    payload: usize,
    /// A module whose default export is called with (message, ctx) and returns the reply; for Python, a file with a function
    /// handler(message, ctx). Example: --handler resize.mjs
    #[arg(long, value_name = "FILE")]
    handler: Option<PathBuf>,
    /// How often each pool is measured, by turns. Example: --repeat 10
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=i64::from(REPEATS_MAX)))]
    repeat: u16,
    /// Beside these pools of others, or all of them without names: qoper8-cp, qoper8-wt, piscina, tinypool, workerpool, ipc (Node's channel
    /// between processes, and nothing else). They run in the dispatcher's runtime, with the server's pool in Node; workerpool does not work in Bun. Example: --peers piscina,ipc
    #[arg(long, value_name = "NAMES", num_args = 0..=1, default_missing_value = "all", value_delimiter = ',', value_parser = peers)]
    peers: Vec<Peers>,
    /// A folder with the packages of others in its node_modules; this one, or bench/peers in it, if not given. Example: --packages ~/peers
    #[arg(long, value_name = "DIR")]
    packages: Option<PathBuf>,
    /// Give up when no reply has come for so long. Example: --deadline 5s
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = deadline)]
    deadline: Duration,
    /// Write the result as JSON; - is standard output. Example: --json pool.json
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as a page for a browser. Example: --html pool.html
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Say nothing while it runs. Example: --quiet
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  forebay bench pool --workers 4 --messages 1m            the server's pool with four Node workers
  forebay bench pool --workers sweep --runtime python     the best number of Python workers
  forebay bench pool --block 2000 --delay 100ms --adaptive   as QOper8's benchmark
  forebay bench pool --dispatcher node --peers --repeat 10   the library beside the pools of others";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dispatcher {
    Server,
    Node,
    Bun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RuntimeName {
    Node,
    Bun,
    Python,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindName {
    Process,
    Thread,
}

/// A word of `--workers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    One(usize),
    Sweep,
}

/// A word of `--peers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peers {
    One(Peer),
    All,
}

fn workers(text: &str) -> Result<Sizes, String> {
    match text.parse() {
        _ if text == "sweep" => Ok(Sizes::Sweep),
        Ok(number) if (1..=WORKERS_MAX).contains(&number) => Ok(Sizes::One(number)),
        _ => Err(format!(
            "found {text:?}, expected a number from 1 to {WORKERS_MAX}, or sweep"
        )),
    }
}

fn block(text: &str) -> Result<usize, String> {
    let block = values::some_size(text)?;
    if block > OUTSTANDING_MAX {
        return Err(format!("found {text:?}, expected at most {OUTSTANDING_MAX}"));
    }
    Ok(block)
}

fn payload(text: &str) -> Result<usize, String> {
    let bytes = values::count(text)?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes <= PAYLOAD_MAX)
        .ok_or_else(|| format!("found {text:?}, expected at most {PAYLOAD_MAX} bytes"))
}

fn delay(text: &str) -> Result<Duration, String> {
    let delay = values::duration(text)?;
    if delay > DELAY_MAX || delay.subsec_nanos() % 1_000_000 != 0 {
        return Err(format!(
            "found {text:?}, expected whole milliseconds, at most a minute"
        ));
    }
    Ok(delay)
}

fn deadline(text: &str) -> Result<Duration, String> {
    let deadline = values::some_duration(text)?;
    if deadline < Duration::from_millis(1) || deadline > Duration::from_hours(1) {
        return Err(format!("found {text:?}, expected 1ms to 1h"));
    }
    Ok(deadline)
}

fn peers(text: &str) -> Result<Peers, String> {
    let known = Peer::ALL.into_iter().find(|peer| peer.name() == text);
    match known {
        _ if text == "all" => Ok(Peers::All),
        Some(peer) => Ok(Peers::One(peer)),
        None => {
            let names: Vec<&str> = Peer::ALL.into_iter().map(Peer::name).collect();
            Err(format!("found {text:?}, expected all, {}", names.join(", ")))
        }
    }
}

impl BenchPoolArgs {
    /// The measurements that the options ask for, or an error if they contradict each other.
    fn suite(&self) -> anyhow::Result<Suite> {
        let own = self.own()?;
        let driver = match self.dispatcher {
            Dispatcher::Bun => Runtime::Bun,
            Dispatcher::Server | Dispatcher::Node => Runtime::Node,
        };
        let mut contenders = vec![own];
        let others = self.peers.iter().flat_map(|word| match word {
            Peers::All => Peer::ALL
                .into_iter()
                .filter(|peer| peer.works_in(driver))
                .collect(),
            Peers::One(peer) => vec![*peer],
        });
        for contender in others.map(|peer| Contender::Peer(driver, peer)) {
            if !contenders.contains(&contender) {
                contenders.push(contender);
            }
        }
        if contenders
            .iter()
            .any(|contender| !matches!(contender, Contender::Server(_)))
        {
            contenders.push(Contender::Nothing(driver));
        }
        let mut workers: Vec<usize> = self
            .workers
            .iter()
            .flat_map(|word| match word {
                Sizes::Sweep => SWEEP.to_vec(),
                Sizes::One(number) => vec![*number],
            })
            .collect();
        workers.sort_unstable();
        workers.dedup();
        let load = if self.adaptive || self.delay.is_some() {
            Load::Blocks {
                delay: self.delay.unwrap_or(Duration::from_millis(100)),
                adaptive: self.adaptive,
            }
        } else {
            let outstanding = self.outstanding.unwrap_or(self.block * 2);
            Load::Saturating {
                outstanding: outstanding.min(OUTSTANDING_MAX),
            }
        };
        Ok(Suite {
            contenders,
            workers,
            repeats: self.repeat.into(),
            plan: Plan {
                messages: self.messages,
                warmup: self.warmup.unwrap_or((self.messages / 10).max(WARMUP_MIN)),
                block: self.block,
                load,
                payload: self.payload,
                handler: self.handler.as_deref().map(file).transpose()?,
                in_flight: self.in_flight,
                deadline: self.deadline,
                folder: std::env::current_dir()?,
                packages: self.packages()?,
            },
        })
    }

    fn own(&self) -> Result<Contender, UsageError> {
        let library = |runtime: Runtime, wanted: RuntimeName| {
            if self.runtime.is_some_and(|named| named != wanted) {
                return Err(UsageError(format!(
                    "--dispatcher {} has workers of its own runtime: leave --runtime out, or take --dispatcher server",
                    runtime.name()
                )));
            }
            let kind = match self.kind {
                KindName::Process => Kind::Process,
                KindName::Thread => Kind::Thread,
            };
            Ok(Contender::Library(runtime, kind))
        };
        match self.dispatcher {
            Dispatcher::Node => library(Runtime::Node, RuntimeName::Node),
            Dispatcher::Bun => library(Runtime::Bun, RuntimeName::Bun),
            Dispatcher::Server if self.kind == KindName::Thread => Err(UsageError(
                "workers of the server are processes: --kind thread is for --dispatcher node and bun"
                    .to_owned(),
            )),
            Dispatcher::Server => Ok(Contender::Server(match self.runtime {
                None | Some(RuntimeName::Node) => Language::JavaScript(Runtime::Node),
                Some(RuntimeName::Bun) => Language::JavaScript(Runtime::Bun),
                Some(RuntimeName::Python) => Language::Python,
            })),
        }
    }

    /// The folder in which the packages of other pools are looked for.
    fn packages(&self) -> anyhow::Result<PathBuf> {
        let here = std::env::current_dir()?;
        let Some(named) = &self.packages else {
            let ours = here.join(PEERS);
            return Ok(if ours.is_dir() { ours } else { here });
        };
        if named.is_dir() {
            return Ok(here.join(named));
        }
        Err(UsageError(format!("--packages {}: there is no such folder", named.display())).into())
    }
}

fn file(file: &Path) -> anyhow::Result<PathBuf> {
    if file.is_file() {
        return Ok(std::path::absolute(file)?);
    }
    Err(UsageError(format!("--handler {}: there is no such file", file.display())).into())
}

pub(crate) fn run(arguments: &BenchPoolArgs) -> anyhow::Result<()> {
    let suite = arguments.suite()?;
    outputs::check_files(arguments.json.iter().chain(&arguments.html))?;
    let in_the_way = arguments
        .json
        .as_ref()
        .is_some_and(|file| file.as_os_str() == STANDARD_OUTPUT);
    let mut progress = Progress::new(arguments.quiet, !in_the_way);
    let report = pool::run(&suite, &mut |news| progress.hear(news))?;
    progress.end()?;
    write(arguments, &report, in_the_way)?;
    match report.own_errors() {
        (0, _) => Ok(()),
        (errors, messages) => Err(anyhow::anyhow!(
            "{errors} of {messages} messages had no proper reply"
        )),
    }
}

fn write(arguments: &BenchPoolArgs, report: &Report, in_the_way: bool) -> anyhow::Result<()> {
    if let Some(file) = &arguments.json {
        outputs::put(file, &pool::json::write(report))?;
    }
    if let Some(file) = &arguments.html {
        outputs::put(file, &pool::html::write(report))?;
    }
    if !in_the_way {
        output::whole(&pool::text::write(report))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: BenchPoolArgs,
    }

    fn suite(words: &str) -> Suite {
        let words = std::iter::once("pool").chain(words.split_whitespace());
        Line::try_parse_from(words).unwrap().arguments.suite().unwrap()
    }

    #[test]
    fn a_sweep_is_seven_sizes_and_sizes_come_in_order_and_once() {
        assert_eq!(suite("--workers sweep").workers, [1, 2, 4, 8, 12, 16, 24]);
        assert_eq!(suite("--workers 3,1,sweep").workers, [1, 2, 3, 4, 8, 12, 16, 24]);
    }

    #[test]
    fn a_load_is_kept_at_twice_a_block_unless_blocks_are_asked_for() {
        assert_eq!(
            suite("--block 500").plan.load,
            Load::Saturating { outstanding: 1000 }
        );
        assert_eq!(
            suite("--outstanding 7").plan.load,
            Load::Saturating { outstanding: 7 }
        );
        let blocks = |ms, adaptive| Load::Blocks {
            delay: Duration::from_millis(ms),
            adaptive,
        };
        assert_eq!(suite("--adaptive").plan.load, blocks(100, true));
        assert_eq!(suite("--delay 20ms").plan.load, blocks(20, false));
    }

    #[test]
    fn peers_run_in_the_dispatchers_runtime_and_the_driver_alone_beside_them() {
        use Contender::{Library, Nothing, Server};
        let node = Runtime::Node;
        assert_eq!(suite("").contenders, [Server(Language::JavaScript(node))]);
        assert_eq!(
            suite("--peers ipc,piscina,ipc").contenders,
            [
                Server(Language::JavaScript(node)),
                Contender::Peer(node, Peer::Ipc),
                Contender::Peer(node, Peer::Piscina),
                Nothing(node)
            ]
        );
        let all = suite("--peers --dispatcher bun --kind thread").contenders;
        assert_eq!(all[0], Library(Runtime::Bun, Kind::Thread));
        assert_eq!(all.len(), Peer::ALL.len() + 1, "{all:?}");
        assert_eq!(
            suite("--peers --dispatcher node").contenders.len(),
            Peer::ALL.len() + 2
        );
    }
}
