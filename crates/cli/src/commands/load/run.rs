//! Runs a job: a trial connection, the warm-up, the measurement, and the result.

use std::{
    cell::RefCell,
    fs,
    io::{self, Read as _},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use forebay_load::{
    Session, Url,
    engine::{Control, Exchange, Stretch, exchange},
    machine::{self, Machine, MachineError, Usage},
    plan::Load,
    report::Report,
    search::warm_up,
    target::Address,
};

use super::{
    LoadError,
    announcement::announcement,
    arguments::Options,
    debug,
    gates::Gates,
    interrupt::Interrupt,
    live::Live,
    outputs,
    plan::{self, Environment, Job},
    searches::{self, Outcome},
    spawn,
};
use crate::{failure::UsageError, output};

/// Longest body or list or saved run that is read from a file or standard input.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A run that counts requests ends without them when nothing has come for so long beyond the time-outs.
const STALL: Duration = Duration::from_secs(5);
/// The host of a URL that is a path only, until the command's own port is known.
const PLACEHOLDER: &str = "http://127.0.0.1:1";

/// A request that is sent once, described with the same words as those of a load.
#[derive(Debug)]
pub(crate) struct Once {
    pub(crate) url: String,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    pub(crate) body_file: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
}

/// Sends one request, and gives its answer.
pub(crate) fn once(request: Once) -> anyhow::Result<Exchange> {
    let options = Options {
        url: vec![request.url],
        method: request.method,
        headers: request.headers,
        body: request.body,
        body_file: request.body_file,
        timeout: request.timeout,
        allow_remote: true,
        ..Options::default()
    };
    let job = job(&options)?;
    let exchange = exchange(&job.plan).map_err(|error| LoadError::NoAnswer {
        address: job.plan.lanes[0].address.to_string(),
        example: Some(super::lanes::usage(&error).to_string()),
    })?;
    Ok(exchange)
}

/// What the options ask for, with the files, the environment and the names of this machine.
pub(crate) fn job(options: &Options) -> anyhow::Result<Job> {
    let environment = Environment {
        cores: cores(),
        resolve: &|url: &Url| url.resolve(),
        read: &|file| read(file),
        ports: local_ports(),
    };
    plan::job(options, &environment)
}

/// Does what the options say, and prints the result.
pub(crate) fn run(mut options: Options) -> anyhow::Result<()> {
    let standard_input = RefCell::new(None);
    let environment = Environment {
        cores: cores(),
        resolve: &|url: &Url| url.resolve(),
        read: &|file| {
            if file.as_os_str() != "-" {
                return read(file);
            }
            // It can be read once, and is asked for each time a job is made.
            let mut kept = standard_input.borrow_mut();
            match &*kept {
                Some(bytes) => Ok(Vec::clone(bytes)),
                None => read(file).inspect(|bytes| *kept = Some(bytes.clone())),
            }
        },
        ports: local_ports(),
    };
    let on_path = options.on_port && takes_path(&mut options);
    let job = plan::job(&options, &environment)?;
    outputs::check_files(options.forms.files())?;
    searches::check(&options)?;
    let gates = Gates::read(&options)?;
    let interrupt = Interrupt::listen()?;
    let spawner = spawn::Spawner::new();
    let mut notes = options.of_tool.notes.clone();
    let (server, job) = if options.on_port {
        let wanted = match &job.plan.lanes[0].address {
            Address::Tcp(address) if !on_path => Some(*address),
            _ => None,
        };
        let (server, found) = serve(&options, wanted, &spawner, &interrupt)?;
        let address = found[0];
        if let [_, others @ ..] = found.as_slice()
            && !others.is_empty()
        {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            notes.push(format!(
                "the command listens on {address} first and on {} too; {address} is loaded, a whole URL chooses another",
                others.join(", ")
            ));
        }
        if on_path {
            for url in &mut options.url {
                *url = url.replacen(PLACEHOLDER, &format!("http://{address}"), 1);
            }
        }
        (Some(server), plan::job(&options, &environment)?)
    } else {
        (None, job)
    };
    let machine = Observed {
        machine: Machine::this(),
        server: options.server_pid.or(server.as_ref().map(spawn::Server::pid)),
    };
    machine.sample()?;
    trials(&job)?;
    if options.debug {
        return debug::run(&job);
    }
    let other = second(&options, &environment, &job, &spawner, &interrupt)?;
    for note in notes.iter().chain(&job.notes) {
        output::complaint(&format!("note: {note}"));
    }
    if !options.quiet {
        output::complaint(&announcement(&job, &options));
    }
    let second = other.as_ref().map(|(_, job)| job);
    match searches::run(&options, &job, second, &machine, &interrupt)? {
        Some(Outcome::Finding {
            text,
            json,
            interrupted,
            reports,
        }) => {
            return Outcome::print(&text, &json, interrupted, &reports, &options);
        }
        Some(Outcome::Report(report)) => {
            let reports = [*report];
            answered(&job, &reports)?;
            outputs::write(&options.forms, &reports)?;
            return gates.judge(&reports[0]);
        }
        None => {}
    }
    let load = |&connections: &usize| Load {
        connections,
        ..job.load
    };
    let loads: Vec<Load> = match options.of_tool.sizes.as_slice() {
        [] => vec![job.load],
        sizes => sizes.iter().map(load).collect(),
    };
    let mut reports = Vec::new();
    for load in loads {
        let measured = measure(&job, load, &options, &machine, &interrupt)?;
        let interrupted = measured.interrupted;
        reports.push(measured);
        if interrupted {
            break;
        }
    }
    answered(&job, &reports)?;
    outputs::write(&options.forms, &reports)?;
    reports.last().map_or(Ok(()), |report| gates.judge(report))
}

/// The server to compare with: another URL, or the same one on the port of a command that is started here.
fn second(
    options: &Options,
    environment: &Environment<'_>,
    job: &Job,
    spawner: &spawn::Spawner,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<(Option<spawn::Server>, Job)>> {
    let mut other = options.clone();
    let server = if let Some(command) = &options.vs_cmd {
        let port = spawn::free_port()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let words = ["sh".into(), "-c".into(), command.into()];
        let mut server = spawner.start(&words, Some(port), interrupt)?;
        server.wait(Some(address), interrupt)?;
        let mut url = Url::parse(&job.run.urls[0])?;
        (url.host, url.port) = (address.ip().to_string(), port);
        other.url = vec![url.to_string()];
        other.unix_socket = None;
        Some(server)
    } else if let Some(url) = &options.vs {
        other.url = vec![url.clone()];
        None
    } else {
        return Ok(None);
    };
    let job = plan::job(&other, environment)?;
    trial(&job.plan.lanes[0].address, job.plan.connect_timeout)?;
    Ok(Some((server, job)))
}

/// Gives URLs that are only a path a host for the time being. True: they are such.
fn takes_path(options: &mut Options) -> bool {
    if options.url.is_empty() {
        options.url.push("/".to_owned());
    }
    let are_paths = options.url.iter().all(|url| url.starts_with('/'));
    if are_paths {
        options
            .url
            .iter_mut()
            .for_each(|url| url.insert_str(0, PLACEHOLDER));
    }
    are_paths
}

/// Starts the command of --on-port, and waits until it listens; where, the first address first.
fn serve(
    options: &Options,
    wanted: Option<SocketAddr>,
    spawner: &spawn::Spawner,
    interrupt: &Interrupt,
) -> anyhow::Result<(spawn::Server, Vec<SocketAddr>)> {
    if let Some(address) = wanted
        && TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
    {
        let address = address.to_string();
        return Err(LoadError::Taken { address }.into());
    }
    let mut server = spawner.start(&options.command, wanted.map(|address| address.port()), interrupt)?;
    let found = server.wait(wanted, interrupt)?;
    Ok((server, found))
}

/// Processors of this machine.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A trial connection to everything that is to be loaded.
pub(crate) fn trials(job: &Job) -> Result<(), LoadError> {
    let mut lanes = job.plan.lanes.iter();
    lanes.try_for_each(|lane| trial(&lane.address, job.plan.connect_timeout))
}

/// One connection to say clearly when there is nobody to load. Nothing is sent on it.
fn trial(address: &Address, timeout: Duration) -> Result<(), LoadError> {
    let tried = match address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, timeout).map(drop),
        Address::Unix(file) => UnixStream::connect(file).map(drop),
    };
    let address = address.to_string();
    tried.map_err(|source| match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            LoadError::NothingListens { address, source }
        }
        _ => LoadError::Unreachable { address, source },
    })
}

/// The machine, and the server on it if it is known.
pub(crate) struct Observed {
    pub(crate) machine: Machine,
    pub(crate) server: Option<u32>,
}

impl Observed {
    fn sample(&self) -> Result<machine::Sample, UsageError> {
        let sampled = self.machine.sample(self.server);
        sampled.map_err(|error: MachineError| UsageError(format!("--server-pid: {error}")))
    }

    /// Does something, and tells what was used meanwhile. A server that has gone in between leaves its figures out.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Option<Usage>) {
        let before = self.machine.sample(self.server).ok();
        let done = work();
        let after = self.machine.sample(self.server);
        let after = after.or_else(|_| self.machine.sample(None)).ok();
        let usage = before
            .zip(after)
            .map(|(before, after)| Usage::between(&before, &after));
        (done, usage)
    }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis() as u64
}

/// Warms up and measures.
fn measure(
    job: &Job,
    load: Load,
    options: &Options,
    observed: &Observed,
    interrupt: &Interrupt,
) -> anyhow::Result<Report> {
    let mut session = Session::start(job.plan.clone())?;
    interrupt.stops(session.stopper());
    let mut live = Live::new(options.quiet, "warming up", job.warm_up.until());
    let warm_up = warm_up(&mut session, load, job.warm_up, &mut |stretch| live.look(stretch));
    live.end();
    let started_unix_ms = unix_ms();
    let mut watcher = Watcher::new(job, load, options);
    let (measured, usage) =
        observed.during(|| session.steer(load, job.until, &mut |stretch| watcher.look(stretch)));
    watcher.live.end();
    if let Some(why) = watcher.ended {
        output::complaint(why);
    }
    let first_answer = session.first_answer().cloned();
    let after = session.finish();
    let mut run = job.run.clone();
    run.started_unix_ms = started_unix_ms;
    run.load = Some(load);
    if job.schedule.is_none() {
        run.connections = load.connections;
    }
    let mut report = Report::new(run, &measured, &after);
    report.warm_up = warm_up;
    report.first_answer = first_answer;
    report.environment = Some(observed.machine.environment());
    report.usage = usage;
    Ok(report)
}

/// Looks at a measurement while it lasts: shows it, changes the load by its stages, and sees when it shall end early.
struct Watcher<'a> {
    job: &'a Job,
    load: Load,
    failures_max: u64,
    /// How long nothing may come in a run that has no end in time.
    stall: Option<Duration>,
    live: Live,
    begun: Instant,
    /// When an answer was last seen, and how many had come.
    seen: (Instant, u64),
    ended: Option<&'static str>,
}

impl<'a> Watcher<'a> {
    fn new(job: &'a Job, load: Load, options: &Options) -> Self {
        let until = job.until;
        let begun = Instant::now();
        let longest = job.plan.timeout + job.plan.connect_timeout + STALL;
        Self {
            job,
            load,
            failures_max: options.bail.unwrap_or(u64::MAX),
            stall: (until.duration.is_none() && until.requests.is_some()).then_some(longest),
            live: Live::new(options.quiet, "measuring", until),
            begun,
            seen: (begun, 0),
            ended: None,
        }
    }

    fn look(&mut self, stretch: &Stretch) -> Control {
        self.live.look(stretch);
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

/// A run without a single answer has failed.
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

/// Everything in a file, or `-` for standard input, up to a limit.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        io::stdin()
            .lock()
            .take(INPUT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)?
    } else {
        fs::File::open(file)?
            .take(INPUT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)?
    };
    if read as u64 > INPUT_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {INPUT_BYTES_MAX} bytes"),
        ));
    }
    Ok(bytes)
}

/// How many ports the system gives to connections, as far as it says.
pub(crate) fn local_ports() -> Option<usize> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = range.split_whitespace().map(str::parse::<usize>);
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    (high + 1).checked_sub(low)
}
