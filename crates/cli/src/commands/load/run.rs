//! Runs a job: a trial connection, the warm-up, the measurement, and the result.

use std::{
    cell::OnceCell,
    fs,
    io::{self, Read as _},
    net::{SocketAddr, TcpStream},
    num::NonZero,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use forebay_load::{
    Session, Url,
    engine::{Control, Stretch, Until},
    machine::{Machine, Usage},
    plan::{Engine, Load, Pace},
    report::{
        Report,
        assert::{self, Assertion},
        format::{count, duration, several},
    },
    search::{WarmUp, warm_up},
};

use super::{
    LoadError,
    arguments::Options,
    interrupt::Interrupt,
    outputs,
    plan::{self, Environment, Job},
    searches,
    spawn::Server,
};
use crate::{failure::UsageError, output};

/// Most bytes of a body, list or saved run read from a file or standard input.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A run that counts requests gives up when no response has arrived for this long beyond the timeouts.
const STALL: Duration = Duration::from_secs(5);
/// Default number of connections of a load in the background.
const BACKGROUND_CONNECTIONS: usize = 16;
/// Longest duration of a load in the background, in case nothing ends it.
const BACKGROUND_MAX: Duration = Duration::from_mins(5);
/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Sends one request, and waits for its response, whatever its status.
pub(crate) fn once(request: Options) -> anyhow::Result<()> {
    let options = Options {
        connections: Some(1),
        count: Some(1),
        allow_remote: true,
        ..request
    };
    let job = job(&options)?;
    let mut session = Session::start(job.plan.clone())?;
    let until = Until {
        requests: Some(1),
        ..Until::passed(job.plan.connect_timeout + job.plan.timeout)
    };
    let measured = session.measure(job.load, until, &mut |_| {});
    answered(
        &job,
        &[Report::new(job.run.clone(), &measured, &session.finish())],
    )?;
    Ok(())
}

/// A load in the background, while the command does something else.
#[derive(Debug)]
pub(crate) struct Loading {
    stopper: Arc<AtomicBool>,
    thread: thread::JoinHandle<Option<String>>,
}

impl Loading {
    /// Starts to load a URL, of this machine unless others are allowed.
    pub(crate) fn start(url: &str, connections: Option<usize>, allow_remote: bool) -> anyhow::Result<Self> {
        let connections = connections.unwrap_or(BACKGROUND_CONNECTIONS);
        let options = Options {
            url: vec![url.to_owned()],
            connections: Some(connections),
            allow_remote,
            ..Options::default()
        };
        let job = job(&options)?;
        trials(&job)?;
        let mut session = Session::start(job.plan)?;
        let stopper = session.stopper();
        let thread = thread::spawn(move || {
            let stretch = session.measure(job.load, Until::passed(BACKGROUND_MAX), &mut |_| {});
            session.finish();
            let failed = stretch.total.failures.total();
            let example = stretch.examples.first().map(|(_, text)| text.clone());
            (failed > 0).then(|| format!("{failed}, the first: {}", example.unwrap_or_default()))
        });
        Ok(Self { stopper, thread })
    }

    /// Ends the load. Returns a description of failed requests, if there are any.
    pub(crate) fn end(self) -> Option<String> {
        self.stopper.store(true, Ordering::Relaxed);
        self.thread.join().ok().flatten()
    }
}

/// Builds the job for the options, with the files, environment and resolver of this machine.
fn job(options: &Options) -> anyhow::Result<Job> {
    plan::job(options, &here(&read))
}

/// This machine, whose files are read by `read`.
fn here(read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Environment<'_> {
    Environment {
        cores: std::thread::available_parallelism().map_or(1, NonZero::get),
        resolve: &|url: &Url| url.resolve(),
        read,
        ports: local_ports(),
    }
}

/// Runs the options' job and prints the result.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // Standard input can be read once, but is requested by the second server's job, too.
    let standard_input = OnceCell::new();
    let read_once = |file: &Path| {
        if file.as_os_str() != "-" {
            return read(file);
        }
        if let Some(bytes) = standard_input.get() {
            return Ok(Vec::clone(bytes));
        }
        let bytes = read(file)?;
        Ok(standard_input.get_or_init(|| bytes).clone())
    };
    let environment = here(&read_once);
    let job = plan::job(options, &environment)?;
    outputs::check_files(options.forms.files())?;
    let search = searches::check(options)?;
    let assertions = assertions(options)?;
    let interrupt = Interrupt::listen()?;
    let sampled = Machine::this().sample(options.server_pid);
    sampled.map_err(|error| UsageError(format!("--server-pid: {error}")))?;
    trials(&job)?;
    let (_server, second) = second(options, &environment, &job, &interrupt)?.unzip();
    for note in &options.of_tool.notes {
        output::complaint(&format!("note: {note}"));
    }
    if !options.quiet {
        output::complaint(&announcement(&job, options));
    }
    if let Some(search) = search {
        return search.run(options, &job, second.as_ref(), &interrupt);
    }
    let loads = match options.of_tool.sizes.as_slice() {
        [] => vec![job.load],
        sizes => sizes
            .iter()
            .map(|&connections| Load {
                connections,
                ..job.load
            })
            .collect(),
    };
    let mut reports = Vec::new();
    for load in loads {
        reports.push(measure(&job, load, options, &interrupt)?);
        if interrupt.came() {
            break;
        }
    }
    answered(&job, &reports)?;
    outputs::write(&options.forms, &reports)?;
    reports.last().map_or(Ok(()), |report| judge(&assertions, report))
}

/// The server to compare with: another URL, or the same one on the port of a command that is started here.
fn second(
    options: &Options,
    environment: &Environment<'_>,
    job: &Job,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<(Option<Server>, Job)>> {
    let (server, url) = match (&options.vs_cmd, &options.vs) {
        (Some(command), _) => {
            let server = Server::start(command, interrupt)?;
            let mut url = Url::parse(&job.run.urls[0])?;
            (url.host, url.port) = (server.address.ip().to_string(), server.address.port());
            (Some(server), url.to_string())
        }
        (None, Some(url)) => (None, url.clone()),
        (None, None) => return Ok(None),
    };
    let other = Options {
        url: vec![url],
        ..options.clone()
    };
    let job = plan::job(&other, environment)?;
    trials(&job)?;
    Ok(Some((server, job)))
}

/// The line that announces a run, such as `GET http://localhost:8080/local: 64 connections on 1 thread, 10s after 2s of warm-up`.
fn announcement(job: &Job, options: &Options) -> String {
    let connections = several(job.connections_max as u64, "connection");
    let threads = several(job.plan.threads as u64, "thread");
    let mut parts = vec![format!("{connections} on {threads}")];
    if job.plan.engine == Engine::IoUring {
        parts.push("io_uring".to_owned());
    }
    if let Some(other) = options.vs.as_ref().or(options.vs_cmd.as_ref()) {
        parts.push(format!("in turn with {other}"));
    } else if options.find_best {
        parts.push("looking for the best number up to that".to_owned());
    } else if let Some(slo) = &options.slo {
        parts.push(format!("looking for the highest rate with {slo}"));
    } else {
        if let Some(stages) = NonZero::new(options.stages.len()) {
            parts.push(several(stages.get() as u64, "stage"));
        } else if let Pace::Open { per_second } = job.load.pace {
            parts.push(format!("{per_second} requests/s"));
        }
        parts.extend(job.until.requests.map(|requests| several(requests, "request")));
        let at_most = if job.until.requests.is_some() {
            "at most "
        } else {
            ""
        };
        parts.extend(
            job.until
                .duration
                .map(|duration| format!("{at_most}{duration:?}")),
        );
    }
    let warm_up = match job.warm_up {
        WarmUp::For(Duration::ZERO) => String::new(),
        WarmUp::For(time) => format!(" after {time:?} of warm-up"),
        WarmUp::UntilSteady { least, most } => {
            format!(" after a warm-up until it is steady ({least:?} to {most:?})")
        }
    };
    let more = match job.run.urls.len() {
        1 => String::new(),
        urls => format!(" and {} more", urls - 1),
    };
    let (method, url) = (&job.run.method, &job.run.urls[0]);
    format!("{method} {url}{more}: {}{warm_up}", parts.join(", "))
}

/// Makes a connection to every address of the job, so that a server that does not listen gives a clear error. Nothing is sent on them.
fn trials(job: &Job) -> Result<(), LoadError> {
    let trial = |address: SocketAddr| {
        let tried = TcpStream::connect_timeout(&address, job.plan.connect_timeout);
        let address = address.to_string();
        tried.map(drop).map_err(|source| match source.kind() {
            io::ErrorKind::ConnectionRefused => LoadError::NothingListens { address, source },
            _ => LoadError::Unreachable { address, source },
        })
    };
    job.plan.lanes.iter().try_for_each(|lane| trial(lane.address))
}

/// Warms up and measures.
fn measure(job: &Job, load: Load, options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    let machine = Machine::this();
    let mut session = Session::start(job.plan.clone())?;
    interrupt.stops(session.stopper());
    let mut watcher = Watcher::new(job, load, options, "warming up");
    let warm_up = warm_up(&mut session, load, job.warm_up, &mut |stretch| {
        watcher.show(stretch);
    });
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut watcher = Watcher::new(job, load, options, "measuring");
    let before = machine.sample(options.server_pid).ok();
    let measured = session.steer(load, job.until, &mut |stretch| watcher.look(stretch));
    // If the server has ended meanwhile, its figures are left out.
    let after = machine
        .sample(options.server_pid)
        .or_else(|_| machine.sample(None))
        .ok();
    if let Some(why) = watcher.ended {
        output::complaint(why);
    }
    let mut run = job.run.clone();
    run.started_unix_ms = started.as_millis() as u64;
    run.load = Some(load);
    if job.schedule.is_none() {
        run.connections = load.connections;
    }
    let mut report = Report::new(run, &measured, &session.finish());
    report.warm_up = warm_up;
    report.environment = Some(machine.environment());
    report.usage = before
        .zip(after)
        .map(|(before, after)| Usage::between(&before, &after));
    Ok(report)
}

/// Watches a measurement: shows it on standard error, changes the load by its stages, and decides when to end it early.
struct Watcher<'a> {
    job: &'a Job,
    /// The part of the run, such as `measuring`.
    what: &'static str,
    quiet: bool,
    load: Load,
    failures_max: u64,
    /// Longest time without a response in a run that has no time limit.
    stall: Option<Duration>,
    begun: Instant,
    /// Time of the last line of progress, and the number of responses by then.
    shown: (Instant, u64),
    /// Time of the last new response, and the number of responses by then.
    seen: (Instant, u64),
    ended: Option<&'static str>,
}

impl<'a> Watcher<'a> {
    fn new(job: &'a Job, load: Load, options: &Options, what: &'static str) -> Self {
        let until = job.until;
        let begun = Instant::now();
        let longest = job.plan.timeout + job.plan.connect_timeout + STALL;
        Self {
            job,
            what,
            quiet: options.quiet,
            load,
            failures_max: options.bail.unwrap_or(u64::MAX),
            stall: (until.duration.is_none() && until.requests.is_some()).then_some(longest),
            begun,
            shown: (begun, 0),
            seen: (begun, 0),
            ended: None,
        }
    }

    /// Writes a line of progress, if it is time to. It has figures that exist anyway, so that it costs nothing that could be measured.
    fn show(&mut self, stretch: &Stretch) {
        let (now, (last, before)) = (Instant::now(), self.shown);
        if self.quiet || now < last + PROGRESS_EVERY {
            return;
        }
        let total = &stretch.total;
        self.shown = (now, total.answers);
        let rate = total.answers.saturating_sub(before) as f64 / (now - last).as_secs_f64();
        let at = |quantile| duration(total.latency.value_at_quantile(quantile) as f64);
        output::complaint(&format!(
            "{} {} s: {} answers, {}/s, p50 {}, p99 {}, {} failed",
            self.what,
            (now - self.begun).as_secs(),
            count(total.answers),
            count(rate.round() as u64),
            at(0.5),
            at(0.99),
            count(total.failures.total())
        ));
    }

    fn look(&mut self, stretch: &Stretch) -> Control {
        self.show(stretch);
        if stretch.total.failures.total() >= self.failures_max {
            self.ended = Some("ended early: so many failures were not to be exceeded");
            return Control::Stop;
        }
        if stretch.total.answers > self.seen.1 {
            self.seen = (Instant::now(), stretch.total.answers);
        } else if self.stall.is_some_and(|stall| self.seen.0.elapsed() > stall) {
            self.ended = Some("ended early: no answer comes any more");
            return Control::Stop;
        }
        let Some(schedule) = &self.job.schedule else {
            return Control::Continue;
        };
        let load = schedule.at(self.begun.elapsed());
        if load == self.load {
            return Control::Continue;
        }
        self.load = load;
        Control::SetLoad(load)
    }
}

/// A run without a single response is a failure.
fn answered(job: &Job, reports: &[Report]) -> Result<(), LoadError> {
    if reports.iter().any(|report| report.answers > 0) {
        return Ok(());
    }
    let mut failures = reports.iter().flat_map(|report| &report.failures);
    Err(LoadError::NoAnswer {
        address: job.plan.lanes[0].address.to_string(),
        example: failures.find_map(|failure| failure.example.clone()),
    })
}

fn assertions(options: &Options) -> Result<Vec<Assertion>, UsageError> {
    let mut assertions = Vec::new();
    for text in &options.assertions {
        assertions.extend(assert::parse(text).map_err(|error| UsageError(format!("--assert: {error}")))?);
    }
    Ok(assertions)
}

/// Judges a result and prints the findings to standard error. An interrupted run passes: it is not the run that was asked for.
fn judge(assertions: &[Assertion], report: &Report) -> anyhow::Result<()> {
    if report.interrupted && !assertions.is_empty() {
        output::complaint("the run was interrupted: its assertions are not judged");
        return Ok(());
    }
    let outcomes = assert::judge(assertions, report);
    for outcome in &outcomes {
        let held = if outcome.held { "holds" } else { "does not hold" };
        output::complaint(&format!("{} {held}: {}", outcome.assertion, outcome.found));
    }
    match outcomes.iter().filter(|outcome| !outcome.held).count() {
        0 => Ok(()),
        failed => Err(LoadError::Assertions {
            failed,
            all: outcomes.len(),
        }
        .into()),
    }
}

/// The content of a file, or of standard input for `-`, up to a limit.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let source: &mut dyn io::Read = if file.as_os_str() == "-" {
        &mut io::stdin().lock()
    } else {
        &mut fs::File::open(file)?
    };
    source.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {INPUT_BYTES_MAX} bytes"),
        ));
    }
    Ok(bytes)
}

/// Number of local ports for connections; `None` if the system does not say.
fn local_ports() -> Option<usize> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = range.split_whitespace().map(str::parse::<usize>);
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    (high + 1).checked_sub(low)
}
