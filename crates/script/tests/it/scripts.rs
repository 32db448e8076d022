//! Fixtures: scripts in folders of their own, and requests to them.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use forebay_script::{
    Allow, Answer, Body, Failure, IoScript, Limits, Options, Program, Script, ScriptEnvironment, Shape,
    StoreOptions, Tried,
};
use forebay_store::{Key, Read as _, Store};
use forebay_wire::RequestParts;
use tempfile::TempDir;

/// A script in a temporary folder.
pub(crate) struct Fixture {
    pub(crate) script: Script,
    /// Kept open while the script may use it.
    store: Option<Store>,
    _folder: TempDir,
}

/// Generous limits, of which most tests use little.
pub(crate) const LIMITS: Limits = Limits {
    io_cpu_max: Duration::from_secs(2),
    cpu_max: Duration::from_secs(20),
    time_max: Duration::from_secs(20),
    memory_max: 64 << 20,
    output_max: 8 << 20,
    in_flight_max: 16,
    queue_bytes_max: 64 << 20,
    executors: 2,
    engines_max: 16,
    isolated: false,
    fetch_time_max: Duration::from_secs(10),
    fetch_bytes_max: 1 << 20,
    fetches_max: 8,
};

impl Fixture {
    pub(crate) fn new(handler: &str) -> Self {
        Self::with(handler, LIMITS, Allow::default())
    }

    pub(crate) fn with(handler: &str, limits: Limits, allow: Allow) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(folder.path(), handler, limits, allow);
        let store = (!options.allow.store.is_empty()).then(|| {
            let store = StoreOptions {
                folder: folder.path().join("data"),
                options: forebay_store::Options::default(),
                records: forebay_records::Settings::default().to_text(),
            };
            options.store = Some(store.clone());
            Store::open(&store.folder, &store.options).unwrap()
        });
        let script = Script::start(options).unwrap_or_else(|failure| panic!("{failure}"));
        Self {
            script,
            store,
            _folder: folder,
        }
    }

    /// The store of a script that has one.
    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// The stored value of a node below a global.
    pub(crate) fn stored(&self, global: &str, name: &str) -> Option<String> {
        let key = Key::global(global).unwrap().child(name).unwrap();
        let snapshot = self.store().snapshot().unwrap();
        let found = snapshot.get(&key).unwrap();
        found.map(|text| String::from_utf8_lossy(text).into_owned())
    }

    /// Answers a request on an executor.
    pub(crate) fn executor(&self, request: &Request<'_>) -> Result<Answer, Failure> {
        block_on(self.script.call(request.payload(), None)?)
    }

    /// Creates an instance of the script for this thread.
    pub(crate) fn io(&self) -> Io {
        Io(self.script.on_io_thread())
    }
}

/// A script on the thread of the test.
pub(crate) struct Io(IoScript);

impl Io {
    /// The answer to a GET request that the script has declared, so that it is not called.
    pub(crate) fn read_declared(&self, path: &str) -> Option<String> {
        let read = self.0.read_declared(path.as_bytes())?;
        let record = String::from_utf8_lossy(&read.body[read.record]);
        let tagged = if read.is_tagged { "tagged" } else { "plain" };
        Some(format!(
            "{tagged} {record} in {}",
            String::from_utf8_lossy(&read.body)
        ))
    }

    /// The answer, or `None` if an executor has to run the call.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Option<Answer> {
        let shape = Shape::of(request.method.as_bytes(), request.path.as_bytes());
        self.0.trust(shape);
        if !self.0.is_fit(shape) {
            return None;
        }
        match self.0.call(shape, request.payload(), None) {
            Tried::Answered(answer) => Some(answer),
            Tried::Waits(waiting) => panic!("{waiting:?} without a database"),
            Tried::Elsewhere(payload) => {
                assert_eq!(payload, request.payload(), "the request can be done again");
                None
            }
        }
    }
}

pub(crate) fn options(folder: &Path, handler: &str, limits: Limits, allow: Allow) -> Options {
    let file = folder.join("handler.mjs");
    std::fs::write(&file, handler).unwrap();
    let program = Program::Handler {
        file,
        modules: folder.to_owned(),
    };
    options_of(program, limits, allow)
}

pub(crate) fn options_of(program: Program, limits: Limits, allow: Allow) -> Options {
    Options {
        name: "test".into(),
        program,
        limits,
        allow,
        blocks_rules: false,
        rules_now_ms: None,
        store: None,
        environment: ScriptEnvironment {
            sdk,
            erase_types: |_, path| Err(format!("{} has types", path.display())),
        },
        counts: Arc::default(),
    }
}

/// A file of the built SDK.
fn sdk(path: &str) -> Option<&'static [u8]> {
    static FILES: LazyLock<Mutex<HashMap<String, &'static [u8]>>> = LazyLock::new(Mutex::default);
    let mut files = FILES.lock().unwrap();
    if let Some(found) = files.get(path) {
        return Some(found);
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/node");
    assert!(
        package.join("dist/index.js").exists(),
        "sdk/node/dist is not built: run `make sdk` first"
    );
    let bytes = std::fs::read(package.join(path)).ok()?.leak();
    files.insert(path.into(), bytes);
    Some(bytes)
}

/// The parts of a test request.
#[derive(Clone, Default)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a str)>,
    /// Empty: the client has not been asked who it is.
    pub(crate) identity: &'a str,
    pub(crate) body: &'a [u8],
}

pub(crate) fn get(path: &str) -> Request<'_> {
    Request {
        method: "GET",
        path,
        ..Request::default()
    }
}

impl Request<'_> {
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        RequestParts {
            remaining_ms: 0,
            method: self.method.as_bytes(),
            path: self.path.as_bytes(),
            query: self.query.as_bytes(),
            route: b"/*",
            params: [].into_iter(),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
            peer: b"127.0.0.1",
            id: b"id-1",
            identity: self.identity.as_bytes(),
            body: self.body,
        }
        .put(&mut payload);
        payload
    }
}

/// The complete body of an answer.
pub(crate) fn text(answer: &Answer) -> &str {
    let Body::Whole(bytes) = &answer.body else {
        panic!("the answer comes in pieces")
    };
    std::str::from_utf8(bytes).unwrap()
}

/// The status and body of an answer.
pub(crate) fn outcome(answer: &Answer) -> (u16, &str) {
    (answer.status, text(answer))
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// Waits until a condition holds.
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "it does not come about"
        );
        std::thread::yield_now();
    }
}
