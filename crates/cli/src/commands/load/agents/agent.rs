//! `forebay load agent`: waits for a controller, runs its share, and tells what came of it.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use forebay_load::{engine::Stretch, machine::Machine, report::Report, target::Address};

use super::{
    BEAT, READY_MAX, SILENCE_MAX,
    wire::{Ear, LINE_BYTES_MAX, Message, Mouth, Wire, WireError},
    words,
};
use crate::{
    commands::load::{
        arguments::Options,
        interrupt::Interrupt,
        plan::{self, Job, Surroundings},
        records::Witness,
        run::{self, Observed},
        serve,
    },
    failure::UsageError,
    output,
};

/// Most connections of controllers at a time; one of them runs something.
const CONTROLLERS_MAX: usize = 8;
/// How long a controller may take to say who it is and what it wants.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Longest first line of a controller.
const GREETING_BYTES_MAX: usize = 4096;
/// Longest run.
const RUN_MAX: Duration = Duration::from_hours(1);

/// Wait for work of a load that several machines make together
///
/// The controller is `forebay load URL --agents HOST:PORT,HOST:PORT`. An agent runs one share at a time, for an hour at most, and ends it when
/// its controller goes away. It loads its own machine only, unless it is started with --allow-remote. What is said is not encrypted: let
/// agents listen in a network that is yours, or behind a tunnel.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen: a port, or HOST:PORT. Port 0 is any free one. Example: --listen 127.0.0.1:9400
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9400")]
    listen: String,
    /// What controllers must say; needed where other machines can connect. Example: --token 2f9e8c
    #[arg(long, value_name = "TEXT", env = "FOREBAY_LOAD_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Permit loads on hosts other than this machine. Only for servers that are yours. Example: --allow-remote
    #[arg(long)]
    allow_remote: bool,
}

/// What all connections of an agent share.
struct Agent {
    token: Option<String>,
    allow_remote: bool,
    busy: AtomicBool,
    controllers: AtomicUsize,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Address::Tcp(address) = serve::address(&arguments.listen)? else {
        return Err(UsageError("--listen: an agent listens on a port, not on a file".to_owned()).into());
    };
    if !address.ip().is_loopback() && arguments.token.as_deref().is_none_or(str::is_empty) {
        let text =
            format!("--listen: {address} can be reached from other machines; --token says who may use it");
        return Err(UsageError(text).into());
    }
    let interrupt = Interrupt::listen()?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let address: SocketAddr = listener.local_addr()?;
    match output::line(&format!("forebay load agent is listening on {address}")) {
        // It works whether or not somebody reads it.
        Ok(()) | Err(output::OutputError::ReaderGone) => {}
        Err(error) => return Err(error.into()),
    }
    let agent = Arc::new(Agent {
        token: arguments.token,
        allow_remote: arguments.allow_remote,
        busy: AtomicBool::new(false),
        controllers: AtomicUsize::new(0),
    });
    thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || agent.accept(&listener))?;
    // What runs then ends with the process, and its controller sees that.
    interrupt.wait();
    Ok(())
}

impl Agent {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                // No descriptor is free, say: others may go meanwhile.
                thread::sleep(BEAT);
                continue;
            };
            let before = self.controllers.fetch_add(1, Ordering::AcqRel);
            let agent = self.clone();
            let serve = move || {
                if before < CONTROLLERS_MAX {
                    agent.serve(stream);
                }
                agent.controllers.fetch_sub(1, Ordering::AcqRel);
            };
            if thread::Builder::new()
                .name("controller".to_owned())
                .spawn(serve)
                .is_err()
            {
                self.controllers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Speaks with a controller until one of them has enough.
    fn serve(&self, stream: TcpStream) {
        let Ok(wire) = Wire::new(stream) else {
            return;
        };
        let (mut ear, mut mouth) = wire.split();
        let answer = match self.admit(&mut ear) {
            Ok(()) if self.busy.swap(true, Ordering::AcqRel) => Err("it is busy with another run".to_owned()),
            Ok(()) => {
                let done = self.work(ear, &mut mouth);
                self.busy.store(false, Ordering::Release);
                done
            }
            Err(why) => Err(why),
        };
        if let Err(why) = answer {
            let _ = mouth.say(&Message::Failed { why });
        }
    }

    fn admit(&self, ear: &mut Ear) -> Result<(), String> {
        let Ok(Message::Hello { token: said }) = ear.hear(GREETING_MAX, GREETING_BYTES_MAX) else {
            return Err("it expects a controller of its own version".to_owned());
        };
        match &self.token {
            Some(token) if !is_same(token, said.as_deref().unwrap_or_default()) => {
                Err("the token is missing or wrong; --token gives it".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Runs an order. An error is for the controller.
    fn work(&self, mut ear: Ear, mouth: &mut Mouth) -> Result<(), String> {
        let said = |error: WireError| error.to_string();
        let Message::Order { words } = ear.hear(GREETING_MAX, LINE_BYTES_MAX).map_err(said)? else {
            return Err("it expects an order".to_owned());
        };
        let mut options = words::taken(&words)?;
        options.allow_remote = self.allow_remote;
        let told = |error: anyhow::Error| format!("{error:#}");
        let family = run::family(&options);
        let around = Surroundings {
            cores: run::cores(),
            resolve: &|url| url.resolve(family),
            read: &|_| {
                Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "an agent reads no file",
                ))
            },
            // A controller could have it sent anywhere.
            env: &|_| None,
            ports: run::local_ports(),
        };
        let job = plan::job(&options, &around).map_err(told)?;
        run::trials(&job).map_err(|error| told(error.into()))?;
        mouth.say(&Message::Ready).map_err(said)?;
        match ear.hear(READY_MAX, LINE_BYTES_MAX).map_err(said)? {
            Message::Go => {}
            _ => return Err("it expects to be told to go".to_owned()),
        }
        let interrupt = Interrupt::default();
        let listening = {
            let interrupt = interrupt.clone();
            move || {
                // Silence, an end of the connection and the order to end all end the run.
                while let Ok(Message::On) = ear.hear(SILENCE_MAX, LINE_BYTES_MAX) {}
                interrupt.end();
            }
        };
        thread::Builder::new()
            .name("listening".to_owned())
            .spawn(listening)
            .map_err(|error| error.to_string())?;
        let report = beat_while(mouth, |seen| measure(&job, &options, &interrupt, seen)).map_err(told)?;
        // The thread that listens ends when the controller has hung up.
        mouth.say(&Message::Report(Box::new(report))).map_err(said)
    }
}

/// What is told while a run lasts.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    failed: AtomicU64,
    over: Mutex<bool>,
    ended: Condvar,
}

/// Tells how far it is, again and again, until something is done.
fn beat_while<T>(mouth: &mut Mouth, work: impl FnOnce(&Seen) -> T) -> T {
    let seen = Seen::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut over = seen.over.lock().expect("nobody panics with it locked");
            while !*over {
                let progress = Message::Progress {
                    answers: seen.answers.load(Ordering::Relaxed),
                    failed: seen.failed.load(Ordering::Relaxed),
                };
                if mouth.say(&progress).is_err() {
                    // Its controller has gone, which ends the run by the thread that listens.
                    return;
                }
                over = seen
                    .ended
                    .wait_timeout(over, BEAT)
                    .expect("nobody panics with it locked")
                    .0;
            }
        });
        let done = work(&seen);
        *seen.over.lock().expect("nobody panics with it locked") = true;
        seen.ended.notify_all();
        done
    })
}

fn measure(job: &Job, options: &Options, interrupt: &Interrupt, seen: &Seen) -> anyhow::Result<Report> {
    let observed = Observed {
        machine: Machine::this(),
        server: None,
    };
    let mut watch = Watch {
        seen,
        interrupt,
        begun: Instant::now(),
    };
    run::measure(job, job.load, options, &observed, interrupt, &mut watch)
}

/// Notes how far a run is, and ends one that takes too long.
struct Watch<'a> {
    seen: &'a Seen,
    interrupt: &'a Interrupt,
    begun: Instant,
}

impl Witness for Watch<'_> {
    fn look(&mut self, stretch: &Stretch) {
        self.seen.answers.store(stretch.total.answers, Ordering::Relaxed);
        self.seen
            .failed
            .store(stretch.total.failures.total(), Ordering::Relaxed);
        if self.begun.elapsed() > RUN_MAX {
            self.interrupt.end();
        }
    }

    fn end(&mut self, _: &Report) {}
}

/// Compares without telling by its time where the first difference lies.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one
        .bytes()
        .zip(other.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}
