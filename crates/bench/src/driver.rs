//! Has the SDK's driver measure a pool of JavaScript: a process of its own for each measurement, which is told a plan as a line of JSON and
//! tells what comes of it in lines of JSON. It ends by itself when this process does, because its standard input ends then.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use forebay_runtimes::{Runtime, Sdk, Surroundings, find_runtime};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::{BenchError, Contender, Load, News, Outcome, Plan, suite::Tell};

/// The driver, in the SDK.
const PROGRAM: &str = "dist/pool/benchmark/main.js";
/// How much longer than a plan's deadline a driver may be silent: its pool has 30 s to start, and then it tells its progress five times a
/// second.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a driver may take to end once it has told its result.
const END: Duration = Duration::from_secs(5);
/// Pause between two looks whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A plan as the driver reads it.
#[derive(Debug, Serialize)]
struct Told<'a> {
    contender: &'a str,
    kind: &'a str,
    workers: usize,
    messages: u64,
    warmup: u64,
    block: usize,
    outstanding: Option<usize>,
    delay_ms: u64,
    adaptive: bool,
    payload: usize,
    handler: Option<&'a Path>,
    packages: &'a Path,
    concurrency: Option<u16>,
    deadline_ms: u64,
}

/// What the driver writes.
#[derive(Debug, Deserialize)]
#[serde(tag = "forebay", rename_all = "lowercase")]
enum Said {
    Ready {
        version: String,
        settings: BTreeMap<String, serde_json::Value>,
        start_ms: f64,
    },
    Progress {
        part: Part,
        messages: u64,
        answered: u64,
    },
    Line {
        text: String,
    },
    Result(Box<Outcome>),
    Error {
        text: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Warmup,
    Measured,
}

/// Measures a pool of JavaScript once.
pub(crate) fn measure(
    contender: Contender,
    workers: usize,
    plan: &Plan,
    sdk: &Sdk,
    tell: &mut Tell<'_>,
) -> Result<Outcome, BenchError> {
    let (runtime, name) = match contender {
        Contender::Library(runtime, _) => (runtime, "forebay"),
        Contender::Peer(runtime, peer) => (runtime, peer.name()),
        Contender::Nothing(runtime) => (runtime, "nothing"),
        Contender::Server(_) => unreachable!("the server's pool has no driver"),
    };
    let failed = |text| BenchError::Driver {
        contender: contender.name(),
        text,
    };
    let (outstanding, delay, adaptive) = match plan.load {
        Load::Saturating { outstanding } => (Some(outstanding), Duration::ZERO, false),
        Load::Blocks { delay, adaptive } => (None, delay, adaptive),
    };
    let told = Told {
        contender: name,
        kind: contender.kind().name(),
        workers,
        messages: plan.messages,
        warmup: plan.warmup,
        block: plan.block,
        outstanding,
        delay_ms: delay.as_millis() as u64,
        adaptive,
        payload: plan.payload,
        handler: plan.handler.as_deref(),
        packages: &plan.packages,
        concurrency: plan.in_flight,
        deadline_ms: plan.deadline.as_millis() as u64,
    };
    let mut driver = Driver::start(runtime, sdk, &told, &plan.packages)?;
    let mut ready = None;
    loop {
        let line = match driver.lines.recv_timeout(plan.deadline + SILENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = (plan.deadline + SILENCE).as_secs();
                return Err(failed(format!("its driver has said nothing for {seconds} s")));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(failed(driver.how_it_ended())),
        };
        match serde_json::from_str(&line) {
            Ok(Said::Ready {
                version,
                settings,
                start_ms,
            }) => ready = Some((version, settings, start_ms)),
            Ok(Said::Progress {
                part,
                messages,
                answered,
            }) => tell(News::Progress {
                warming_up: part == Part::Warmup,
                answered,
                messages,
            }),
            Ok(Said::Line { text }) => tell(News::Line(&text)),
            Ok(Said::Error { text }) => return Err(failed(text)),
            Ok(Said::Result(mut outcome)) => {
                let (version, settings, start_ms) = ready.expect("a driver is ready before it has a result");
                (outcome.version, outcome.settings, outcome.start_ms) = (version, settings, start_ms);
                driver.ends_by_itself();
                return Ok(*outcome);
            }
            // What a pool or a handler has printed.
            Err(_) => tell(News::Stray(&line)),
        }
    }
}

/// A driver's process. It is killed with all that it has started when dropped.
struct Driver {
    child: Child,
    lines: Receiver<String>,
}

impl Driver {
    fn start(runtime: Runtime, sdk: &Sdk, plan: &Told<'_>, folder: &Path) -> Result<Self, BenchError> {
        let program = find_runtime(runtime, folder, &Surroundings::real())?;
        let failed = |source| BenchError::Start {
            what: program.display().to_string(),
            source,
        };
        let mut command = Command::new(&program);
        if runtime == Runtime::Bun {
            // Otherwise Bun asks a registry for packages that it does not find.
            command.arg("--no-install");
        }
        let mut child = command
            .arg(sdk.file(PROGRAM))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C reaches it only through its standard input: some pools have a mind of their own about signals.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let text = serde_json::to_string(plan).expect("a plan is plain data");
        let told = child.stdin.as_mut().map(|stdin| writeln!(stdin, "{text}"));
        let output = child.stdout.take().expect("it was asked for");
        let (sender, lines) = channel();
        let driver = Self { child, lines };
        if let Some(Err(source)) = told {
            return Err(failed(source));
        }
        let reading = thread::Builder::new().name("driver".to_owned()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        reading.map_err(failed)?;
        Ok(driver)
    }

    fn how_it_ended(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("its driver has ended without a result ({status})"),
            Err(error) => format!("its driver has ended without a result ({error})"),
        }
    }

    /// Waits for its end, for a while.
    fn ends_by_itself(&mut self) {
        let until = Instant::now() + END;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The group has the driver's number for as long as anything is in it; the driver itself is not reaped before.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
