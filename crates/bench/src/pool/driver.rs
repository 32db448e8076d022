//! Measures JavaScript pools with the SDK's driver: a separate process for each measurement, which reads a plan as one line of JSON and
//! writes its progress and result as lines of JSON. The driver exits when its standard input closes, and so never outlives this process.

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

use forebay_runtimes::{Environment, Runtime, Sdk, find_runtime};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::pool::{BenchError, Contender, Load, Outcome, Plan, SuiteEvent, suite::Tell};

/// The driver program, in the SDK.
const PROGRAM: &str = "dist/pool/benchmark/main.js";
/// How much longer than a plan's deadline a driver may be silent. Its pool has 30 s to start; from then on it reports progress five times a
/// second.
const SILENCE: Duration = Duration::from_secs(45);
/// How long a driver may take to exit after it has reported its result.
const END: Duration = Duration::from_secs(5);
/// Interval at which the driver is checked for having exited.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A plan in the form that the driver reads.
#[derive(Debug, Serialize)]
struct DriverPlan<'a> {
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

/// A line of JSON written by the driver.
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

/// Runs one measurement of a JavaScript pool.
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
    let told = DriverPlan {
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
            }) => tell(SuiteEvent::Progress {
                warming_up: part == Part::Warmup,
                answered,
                messages,
            }),
            Ok(Said::Line { text }) => tell(SuiteEvent::Line(&text)),
            Ok(Said::Error { text }) => return Err(failed(text)),
            Ok(Said::Result(mut outcome)) => {
                let (version, settings, start_ms) = ready.expect("a driver is ready before it has a result");
                (outcome.version, outcome.settings, outcome.start_ms) = (version, settings, start_ms);
                driver.ends_by_itself();
                return Ok(*outcome);
            }
            // Output of a pool or a handler.
            Err(_) => tell(SuiteEvent::Stray(&line)),
        }
    }
}

/// The driver process. Dropping it kills the driver and everything it has started.
struct Driver {
    child: Child,
    lines: Receiver<String>,
}

impl Driver {
    fn start(runtime: Runtime, sdk: &Sdk, plan: &DriverPlan<'_>, folder: &Path) -> Result<Self, BenchError> {
        let program = find_runtime(runtime, folder, &Environment::current())?;
        let failed = |source| BenchError::Start {
            what: program.display().to_string(),
            source,
        };
        let mut command = Command::new(&program);
        if runtime == Runtime::Bun {
            // Otherwise Bun would ask a registry for packages it does not find.
            command.arg("--no-install");
        }
        let mut child = command
            .arg(sdk.file(PROGRAM))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Ctrl-C reaches the driver only as the end of its standard input, because some pools handle signals in their own way.
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

    /// Waits a limited time for the driver to exit.
    fn ends_by_itself(&mut self) {
        let until = Instant::now() + END;
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Signalling the group is safe: the driver is not reaped before, so its process id cannot have been reused.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
