//! `forebay load URL --agents`: gives each agent its share, starts them together, and adds up what they report.

use std::{
    collections::HashSet,
    ffi::OsString,
    net::{TcpStream, ToSocketAddrs as _},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use forebay_load::report::{Report, merge};

use super::{
    AGENTS_MAX, AgentError, BEAT, READY_MAX, SILENCE_MAX,
    wire::{Ear, LINE_BYTES_MAX, Message, Mouth, REPORT_BYTES_MAX, Wire, WireError},
    words,
};
use crate::{
    commands::load::{arguments::Options, gates::Gates, interrupt::Interrupt, outputs, plan::CONNECTIONS},
    failure::UsageError,
    output,
};

/// How long a connection to an agent may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Pause between two lines on how far it is.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// An agent that is connected.
struct Agent {
    name: String,
    ear: Ear,
    mouth: Mouth,
}

/// Runs what a command line says on all agents. `words` are those after `forebay load`.
pub(crate) fn run(options: &Options, words: Vec<OsString>) -> anyhow::Result<()> {
    let orders = orders(options, &words::sent(words)?)?;
    outputs::check(options)?;
    options.forms.check()?;
    let gates = Gates::read(options)?;
    let interrupt = Interrupt::listen()?;
    let mut agents = Vec::new();
    for (name, words) in options.agents.iter().zip(orders) {
        agents.push(greet(name, options.token.clone(), words)?);
    }
    for agent in &mut agents {
        ready(agent)?;
    }
    if !options.quiet {
        output::complaint(&format!(
            "{} agents are ready: {}",
            agents.len(),
            options.agents.join(", ")
        ));
    }
    let reports = measure(agents, options.quiet, &interrupt)?;
    let mut report = merge(&reports).map_err(anyhow::Error::from)?;
    report.run.title.clone_from(&options.title);
    outputs::announce(options, &report.run, b"")?;
    let reports = [report];
    outputs::write(options, &reports)?;
    gates.judge(options, &reports[0])
}

/// What each agent is to run.
fn orders(options: &Options, sent: &[String]) -> Result<Vec<Vec<String>>, UsageError> {
    let refuse = |text: String| Err(UsageError(text));
    let agents = options.agents.len();
    if agents > AGENTS_MAX {
        return refuse(format!("--agents: found {agents}, expected at most {AGENTS_MAX}"));
    }
    let mut names = HashSet::new();
    if let Some(twice) = options.agents.iter().find(|name| !names.insert(*name)) {
        return refuse(format!(
            "--agents: {twice} is named twice; an agent runs one share at a time"
        ));
    }
    let connections = options.connections.unwrap_or(CONNECTIONS);
    for (what, value) in [
        ("connections", Some(connections as u64)),
        ("requests", options.count),
    ] {
        if let Some(value) = value.filter(|value| *value < agents as u64) {
            return refuse(format!(
                "{value} {what} are too few for {agents} agents: each needs one"
            ));
        }
    }
    let share = |all: u64, at: usize| all / agents as u64 + u64::from((at as u64) < all % agents as u64);
    let orders = (0..agents).map(|at| {
        let mut words = sent.to_vec();
        words.push(format!("--connections={}", share(connections as u64, at)));
        // What is random shall not be the same everywhere.
        words.push(format!(
            "--seed={}",
            options.seed.unwrap_or(1).wrapping_add(at as u64)
        ));
        words.extend(options.count.map(|count| format!("--count={}", share(count, at))));
        words.extend(
            options
                .rate
                .map(|rate| format!("--rate={}", rate / agents as f64)),
        );
        words
    });
    Ok(orders.collect())
}

fn greet(name: &str, token: Option<String>, words: Vec<String>) -> Result<Agent, AgentError> {
    let unreachable = |source| AgentError::Unreachable {
        agent: name.to_owned(),
        source,
    };
    let addresses = name.to_socket_addrs().map_err(unreachable)?;
    let mut failed = std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => {
                let (ear, mouth) = Wire::new(stream).map_err(unreachable)?.split();
                let mut agent = Agent {
                    name: name.to_owned(),
                    ear,
                    mouth,
                };
                for message in [Message::Hello { token }, Message::Order { words }] {
                    // One that refuses may have gone before the second line; it has said why.
                    if agent.mouth.say(&message).is_err() {
                        break;
                    }
                }
                return Ok(agent);
            }
            Err(error) => failed = error,
        }
    }
    Err(unreachable(failed))
}

fn ready(agent: &mut Agent) -> Result<(), AgentError> {
    let name = || agent.name.clone();
    match agent.ear.hear(READY_MAX, LINE_BYTES_MAX) {
        Ok(Message::Ready) => Ok(()),
        Ok(Message::Failed { why }) => Err(AgentError::Refused { agent: name(), why }),
        Ok(_) => Err(AgentError::Confused { agent: name() }),
        Err(source) => Err(AgentError::Lost {
            agent: name(),
            source,
        }),
    }
}

/// What an agent has said, or why it says nothing any more.
type Heard = (usize, Result<Message, WireError>);

/// Starts all of them, and waits for their reports. When one fails the others end, because their controller goes.
fn measure(agents: Vec<Agent>, quiet: bool, interrupt: &Interrupt) -> Result<Vec<Report>, AgentError> {
    let (sender, heard) = channel::<Heard>();
    let mut mouths = Vec::new();
    for (at, agent) in agents.into_iter().enumerate() {
        let Agent { name, mut ear, mouth } = agent;
        let sender = sender.clone();
        let listen = move || {
            loop {
                let said = ear.hear(SILENCE_MAX, REPORT_BYTES_MAX);
                let last = !matches!(said, Ok(Message::Progress { .. }));
                if sender.send((at, said)).is_err() || last {
                    return;
                }
            }
        };
        let spawned = thread::Builder::new().name(format!("agent-{at}")).spawn(listen);
        spawned.map_err(|source| AgentError::Unreachable {
            agent: name.clone(),
            source,
        })?;
        mouths.push((name, mouth));
    }
    let done = wait(&mut mouths, &heard, quiet, interrupt);
    for (_, mouth) in &mouths {
        mouth.hang_up();
    }
    done
}

fn wait(
    mouths: &mut [(String, Mouth)],
    heard: &Receiver<Heard>,
    quiet: bool,
    interrupt: &Interrupt,
) -> Result<Vec<Report>, AgentError> {
    let mut reports: Vec<Option<Report>> = mouths.iter().map(|_| None).collect();
    let mut progress = vec![(0, 0); mouths.len()];
    let names: Vec<String> = mouths.iter().map(|(name, _)| name.clone()).collect();
    let mut say = |message: &Message, reports: &[Option<Report>]| {
        for ((_, mouth), _) in mouths
            .iter_mut()
            .zip(reports)
            .filter(|(_, report)| report.is_none())
        {
            // What becomes of it is heard.
            let _ = mouth.say(message);
        }
    };
    say(&Message::Go, &reports);
    let begun = Instant::now();
    let (mut next_beat, mut next_line, mut ended) = (begun + BEAT, begun + LINE_EVERY, false);
    while reports.iter().any(Option::is_none) {
        let now = Instant::now();
        if interrupt.came() && !ended {
            ended = true;
            say(&Message::End, &reports);
        }
        if now >= next_beat {
            next_beat = now + BEAT;
            if !ended {
                say(&Message::On, &reports);
            }
        }
        if now >= next_line && !quiet {
            next_line = now + LINE_EVERY;
            let (answers, failed) = progress
                .iter()
                .fold((0, 0), |all: (u64, u64), one| (all.0 + one.0, all.1 + one.1));
            let seconds = (now - begun).as_secs();
            output::complaint(&format!("{seconds} s: {answers} answers, {failed} failures"));
        }
        let (at, said) = match heard.recv_timeout(next_beat.saturating_duration_since(now)) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => continue,
        };
        match said {
            Ok(Message::Progress { answers, failed }) => progress[at] = (answers, failed),
            Ok(Message::Report(report)) => reports[at] = Some(*report),
            Ok(Message::Failed { why }) => {
                let agent = names[at].clone();
                return Err(AgentError::Refused { agent, why });
            }
            Ok(_) => {
                let agent = names[at].clone();
                return Err(AgentError::Confused { agent });
            }
            Err(source) => {
                let agent = names[at].clone();
                return Err(AgentError::Lost { agent, source });
            }
        }
    }
    Ok(reports.into_iter().flatten().collect())
}
