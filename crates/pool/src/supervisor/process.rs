//! A worker process, from its spawn to its end.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use forebay_wire::FrameType;
use rustix::{
    event::{EventfdFlags, eventfd},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use tokio::{
    io::BufReader,
    process::{Child, Command as Spawn},
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use super::{
    handshake::{self, HandshakeError},
    signal_number,
};
use crate::{
    Options, Protocol,
    confinement::{Leftovers, Plan},
    guard,
    link::{Channel, Link},
    outbox::Page,
    pool::Shared,
    reader::{CallSocket, Input, Reader},
    state::Signal,
    sys,
    worker_log::{self, Record, Stream},
};

/// Descriptors of the protocol in the worker.
const LINK_FD: i32 = 3;
const PAGE_FD: i32 = 4;
const BELL_FD: i32 = 5;
const CALL_FD: i32 = 6;
/// The parent's descriptors have higher numbers, so that placing one in the child does not overwrite another.
const PARENT_FD_MIN: i32 = 10;
/// Number of lines of standard error kept for the message about a failed start.
const LAST_LINES: usize = 20;
/// Time for a process to end after it has closed its link.
const CLOSED_GRACE: Duration = Duration::from_millis(300);
/// Time for outputs to be closed after the process has ended: a child process may hold them open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Process {
    id: u64,
    pid: u32,
    /// Whether the process was reaped, so that the system may reuse its number and that of its group.
    reaped: Cell<bool>,
    link: Arc<Link>,
    /// The second socket, for calls that block the worker.
    call_link: Option<Arc<Link>>,
    last_lines: Arc<parking_lot::Mutex<VecDeque<String>>>,
    leftovers: Leftovers,
}

impl Process {
    pub(super) fn spawn(options: &Options, id: u64) -> io::Result<(Self, Leader)> {
        let program = &options.program;
        let mut fds = Vec::new();
        let (channel, stdio) = if program.protocol.is_on_stdio() {
            let (channel, stdin, stdout) = pipes()?;
            (channel, [stdin.into(), stdout.into()])
        } else {
            let (ours, theirs) = socket()?;
            fds.push((sys::duplicate_above(theirs.as_fd(), PARENT_FD_MIN)?, LINK_FD));
            (Channel::Socket(ours), [Stdio::null(), Stdio::piped()])
        };
        let page = if program.page {
            let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let page = Page::new()?;
            fds.push((sys::duplicate_above(page.file().as_fd(), PARENT_FD_MIN)?, PAGE_FD));
            fds.push((sys::duplicate_above(bell.as_fd(), PARENT_FD_MIN)?, BELL_FD));
            Some((page, bell))
        } else {
            None
        };
        let call_socket = if has_call_socket(options) {
            let (ours, theirs) = socket()?;
            fds.push((sys::duplicate_above(theirs.as_fd(), PARENT_FD_MIN)?, CALL_FD));
            Some(ours)
        } else {
            None
        };
        let generation = generation(id);
        let children = signal(SignalKind::child())?;
        sys::reserve(LINK_FD..=CALL_FD)?;
        let (child, leftovers) = start(options, id, &fds, stdio)?;
        let pid = child.id().expect("a child that was not waited for has an id");
        guard::add_worker(pid, &leftovers);
        let link = Link::new(
            channel,
            program.protocol,
            generation,
            options.message_bytes_max,
            page,
        );
        Ok((
            Self {
                id,
                pid,
                reaped: Cell::new(false),
                call_link: call_socket.map(|socket| link.beside(socket)),
                link,
                last_lines: Arc::default(),
                leftovers,
            },
            Leader { child, pid, children },
        ))
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Has the worker's second socket read, if it has one.
    pub(super) fn attend(&self, pool: &Arc<Shared>, key: usize, options: &Options) {
        if let (Some(link), Some(handler)) = (&self.call_link, &options.calls) {
            handler.attend(CallSocket(Reader {
                pool: pool.clone(),
                link: link.clone(),
                worker: key,
                id: self.id,
                rest: BytesMut::new(),
                input: Input::Calls,
                files: RefCell::default(),
            }));
        }
    }

    pub(super) fn drain(&self) {
        // Without frames, a worker's input is closed once it has answered everything.
        if !self.link.protocol.takes_whole_bodies() {
            self.link.control(FrameType::Drain, &[]);
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        if signal == Signal::Terminate {
            self.link.stop_now();
        }
        if !self.reaped.get() {
            sys::signal_group(self.pid, signal_number(signal));
        }
    }

    /// The last lines of standard error.
    fn last_words(&self) -> String {
        self.last_lines
            .lock()
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The spawned process. Until it is reaped, its number and that of its group cannot be reused.
#[derive(Debug)]
pub(super) struct Leader {
    child: Child,
    pid: u32,
    /// SIGCHLD notifications, for any child.
    children: tokio::signal::unix::Signal,
}

impl Leader {
    /// Waits until the process has ended, without reaping it.
    async fn ended(&mut self) {
        let pid = Pid::from_raw(self.pid.cast_signed()).expect("a process number is not 0");
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while let Ok(None) = waitid(WaitId::Pid(pid), options) {
            self.children.recv().await;
        }
    }

    async fn reap(mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }
}

/// The worker's generation in its frames, 1 to 65535.
pub(crate) fn generation(id: u64) -> u16 {
    ((id - 1) % u64::from(u16::MAX) + 1) as u16
}

/// Whether workers get a second socket: those that speak frames on the first one, and may make calls.
fn has_call_socket(options: &Options) -> bool {
    options.calls.is_some() && options.program.protocol == Protocol::Framed
}

/// Creates a link on an inherited socket: returns the server's end and the worker's.
fn socket() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    // The worker's end is blocking by default, so that the simplest program can use it.
    rustix::io::ioctl_fionbio(&theirs, false)?;
    Ok((ours, theirs))
}

/// Creates a link on standard input and output: returns the server's ends and the worker's two. Pipes, because programs open `/dev/stdout`
/// and the like, which fails for sockets.
fn pipes() -> io::Result<(Channel, OwnedFd, OwnedFd)> {
    let (stdin, to) = pipe_with(PipeFlags::CLOEXEC)?;
    let (from, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&to, true)?;
    rustix::io::ioctl_fionbio(&from, true)?;
    let to = parking_lot::Mutex::new(Some(Arc::new(to)));
    Ok((Channel::Pipes { from, to }, stdin, stdout))
}

/// Starts the process, confined if the options say so.
fn start(
    options: &Options,
    id: u64,
    fds: &[(OwnedFd, i32)],
    stdio: [Stdio; 2],
) -> io::Result<(Child, Leftovers)> {
    let Some(confinement) = &options.confinement else {
        return Ok((
            command(options, id, fds, stdio, None).spawn()?,
            Leftovers::default(),
        ));
    };
    let (plan, leftovers) = confinement
        .plan(&format!("{}-{id}", options.name))
        .map_err(io::Error::other)?;
    let plan = Arc::new(plan);
    let mut command = command(options, id, fds, stdio, Some(plan.clone()));
    if let Some(tmp) = &leftovers.tmp {
        command.env("TMPDIR", tmp);
    }
    match command.spawn() {
        Ok(child) => Ok((child, leftovers)),
        Err(error) => {
            leftovers.remove();
            Err(plan.failure(&error).map_or(error, io::Error::other))
        }
    }
}

fn command(
    options: &Options,
    id: u64,
    fds: &[(OwnedFd, i32)],
    [stdin, stdout]: [Stdio; 2],
    confinement: Option<Arc<Plan>>,
) -> Spawn {
    let program = &options.program;
    let (executable, arguments) = program
        .argv
        .split_first()
        .expect("the configuration names a program");
    let mut command = std::process::Command::new(executable);
    command
        .args(arguments)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .env("FOREBAY_PROTOCOL", protocol_variable(program.protocol))
        .env("FOREBAY_GENERATION", generation(id).to_string())
        .current_dir(&program.cwd)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::piped());
    if program.protocol.is_on_stdio() {
        command.env("FOREBAY_LINK", "stdio");
    } else {
        command.env("FOREBAY_LINK_FD", LINK_FD.to_string());
    }
    if program.protocol.takes_whole_bodies() {
        // The content of INIT for workers without frames.
        command
            .env("FOREBAY_POOL", &options.name)
            .env("FOREBAY_WORKER", id.to_string())
            .env("FOREBAY_CONCURRENCY", options.concurrency.to_string())
            .env("FOREBAY_MESSAGE_BYTES_MAX", options.message_bytes_max.to_string());
        for (name, module) in [
            ("FOREBAY_HANDLER", &program.handler),
            ("FOREBAY_START", &program.start),
        ] {
            if let Some(module) = module {
                command.env(name, module);
            }
        }
    }
    if has_call_socket(options) {
        command.env("FOREBAY_CALL_FD", CALL_FD.to_string());
    }
    if program.page {
        command
            .env("FOREBAY_PAGE_FD", PAGE_FD.to_string())
            .env("FOREBAY_BELL_FD", BELL_FD.to_string());
    }
    sys::contain(
        &mut command,
        fds.iter().map(|(fd, target)| (fd.as_raw_fd(), *target)).collect(),
        confinement,
    );
    Spawn::from(command)
}

/// The value of `FOREBAY_PROTOCOL`: the version of the frames, or the name of another protocol.
fn protocol_variable(protocol: Protocol) -> String {
    match protocol {
        Protocol::Framed | Protocol::FramedStdio => forebay_wire::PROTOCOL_VERSION.to_string(),
        Protocol::Jsonl | Protocol::Wabur { .. } => protocol.name().to_owned(),
    }
}

/// Runs a worker's life cycle: handshake, work, end. Returns when the process and everything it left behind are gone.
pub(super) async fn watch(pool: &Arc<Shared>, key: usize, process: &Process, mut leader: Leader) {
    let outputs = [
        leader
            .child
            .stdout
            .take()
            .map(|out| capture(pool, process, BufReader::new(out), Stream::Stdout)),
        leader
            .child
            .stderr
            .take()
            .map(|err| capture(pool, process, BufReader::new(err), Stream::Stderr)),
    ];
    let mut shaking = pin!(handshake::perform(pool, key, process.id, process.link()));
    let shaken = tokio::select! {
        biased;
        shaken = &mut shaking => shaken,
        // Frames that were sent before the end are still in the link.
        () = leader.ended() => timeout(OUTPUT_GRACE, shaking).await.unwrap_or(Err(HandshakeError::Closed)),
    };
    let started = shaken.map(|ready| adopt(pool, key, process, ready));
    match &started {
        Ok(()) | Err(HandshakeError::Failed { .. } | HandshakeError::Closed) => {}
        Err(_) => process.signal(Signal::Kill),
    }
    if started.is_ok() {
        tokio::select! {
            () = leader.ended() => process.link().hang_up(),
            () = process.link().ended.notified() => {}
        }
    }
    if timeout(CLOSED_GRACE, leader.ended()).await.is_err() {
        process.signal(Signal::Kill);
        leader.ended().await;
    }
    // Kill everything that the worker has left in its group. This must happen before it is reaped, while the group is surely ours.
    process.signal(Signal::Kill);
    if let Some(link) = &process.call_link {
        // Its reader ends even if another process holds the other end.
        link.hang_up();
    }
    // Before it is reaped, so that the guard does it if this server is killed meanwhile.
    if process.leftovers.are_there() {
        let leftovers = process.leftovers.clone();
        let removal = tokio::task::spawn_blocking(move || leftovers.remove());
        removal.await.expect("removing files does not panic");
    }
    process.reaped.set(true);
    guard::remove(process.pid);
    let status = leader.reap().await;
    for output in outputs.into_iter().flatten() {
        drop(timeout(OUTPUT_GRACE, output).await);
    }
    conclude(pool, key, process, started, status.ok());
}

fn capture(
    pool: &Arc<Shared>,
    process: &Process,
    output: impl tokio::io::AsyncBufRead + Unpin + 'static,
    stream: Stream,
) -> tokio::task::JoinHandle<()> {
    let (pool, id, last_lines) = (pool.clone(), process.id, process.last_lines.clone());
    tokio::task::spawn_local(async move {
        let mut record: Option<Record> = None;
        worker_log::each_line(output, |line| {
            let is_taken = record
                .as_mut()
                .zip(line)
                .is_some_and(|(record, line)| record.takes(line));
            if !is_taken && let Some(record) = record.take() {
                record.log(&pool.name, id, stream);
            }
            let Some(line) = line else { return };
            if stream == Stream::Stderr {
                let mut last = last_lines.lock();
                if last.len() == LAST_LINES {
                    last.pop_front();
                }
                last.push_back(line.to_owned());
            }
            if !is_taken {
                record = Some(Record::new(line, pool.state.lock().running_request_id(id)));
            }
        })
        .await;
    })
}

fn adopt(pool: &Arc<Shared>, key: usize, process: &Process, ready: handshake::Ready) {
    let uses_page = process.link().set_claims(ready.claims);
    process.link().set_takes_identity(ready.takes_identity);
    pool.change(None, |session| {
        let (state, out) = session.parts();
        state.raise_concurrency(ready.concurrency);
        state.worker_ready(key, uses_page, Instant::now(), out);
    });
    // Only now: the reader may find the link's end at once, and then the worker's key can be reused.
    pool.mailboxes.adopt(Reader {
        pool: pool.clone(),
        link: process.link().clone(),
        worker: key,
        id: process.id,
        rest: ready.rest,
        input: ready.input,
        files: RefCell::default(),
    });
    // Without a handshake it is unknown whether the worker will stay, so the last start error may still apply.
    if !pool.protocol.takes_whole_bodies() {
        *pool.start_error.lock() = None;
    }
    tracing::info!(
        target: "forebay::pool", pool = %pool.name, worker = process.id, pid = process.pid, "worker ready"
    );
}

/// Completes the bookkeeping that needs the end of the process.
fn conclude(
    pool: &Arc<Shared>,
    key: usize,
    process: &Process,
    started: Result<(), HandshakeError>,
    status: Option<ExitStatus>,
) {
    let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
    let Err(error) = started else {
        tracing::info!(
            target: "forebay::pool", pool = %pool.name, worker = process.id, pid = process.pid, status, "worker ended"
        );
        if pool.protocol.takes_whole_bodies() {
            let message = format!("worker ended ({status})\n{}", process.last_words());
            *pool.start_error.lock() = Some(message);
        }
        return;
    };
    let cause = match &error {
        HandshakeError::Closed => format!("worker ended during its start ({status})"),
        error => error.to_string(),
    };
    let stack = match &error {
        HandshakeError::Failed { stack, .. } => {
            Some(worker_log::shortened(worker_log::without_cause(stack, &cause)))
        }
        _ => None,
    };
    let words = Some(process.last_words()).filter(|words| !words.is_empty());
    tracing::error!(
        target: "forebay::pool", pool = %pool.name, worker = process.id, cause, stack, stderr = words, "worker did not start"
    );
    let stack = stack.filter(|stack| !stack.is_empty()).map(str::to_owned);
    let message = stack
        .into_iter()
        .chain(words)
        .fold(cause, |text, more| text + "\n" + &more);
    *pool.start_error.lock() = Some(message);
    pool.change(None, |session| session.worker_gone(key));
}
