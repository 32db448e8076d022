//! Drives the server's own pool in this process, without HTTP, with the same loop as the SDK's driver for JavaScript pools. Messages are
//! request bodies, as in the server; each outstanding message is a task on one thread, as a connection is.

mod messages;

use std::{
    ffi::OsString,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use forebay_pool::{LocalMailbox, Mailboxes, Options, Pool, Program, Protocol, Recycle, Status, Supervisor};
use forebay_runtimes::{ENV_PASSED, Environment, Sdk, find_python, find_runtime};
use hdrhistogram::Histogram;
use tokio::{task::LocalSet, time};

use self::messages::Messages;
use crate::pool::{
    BenchError, ErrorText, Handled, Language, Load, OUTSTANDING_MAX, Outcome, Plan, SuiteEvent, Times, cpu,
    lines, suite::Tell,
};

/// The SDK's handler for Node and Bun.
const HANDLER: &str = "dist/pool/benchmark/handlers/server-handler.js";
/// The SDK's application for Python.
const MODULE: &str = "--module=forebay._benchmark";
/// The environment variable that tells workers the file of a custom handler.
const HANDLER_VARIABLE: &str = "FOREBAY_BENCH_HANDLER";
/// How long a worker may take to start; the same as in the server.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a worker may ignore a signal before it is killed.
const KILL_GRACE: Duration = Duration::from_millis(300);
/// How long workers may take to exit after a measurement.
const STOP_MAX: Duration = Duration::from_secs(5);
/// In shorter runs the CPU use of other processes is not reported: one tick of the clock would be a percent.
const JUDGED_MIN: Duration = Duration::from_millis(500);
/// Bytes of a message without its payload, including its overhead in a frame.
const MESSAGE_BYTES: usize = 512;

/// Runs one measurement of the server's pool.
pub(crate) fn measure(
    language: Language,
    workers: usize,
    plan: &Plan,
    sdk: &Sdk,
    tell: &mut Tell<'_>,
) -> Result<Outcome, BenchError> {
    let options = options(language, workers, plan, sdk)?;
    let start = |what: &str| {
        let what = what.to_owned();
        move |source| BenchError::Start { what, source }
    };
    let supervisor = Supervisor::start().map_err(start("the thread of the workers"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(start("an event loop"))?;
    let mailboxes = Mailboxes::new(1);
    let begun = Instant::now();
    LocalSet::new().block_on(&runtime, async {
        let mailbox = LocalMailbox::open(&mailboxes, 0);
        let pool = Pool::start(options, &supervisor, mailboxes.clone());
        let ready = pool.settled().await;
        let measured = match ready {
            Ok(()) => measure_pool(&pool, &mailbox, plan, begun, tell).await,
            Err(reason) => Err(BenchError::Workers { reason }),
        };
        pool.stop();
        if time::timeout(STOP_MAX, pool.stopped()).await.is_err() {
            pool.stop_now();
            let _ = time::timeout(STOP_MAX, pool.stopped()).await;
        }
        measured
    })
}

fn options(language: Language, workers: usize, plan: &Plan, sdk: &Sdk) -> Result<Options, BenchError> {
    let mut env: Vec<(OsString, OsString)> = ENV_PASSED
        .into_iter()
        .filter_map(|name| Some((name.into(), std::env::var_os(name)?)))
        .collect();
    env.push(("FOREBAY_STORE_MODE".into(), "none".into()));
    env.extend(
        plan.handler
            .as_ref()
            .map(|file| (HANDLER_VARIABLE.into(), file.into())),
    );
    let (argv, handler) = command(language, plan, sdk, &mut env)?;
    Ok(Options {
        name: "bench".to_owned(),
        program: Program {
            argv,
            env,
            protocol: Protocol::Framed,
            cwd: plan.folder.clone(),
            // Without a shared page a worker is given only as many messages as it runs at once.
            page: plan.in_flight.is_none(),
            handler,
            start: None,
        },
        workers_min: workers,
        workers_max: workers,
        concurrency: plan.in_flight.map_or(1, usize::from),
        concurrency_max: plan.in_flight.map_or(1, usize::from),
        connections_max: 1,
        queue_max: OUTSTANDING_MAX,
        queue_bytes_max: OUTSTANDING_MAX.saturating_mul(MESSAGE_BYTES + plan.payload),
        start_timeout: START_TIMEOUT,
        kill_grace: KILL_GRACE,
        idle_retire: Duration::MAX,
        recycle: Recycle::default(),
        message_bytes_max: MESSAGE_BYTES + plan.payload,
        call_timeout: plan.deadline,
        confinement: None,
        calls: None,
        remote: false,
        files: true,
    })
}

/// The command line of a worker, and the handler passed to it.
fn command(
    language: Language,
    plan: &Plan,
    sdk: &Sdk,
    env: &mut Vec<(OsString, OsString)>,
) -> Result<(Vec<OsString>, Option<PathBuf>), BenchError> {
    let environment = Environment::current();
    match language {
        Language::JavaScript(runtime) => {
            let program = find_runtime(runtime, &plan.packages, &environment)?;
            let launch = sdk.launch(runtime, &program, &[], Protocol::Framed);
            env.extend(launch.env);
            Ok((launch.argv, Some(sdk.file(HANDLER))))
        }
        Language::Python => {
            let program = find_python(None, &plan.folder, &environment)?;
            Ok((sdk.launch_python(&program, [MODULE.into()]), None))
        }
    }
}

async fn measure_pool(
    pool: &Pool,
    mailbox: &Rc<LocalMailbox>,
    plan: &Plan,
    begun: Instant,
    tell: &mut Tell<'_>,
) -> Result<Outcome, BenchError> {
    let start_ms = begun.elapsed().as_secs_f64() * 1e3;
    if plan.warmup > 0 {
        // The warm-up always saturates the pool: the delay between blocks has no effect on what gets warm.
        let load = match plan.load {
            Load::Saturating { .. } => plan.load,
            Load::Blocks { .. } => Load::Saturating {
                outstanding: plan.block * 2,
            },
        };
        let messages = Messages::new(pool, mailbox, plan, plan.warmup);
        messages.drive(load, plan.block, true, tell).await?;
    }
    let before = pool.status();
    let rss_before_bytes = rss_bytes();
    let (main, everything, busy) = (
        cpu::this_thread_us(),
        cpu::everything_us(),
        cpu::machine_busy_us(),
    );
    let run = Messages::new(pool, mailbox, plan, plan.messages);
    let driven = run.clone().drive(plan.load, plan.block, false, tell).await?;
    let elapsed_s = driven.elapsed.as_secs_f64();
    let per_message = |us: f64| us / plan.messages as f64;
    let main_us = per_message(cpu::this_thread_us() - main);
    let difference = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
    let all_us = difference(everything, cpu::everything_us());
    let others_us = difference(all_us, difference(busy, cpu::machine_busy_us()));
    let after = pool.status();
    let workers = handled(&before, &after);
    if matches!(plan.load, Load::Blocks { adaptive: true, .. }) {
        for line in lines::summary(plan.messages, elapsed_s, workers.iter().map(|each| each.messages)) {
            tell(SuiteEvent::Line(&line));
        }
    }
    let counted = run.take_counted();
    Ok(Outcome {
        messages: plan.messages,
        elapsed_s,
        rate: plan.messages as f64 / elapsed_s,
        latency: times(&counted.latency_ns, 1e3),
        wait: times_between(&before.timings.wait_us, &after.timings.wait_us),
        run: times_between(&before.timings.run_us, &after.timings.run_us),
        main_us: Some(main_us),
        all_us: all_us.map(per_message),
        others_share: others_us.and_then(|us| others_share(us, driven.elapsed)),
        rss_before_bytes,
        rss_bytes: rss_bytes(),
        workers,
        errors: counted.errors,
        error_texts: counted
            .texts
            .into_iter()
            .map(|(text, count)| ErrorText { text, count })
            .collect(),
        delay_ms: driven.delay.as_secs_f64() * 1e3,
        outstanding_max: driven.outstanding_max,
        start_ms,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: plan
            .in_flight
            .map(|in_flight| ("concurrency".to_owned(), in_flight.into()))
            .into_iter()
            .collect(),
    })
}

/// Messages answered by each worker between two snapshots of the pool's status.
fn handled(before: &Status, after: &Status) -> Vec<Handled> {
    let answered = |id: u64| {
        before
            .workers
            .iter()
            .find(|each| each.id == id)
            .map_or(0, |each| each.answered)
    };
    after
        .workers
        .iter()
        .map(|worker| Handled {
            worker: worker.id.to_string(),
            messages: worker.answered - answered(worker.id),
        })
        .collect()
}

/// Other processes' share of the machine; `None` if the run was too short for the kernel's clock ticks.
fn others_share(us: f64, elapsed: Duration) -> Option<f64> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (elapsed >= JUDGED_MIN).then(|| (us / 1e6 / elapsed.as_secs_f64() / cores as f64).max(0.0))
}

/// Percentiles of the values added between two snapshots of a histogram, which counts microseconds.
fn times_between(before: &Histogram<u64>, after: &Histogram<u64>) -> Option<Times> {
    let mut between = after.clone();
    between.subtract(before).ok()?;
    (!between.is_empty()).then(|| times(&between, 1.0))
}

fn times(histogram: &Histogram<u64>, units_in_us: f64) -> Times {
    let at = |q| histogram.value_at_quantile(q) as f64 / units_in_us;
    Times {
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: histogram.max() as f64 / units_in_us,
    }
}

fn rss_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
