//! Starts the entries of a ladder: the server of this version with all rungs, and the peers.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_load::{
    Plan, Session,
    engine::Until,
    expect::{Check, Expect},
    failure::Class,
    plan::{Lane, Load, Pace},
    request::{Grammar, Parts, Requests, split_url},
};

use super::{
    LadderError,
    place::{self, Place},
    run::{Event, Settings, Tell},
    site,
    suite::{Entry, Suite},
};
use crate::process::Process;

/// Longest time until a server must give the right answer.
pub(super) const READY_MAX: Duration = Duration::from_secs(30);
/// How long a server may answer wrongly, from its first answer on.
const WRONG_MAX: Duration = Duration::from_secs(2);
/// Longest wait for the answer of a starting server, before the others are asked.
const ASK_MAX: Duration = Duration::from_secs(1);
/// Longest wait for a response under load.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The same where the last of many requests that are sent at once waits for all others.
const REQUESTS_ANSWER_MAX: Duration = Duration::from_mins(1);
/// How often a starting server is asked.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(20);

/// An entry of the ladder, and where it is served.
#[derive(Debug)]
pub(super) struct Contender<'a> {
    pub(super) entry: &'a Entry,
    pub(super) is_peer: bool,
    place: &'a Place,
    /// The process that serves it; rungs share one.
    process: Option<Rc<RefCell<Process>>>,
    address: Option<SocketAddr>,
    /// Placeholders of a peer.
    own: Vec<(&'static str, String)>,
    skipped: Option<String>,
    failure: Option<String>,
    /// When it first answered wrongly.
    wrong_since: Option<Instant>,
    /// The last rate, from which a program that wants a number of requests is told one.
    pub(super) rate: f64,
}

/// Waits until each contender has given the right answer, or is given up.
fn wait_until_ready(contenders: &mut [Contender<'_>], stop: &AtomicBool, tell: &mut Tell<'_>) {
    let begun = Instant::now();
    let mut waiting: Vec<usize> = (0..contenders.len()).collect();
    let mut is_first = true;
    while !waiting.is_empty() && !stop.load(Ordering::Relaxed) {
        waiting.retain(|at| {
            let (before, contender) = contenders.split_at_mut(*at);
            let contender = &mut contender[0];
            let server = contender.entry.served_by.as_ref();
            if let Some(server) =
                server.and_then(|name| before.iter().find(|other| other.entry.name == *name))
            {
                contender.share(server);
            }
            if contender.failure().is_some() {
                return false;
            }
            if is_first {
                tell(Event::Starting(&contender.entry.name));
            }
            match contender.is_ready(begun.elapsed()) {
                Some(Ok(())) => false,
                Some(Err(why)) => {
                    contender.fail(why);
                    false
                }
                None => true,
            }
        });
        is_first = false;
        thread::sleep(ASK_EVERY);
    }
}

impl<'a> Contender<'a> {
    /// Starts the server and, if the settings include them, the peers. An entry that cannot be served has the reason as its failure; the others go on.
    pub(super) fn start(
        suite: &'a Suite,
        chosen: &BTreeSet<&str>,
        settings: &Settings,
        place: &'a Place,
        stop: &Arc<AtomicBool>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Self>, LadderError> {
        tell(Event::Starting("the server"));
        let (server, address) = site::start(suite, settings, place, stop)?;
        let mut contenders = Vec::new();
        for rung in suite
            .rungs
            .iter()
            .filter(|rung| chosen.contains(rung.name.as_str()))
        {
            let mut contender = Self::new(rung, false, place);
            if !rung.command.is_empty() {
                contender.start_own(address, stop, tell);
            } else if rung.measure.is_none() {
                contender.process = Some(Rc::clone(&server));
                contender.address = Some(address);
            }
            contenders.push(contender);
        }
        let peers = suite
            .peers
            .iter()
            .filter(|peer| settings.peers && chosen.contains(peer.name.as_str()))
            // Programs of peers keep their connections.
            .filter(|peer| settings.keep_alive || peer.measure.is_none());
        for peer in peers {
            let mut contender = Self::new(peer, true, place);
            if peer.served_by.is_none() {
                contender.start_own(address, stop, tell);
            }
            if let Some(why) = &mut contender.skipped {
                // Writing to a String cannot fail.
                let _ = write!(why, "; install it: {}", peer.install);
            }
            contenders.push(contender);
        }
        wait_until_ready(&mut contenders, stop, tell);
        Ok(contenders)
    }

    /// Takes over the process of the peer that serves this one.
    fn share(&mut self, server: &Self) {
        self.process.clone_from(&server.process);
        self.address = server.address;
        self.skipped.clone_from(&server.skipped);
        let has_ended = |process: &Rc<RefCell<Process>>| process.borrow_mut().ended().is_some();
        if server.process.as_ref().is_none_or(has_ended) {
            self.failure.clone_from(&server.failure);
        }
    }

    fn new(entry: &'a Entry, is_peer: bool, place: &'a Place) -> Self {
        let mut needs = entry.needs.iter().chain(entry.command.first());
        Self {
            entry,
            is_peer,
            place,
            process: None,
            address: None,
            own: Vec::new(),
            skipped: needs.find_map(|need| place.lacks(need)),
            failure: None,
            wrong_since: None,
            rate: 0.0,
        }
    }

    /// Why it was not started.
    pub(super) fn skipped(&self) -> Option<&str> {
        self.skipped.as_deref()
    }

    /// Whether it is measured without the disk that its figures are about.
    pub(super) fn lacks_disk(&self) -> bool {
        self.entry.durable && self.place.is_in_memory()
    }

    /// Why there is no figure.
    pub(super) fn failure(&self) -> Option<&str> {
        self.skipped.as_deref().or(self.failure.as_deref())
    }

    /// Gives it up, with the reason, and how its process ended if it has.
    pub(super) fn fail(&mut self, why: String) {
        let ended = self
            .process
            .as_ref()
            .and_then(|process| process.borrow_mut().ended());
        self.failure = Some(match ended {
            Some(how) => format!("{why}; its process has ended: {how}"),
            None => why,
        });
    }

    /// The process whose CPU time counts.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.borrow().pid())
    }

    /// Starts the entry's own program, which may ask the server of all rungs, if this machine has it; a failure is the entry's.
    fn start_own(&mut self, server: SocketAddr, stop: &AtomicBool, tell: &mut Tell<'_>) {
        if self.skipped.is_some() || stop.load(Ordering::Relaxed) {
            return;
        }
        tell(Event::Starting(&self.entry.name));
        if let Err(why) = self.try_start(server, stop) {
            self.fail(why);
        }
    }

    fn try_start(&mut self, server: SocketAddr, stop: &AtomicBool) -> Result<(), String> {
        let is_plain = |letter: char| letter.is_alphanumeric();
        let name = self.entry.name.replace(|letter| !is_plain(letter), "-");
        let folder = self.place.folder().join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let port = free_port().map_err(|error| error.to_string())?;
        self.own = vec![
            ("folder", folder.to_string_lossy().into_owned()),
            ("port", port.to_string()),
            ("server", server.to_string()),
        ];
        for (name, text) in &self.entry.files {
            let file = folder.join(name);
            let text = self.place.fill(text, &self.own)?;
            fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        for words in &self.entry.before {
            self.place.run(words, &self.own, stop)?;
        }
        if let Some(program) = self.entry.command.first() {
            let mut command = self.place.command(&self.entry.command, &self.own)?;
            for (name, value) in &self.entry.env {
                command.env(name, self.place.fill(value, &self.own)?);
            }
            let process = Process::start(&mut command).map_err(|error| format!("{program}: {error}"))?;
            self.process = Some(Rc::new(RefCell::new(process)));
            self.address = Some((Ipv4Addr::LOCALHOST, port).into());
        }
        Ok(())
    }

    /// Asks for the right answer, which has been waited for so long. `None`: not yet.
    fn is_ready(&mut self, waited: Duration) -> Option<Result<(), String>> {
        if !self.entry.command.is_empty() || self.entry.served_by.is_some() {
            self.find_address();
        }
        let Err((answers, why)) = self.ask() else {
            return Some(Ok(()));
        };
        let ended = self
            .process
            .as_ref()
            .and_then(|process| process.borrow_mut().ended());
        if let Some(how) = ended {
            return Some(Err(format!("it ended before it answered: {how}")));
        }
        let wrong_since = answers.then(|| *self.wrong_since.get_or_insert_with(Instant::now));
        let is_wrong = wrong_since.is_some_and(|since| since.elapsed() > WRONG_MAX);
        (is_wrong || waited > READY_MAX).then(|| {
            Err(match self.last_line() {
                Some(line) => format!("{why}; it printed: {line}"),
                None => why,
            })
        })
    }

    /// The last line that its process has printed.
    fn last_line(&self) -> Option<String> {
        place::last_line(&self.process.as_ref()?.borrow().output())
    }

    /// A peer without a fixed port prints where it listens; one that is served by another's process is where that is.
    fn find_address(&mut self) {
        let printed = self
            .process
            .as_ref()
            .map(|process| process.borrow().output())
            .unwrap_or_default();
        // A shared process prints one address for all of them.
        if let Some(address) = address_in(&printed) {
            self.address = Some(address);
        }
    }

    /// Sends one request, and expects the right answer. An error says whether there was an answer, and what was wrong.
    fn ask(&self) -> Result<(), (bool, String)> {
        if self.entry.measure.is_some() {
            return Ok(());
        }
        let mut session = self.session_within(1, ASK_MAX).map_err(|why| (false, why))?;
        let once = Load {
            connections: 1,
            pace: Pace::Closed,
        };
        let until = Until {
            requests: Some(1),
            ..Until::passed(ASK_MAX)
        };
        let stretch = session.measure(once, until, &mut |_| {});
        session.finish();
        match stretch.examples.first() {
            Some((Class::Status | Class::Mismatch, why)) => Err((true, why.clone())),
            Some((_, why)) => Err((false, why.clone())),
            None if stretch.total.answers == 0 => Err((false, "it does not answer".to_owned())),
            None => Ok(()),
        }
    }

    /// A session that loads it.
    pub(super) fn session(&self, connections: usize) -> Result<Session, String> {
        let timeout = match self.entry.requests {
            Some(_) => REQUESTS_ANSWER_MAX,
            None => ANSWER_MAX,
        };
        self.session_within(connections, timeout)
    }

    /// A session in which every response must come within a time.
    fn session_within(&self, connections: usize, timeout: Duration) -> Result<Session, String> {
        let address = self.address.ok_or("it has not said where it listens")?;
        let scheme = if self.entry.tls { "https" } else { "http" };
        let text = format!("{scheme}://{address}{}", self.entry.path);
        let url = split_url(&text).map_err(|error| error.to_string())?;
        let mut parts = Parts::get(&url);
        let keep_alive = self.entry.keep_alive.unwrap_or(self.place.keep_alive);
        parts.keep_alive = keep_alive;
        if let Some(body) = &self.entry.body {
            "POST".clone_into(&mut parts.method);
            parts.body = body.clone().into_bytes();
            parts.set_field("content-type", "application/json");
        }
        for (name, value) in &self.entry.headers {
            parts.set_field(name, value);
        }
        // Placeholders draw numbers; none reads a file.
        let no_file = |_: &Path| Err(io::ErrorKind::Unsupported.into());
        let requests =
            Requests::one(&parts, &Grammar::braces(&no_file)).map_err(|error| error.to_string())?;
        let mut lane = Lane::new(address, requests);
        if self.entry.tls {
            let anyone = forebay_load::tls::Options {
                insecure: true,
                ..Default::default()
            };
            let tls = anyone.load().and_then(|config| config.for_host("localhost"));
            lane.tls = Some(tls.map_err(|error| error.to_string())?);
        }
        let mut plan = Plan::new(vec![lane]);
        plan.timeout = timeout;
        plan.keep_alive = keep_alive;
        plan.threads = (thread::available_parallelism().map_or(1, usize::from) / 2)
            .max(1)
            .min(connections);
        let exactly = self
            .entry
            .answer
            .iter()
            .map(|body| Check::Equals(body.clone().into_bytes()));
        let within = self
            .entry
            .answer_has
            .iter()
            .map(|text| Check::Contains(text.clone().into_bytes()));
        plan.expect = Expect {
            statuses: vec![self.entry.status..=self.entry.status],
            checks: exactly.chain(within).collect(),
        };
        let load = Load {
            connections,
            pace: Pace::Closed,
        };
        plan.check(connections, false)
            .map_err(|error| error.to_string())?;
        plan.settle_engine(load).map_err(|error| error.to_string())?;
        Session::start(plan).map_err(|error| error.to_string())
    }

    /// Loads a peer by its own program, and returns what that printed.
    pub(super) fn run_measure(
        &self,
        amounts: &[(&'static str, String)],
        stop: &AtomicBool,
    ) -> Result<String, String> {
        let measure = self
            .entry
            .measure
            .as_ref()
            .ok_or("it has no program that measures it")?;
        let own: Vec<_> = self.own.iter().chain(amounts).cloned().collect();
        self.place.run(&measure.command, &own, stop)
    }
}

impl Drop for Contender<'_> {
    fn drop(&mut self) {
        if !self.own.is_empty() && !self.entry.after.is_empty() {
            // An error is ignored: the report is already made.
            let _ = self
                .place
                .run(&self.entry.after, &self.own, &AtomicBool::new(false));
        }
    }
}

/// The address behind `listening on http://`, or `https://`, in what a server prints.
pub(super) fn address_in(printed: &str) -> Option<SocketAddr> {
    let (_, behind) = printed.split_once("listening on http")?;
    let behind = behind.strip_prefix('s').unwrap_or(behind).strip_prefix("://")?;
    let end = behind.find(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != ':');
    // Without a character behind it, the port might not be complete.
    behind[..end?].parse().ok()
}

/// A free port, for programs that cannot choose one themselves. Another program might take it first.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_once_it_is_complete() {
        assert_eq!(address_in("started, listening on http://127.0.0.1:80"), None);
        let found = address_in("x\nlistening on http://127.0.0.1:8080\nmore");
        assert_eq!(found, Some("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(address_in("listening on http://localhost:8080\n"), None);
    }
}
