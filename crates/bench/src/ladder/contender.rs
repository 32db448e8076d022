//! What is measured, started: the server of this version with all rungs, and the peers.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_load::{
    Plan, Session, Url,
    engine::Until,
    expect::{Check, Expect},
    failure::Class,
    plan::{Lane, Load, Pace},
    report::format::plain,
    request::{Grammar, Parts, Requests},
};
use forebay_runtimes::{Environment, Runtime, find_python, find_runtime, is_executable};
use tempfile::TempDir;

use super::{
    LadderError,
    run::{Event, Settings, Tell},
    suite::{Entry, Suite},
};
use crate::process::Process;

/// Longest time until a server must give the right answer.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long a server that has begun to answer may answer wrongly.
const WRONG_MAX: Duration = Duration::from_secs(2);
/// Longest wait for the answer of a starting server, before the others are asked.
const ASK_MAX: Duration = Duration::from_secs(1);
/// Characters of a line of output in an error.
const LINE_MAX: usize = 300;
/// Longest wait for a response under load.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often a starting server is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Folders of programs beside those of `PATH`: where Debian installs nginx.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";

/// A file of `examples/`.
macro_rules! example {
    ($path:literal) => {
        include_str!(concat!("../../../../examples/", $path))
    };
}
/// A rule of `examples/workflows`.
macro_rules! rule {
    ($name:literal) => {
        (
            concat!("workflows/rules/", $name, ".js"),
            include_str!(concat!(
                "../../../../examples/workflows/workflows/rules/",
                $name,
                ".js"
            )),
        )
    };
}

/// The files of the server, by path in its folder: handlers of the examples, and a few of the ladder's own.
const SITE: &[(&str, &str)] = &[
    ("seed.ndjson", include_str!("site/seed.ndjson")),
    ("handlers/hello.mjs", include_str!("site/hello.mjs")),
    ("handlers/hello.py", HELLO_PY),
    ("handlers/own-read.mjs", include_str!("site/own-read.mjs")),
    (
        "handlers/articles.mjs",
        example!("showcase/handlers/articles.mjs"),
    ),
    ("handlers/mgweb.mjs", example!("showcase/handlers/mgweb.mjs")),
    ("handlers/worlds.mjs", example!("techempower/handlers/worlds.mjs")),
    ("handlers/cache.mjs", example!("techempower/handlers/cache.mjs")),
    (
        "handlers/fortunes.mjs",
        example!("techempower/handlers/fortunes.mjs"),
    ),
    ("workflows/table.json", TABLE),
    (
        "workflows/promotion.json",
        example!("workflows/workflows/promotion.json"),
    ),
    (
        "workflows/test_script_sdk_example.json",
        example!("workflows/workflows/test_script_sdk_example.json"),
    ),
    rule!("gifts-left"),
    rule!("grant-balance"),
    rule!("grant-points"),
    rule!("note-failure"),
    rule!("prepare"),
    rule!("recharged-120"),
    rule!("recharged-50"),
    rule!("sdk-example"),
    rule!("within-promotion"),
    rule!("within-second-period"),
];
const CONFIGURATION: &str = include_str!("site/forebay.toml");
const HELLO_PY: &str = include_str!("site/hello.py");
const TECHEMPOWER: &str = example!("techempower/forebay.toml");
const TABLE: &str = include_str!("site/table.json");

/// Where everything is: a folder for temporary files, and the programs of this machine.
#[derive(Debug)]
pub(super) struct Place {
    folder: TempDir,
    peers: PathBuf,
    path: OsString,
    postgres: Option<String>,
    keep_alive: bool,
}

impl Place {
    pub(super) fn prepare(settings: &Settings) -> Result<Self, LadderError> {
        let failed = |source| LadderError::Files {
            path: std::env::temp_dir(),
            source,
        };
        let folder = tempfile::Builder::new()
            .prefix("forebay-ladder-")
            .tempdir()
            .map_err(failed)?;
        let peers = std::path::absolute(&settings.peers_folder).map_err(failed)?;
        // The pinned Bun comes first.
        let mut folders = vec![peers.join("node_modules/.bin")];
        folders.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
        folders.push(SYSTEM_PROGRAMS.into());
        let path = std::env::join_paths(folders).unwrap_or_default();
        Ok(Self {
            folder,
            peers,
            path,
            postgres: settings.postgres.clone(),
            keep_alive: settings.keep_alive,
        })
    }

    /// A program by its name or path.
    fn program(&self, name: &str) -> Option<PathBuf> {
        let mut folders = std::env::split_paths(&self.path);
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|file| is_executable(file));
        }
        folders.find_map(|folder| Some(folder.join(name)).filter(|file| is_executable(file)))
    }

    /// What a need or a placeholder stands for; an error says how to get it.
    fn value(&self, name: &str) -> Result<String, String> {
        let environment = Environment::current();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        match name {
            "node" => find_runtime(Runtime::Node, &self.peers, &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "bun" => find_runtime(Runtime::Bun, &self.peers, &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "python" => find_python(None, self.folder.path(), &environment)
                .map(text)
                .map_err(|error| error.to_string()),
            "peers" => Ok(text(self.peers.clone())),
            "pg" => self.postgres.clone().ok_or_else(|| {
                "no PostgreSQL: `make postgres` starts one, or say in FOREBAY_PG_URL where one is".to_owned()
            }),
            // A user without a password, for drivers that do not know SCRAM: `make postgres` creates it.
            "trusting_pg" => {
                let url = self.value("pg")?;
                let (_, place) = url
                    .split_once('@')
                    .unwrap_or(("", url.trim_start_matches("postgres://")));
                Ok(format!("postgres://trustuser:none@{place}"))
            }
            "techempower" => Ok(TECHEMPOWER.to_owned()),
            "hello.py" => Ok(HELLO_PY.to_owned()),
            "table.json" => Ok(TABLE.to_owned()),
            other => Err(format!("there is no placeholder {{{other}}}")),
        }
    }

    /// Replaces the placeholders of a text; `own` has those of one peer.
    fn fill(&self, text: &str, own: &[(&str, String)]) -> Result<String, String> {
        let mut filled = text.to_owned();
        for (name, value) in own {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
        for name in [
            "node",
            "bun",
            "python",
            "peers",
            "pg",
            "trusting_pg",
            "techempower",
            "hello.py",
            "table.json",
        ] {
            let placeholder = format!("{{{name}}}");
            if filled.contains(&placeholder) {
                filled = filled.replace(&placeholder, &self.value(name)?);
            }
        }
        Ok(filled)
    }

    /// Why a need is not met.
    fn lacks(&self, need: &str) -> Option<String> {
        match need {
            "node" | "bun" | "python" | "pg" => self.value(need).err(),
            path if path.contains('/') => {
                let path = self.fill(path, &[]).unwrap_or_default();
                (!Path::new(&path).exists()).then(|| format!("{path} is not there"))
            }
            program => self
                .program(program)
                .is_none()
                .then(|| format!("{program} is not installed")),
        }
    }

    /// Runs a command of a peer's to its end, and returns what it printed.
    fn run(&self, words: &[String], own: &[(&str, String)]) -> Result<String, String> {
        let mut command = self.command(words, own)?;
        let output = command
            .output()
            .map_err(|error| format!("{}: {error}", words[0]))?;
        let printed = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        if output.status.success() {
            return Ok(printed);
        }
        Err(format!("{}: {}: {}", words[0], output.status, printed.trim()))
    }

    fn command(&self, words: &[String], own: &[(&str, String)]) -> Result<Command, String> {
        let filled: Result<Vec<String>, String> = words.iter().map(|word| self.fill(word, own)).collect();
        let filled = filled?;
        let program = self
            .program(&filled[0])
            .ok_or_else(|| format!("{} is not installed", filled[0]))?;
        let mut command = Command::new(program);
        command
            .args(&filled[1..])
            .env("PATH", &self.path)
            .env("NODE_ENV", "production");
        Ok(command)
    }
}

/// An entry of the ladder, and where it is served.
#[derive(Debug)]
pub(super) struct Contender<'a> {
    pub(super) entry: &'a Entry,
    pub(super) is_peer: bool,
    place: &'a Place,
    /// The process that serves it; rungs share one.
    process: Option<Rc<std::cell::RefCell<Process>>>,
    address: Option<SocketAddr>,
    /// Placeholders of a peer.
    own: Vec<(&'static str, String)>,
    skipped: Option<String>,
    failure: Option<String>,
    /// The last rate, from which a program that wants a number of requests is told one.
    pub(super) rate: f64,
}

/// Waits until each contender has given the right answer, or is given up.
fn wait_until_ready(contenders: &mut [Contender<'_>], stop: &AtomicBool, tell: &mut Tell<'_>) {
    let begun = Instant::now();
    let mut waiting: Vec<usize> = (0..contenders.len()).collect();
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
            tell(Event::Starting(&contender.entry.name));
            match contender.is_ready(begun.elapsed()) {
                Some(Ok(())) => false,
                Some(Err(why)) => {
                    contender.fail(why);
                    false
                }
                None => true,
            }
        });
        thread::sleep(ASK_EVERY);
    }
}

impl<'a> Contender<'a> {
    /// Starts the server, and the peers if they are wanted. An entry that cannot be served says why, and keeps nobody else from it.
    pub(super) fn start(
        suite: &'a Suite,
        chosen: &BTreeSet<&str>,
        settings: &Settings,
        place: &'a Place,
        stop: &Arc<AtomicBool>,
        tell: &mut Tell<'_>,
    ) -> Result<Vec<Self>, LadderError> {
        tell(Event::Starting("the server"));
        let (server, address) = start_server(suite, settings, place, stop)?;
        let mut contenders: Vec<Self> = suite
            .rungs
            .iter()
            .filter(|rung| chosen.contains(rung.name.as_str()))
            .map(|rung| {
                let mut contender = Self::new(rung, false, place);
                contender.process = Some(Rc::clone(&server));
                contender.address = Some(address);
                contender
            })
            .collect();
        let peers = suite
            .peers
            .iter()
            .filter(|peer| settings.peers && chosen.contains(peer.name.as_str()));
        for peer in peers {
            let mut contender = Self::new(peer, true, place);
            if contender.skipped.is_none() && peer.served_by.is_none() && !stop.load(Ordering::Relaxed) {
                tell(Event::Starting(&peer.name));
                contender.start_peer();
            }
            if let Some(why) = &mut contender.skipped {
                // What is installed once is found the next time.
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
        self.failure.clone_from(&server.failure);
    }

    fn new(entry: &'a Entry, is_peer: bool, place: &'a Place) -> Self {
        Self {
            entry,
            is_peer,
            place,
            process: None,
            address: None,
            own: Vec::new(),
            skipped: entry.needs.iter().find_map(|need| place.lacks(need)),
            failure: None,
            rate: 0.0,
        }
    }

    /// Why it was not started.
    pub(super) fn skipped(&self) -> Option<&str> {
        self.skipped.as_deref()
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

    fn start_peer(&mut self) {
        let started = || -> Result<(), String> {
            let folder = self.place.folder.path().join(
                self.entry
                    .name
                    .replace(|letter: char| !letter.is_alphanumeric(), "-"),
            );
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            let port = free_port().map_err(|error| error.to_string())?;
            self.own = vec![
                ("folder", folder.to_string_lossy().into_owned()),
                ("port", port.to_string()),
            ];
            for (name, text) in &self.entry.files {
                let file = folder.join(name);
                let text = self.place.fill(text, &self.own)?;
                fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            if !self.entry.command.is_empty() {
                let mut command = self.place.command(&self.entry.command, &self.own)?;
                for (name, value) in &self.entry.env {
                    command.env(name, self.place.fill(value, &self.own)?);
                }
                let process = Process::start(&mut command)
                    .map_err(|error| format!("{}: {error}", self.entry.command[0]))?;
                self.process = Some(Rc::new(std::cell::RefCell::new(process)));
                self.address = Some((Ipv4Addr::LOCALHOST, port).into());
            }
            let before = self
                .entry
                .measure
                .iter()
                .map(|measure| &measure.before)
                .find(|words| !words.is_empty());
            before.map_or(Ok(()), |words| self.place.run(words, &self.own).map(drop))
        };
        let mut started = started;
        match started() {
            Ok(()) => {}
            Err(why) if why.ends_with("is not installed") => self.skipped = Some(why),
            Err(why) => self.fail(why),
        }
    }

    /// Asks for the right answer, which has been waited for so long. `None`: not yet.
    fn is_ready(&mut self, waited: Duration) -> Option<Result<(), String>> {
        if self.is_peer {
            self.find_address();
        }
        let answered = self.ask();
        let ended = self
            .process
            .as_ref()
            .and_then(|process| process.borrow_mut().ended());
        match (answered, ended) {
            (Ok(()), _) => Some(Ok(())),
            (Err(_), Some(how)) => Some(Err(format!("it ended before it answered: {how}"))),
            (Err((max, why)), None) if waited > max => Some(Err(match self.last_line() {
                Some(line) => format!("{why}; it printed: {line}"),
                None => why,
            })),
            (Err(_), None) => None,
        }
    }

    /// The last line that its process has printed.
    fn last_line(&self) -> Option<String> {
        let printed = self.process.as_ref()?.borrow().output();
        let line = printed.lines().rfind(|line| !line.is_empty())?;
        Some(plain(line, LINE_MAX))
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

    /// Sends one request, and expects the right answer. An error says how long the right one may still be waited for.
    fn ask(&self) -> Result<(), (Duration, String)> {
        if self.entry.measure.is_some() {
            return Ok(());
        }
        let mut session = self.session_within(1, ASK_MAX).map_err(|why| (READY_MAX, why))?;
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
            Some((Class::Status | Class::Mismatch, why)) => Err((WRONG_MAX, why.clone())),
            Some((_, why)) => Err((READY_MAX, why.clone())),
            None if stretch.total.answers == 0 => Err((READY_MAX, "it does not answer".to_owned())),
            None => Ok(()),
        }
    }

    /// A session that loads it.
    pub(super) fn session(&self, connections: usize) -> Result<Session, String> {
        self.session_within(connections, ANSWER_MAX)
    }

    /// A session in which every response must come within a time.
    fn session_within(&self, connections: usize, timeout: Duration) -> Result<Session, String> {
        let address = self.address.ok_or("it has not said where it listens")?;
        let text = format!("http://{address}{}", self.entry.path);
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        let mut parts = Parts::get(&url);
        parts.keep_alive = self.place.keep_alive;
        if let Some(body) = &self.entry.body {
            "POST".clone_into(&mut parts.method);
            parts.body = body.clone().into_bytes();
            parts.set_field("content-type", "application/json");
        }
        let requests = Requests::one(&parts, &Grammar::none()).map_err(|error| error.to_string())?;
        let mut plan = Plan::new(vec![Lane::new(address, requests)]);
        plan.timeout = timeout;
        plan.keep_alive = self.place.keep_alive;
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
    pub(super) fn run_measure(&self, amounts: &[(&'static str, String)]) -> Result<String, String> {
        let measure = self
            .entry
            .measure
            .as_ref()
            .ok_or("it has no program that measures it")?;
        let own: Vec<_> = self.own.iter().chain(amounts).cloned().collect();
        self.place.run(&measure.command, &own)
    }
}

impl Drop for Contender<'_> {
    fn drop(&mut self) {
        let after = self
            .entry
            .measure
            .iter()
            .map(|measure| &measure.after)
            .find(|words| !words.is_empty());
        if let Some(words) = after.filter(|_| !self.own.is_empty()) {
            // Whatever it says, there is nobody to be told.
            let _ = self.place.run(words, &self.own);
        }
    }
}

/// Starts the server of all rungs whose needs are met.
fn start_server(
    suite: &Suite,
    settings: &Settings,
    place: &Place,
    stop: &AtomicBool,
) -> Result<(Rc<std::cell::RefCell<Process>>, SocketAddr), LadderError> {
    let folder = place.folder.path().join("site");
    let mut configuration = CONFIGURATION.to_owned();
    for rung in &suite.rungs {
        if rung.needs.iter().all(|need| place.lacks(need).is_none()) {
            configuration += &place.fill(&rung.config, &[]).map_err(LadderError::Server)?;
        }
    }
    let record = suite
        .rungs
        .iter()
        .find(|rung| rung.name == "file")
        .and_then(|rung| rung.answer.as_deref());
    let more = [
        ("forebay.toml", configuration.as_str()),
        ("public/record.json", record.unwrap_or_default()),
    ];
    for (path, text) in SITE.iter().copied().chain(more) {
        let file = folder.join(path);
        let written = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&file, text));
        written.map_err(|source| LadderError::Files { path: file, source })?;
    }
    let command = |words: &[&str]| {
        let mut command = Command::new(&settings.server);
        command.args(words).current_dir(&folder).env("PATH", &place.path);
        command
    };
    let output = command(&["store", "import", "seed.ndjson", "--data", "data"]).output();
    let output = output.map_err(|source| LadderError::Files {
        path: settings.server.clone(),
        source,
    })?;
    if !output.status.success() {
        return Err(LadderError::Server(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    let started = Process::start(&mut command(&["serve", "-c", "forebay.toml"]));
    let mut server = started.map_err(|source| LadderError::Files {
        path: settings.server.clone(),
        source,
    })?;
    let begun = Instant::now();
    loop {
        if let Some(address) = address_in(&server.output()) {
            return Ok((Rc::new(std::cell::RefCell::new(server)), address));
        }
        if let Some(how) = server.ended() {
            return Err(LadderError::Server(format!("it has ended: {how}")));
        }
        if begun.elapsed() > READY_MAX || stop.load(Ordering::Relaxed) {
            return Err(LadderError::Server(format!(
                "it does not listen; it printed: {}",
                server.output().trim()
            )));
        }
        thread::sleep(ASK_EVERY);
    }
}

/// The address behind `listening on http://` in what a server prints.
fn address_in(printed: &str) -> Option<SocketAddr> {
    let (_, behind) = printed.split_once("listening on http://")?;
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
