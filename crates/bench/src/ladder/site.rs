//! The server of this version with all rungs of a suite: its files, and its start.

use std::{
    cell::RefCell,
    fs, io,
    net::SocketAddr,
    path::Path,
    process::Command,
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use super::{
    LadderError,
    contender::{ASK_EVERY, READY_MAX, address_in},
    place::Place,
    run::Settings,
    suite::Suite,
};
use crate::process::Process;

/// Files of `examples/`, by their paths in it.
macro_rules! examples {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../examples/", $path)))),*]
    };
}

/// Everything that configurations of suites refer to, at the place where the repository has it.
const EXAMPLES: &[(&str, &str)] = examples![
    "showcase/handlers/articles.mjs",
    "showcase/handlers/mgweb.mjs",
    "techempower/forebay.toml",
    "techempower/handlers/cache.mjs",
    "techempower/handlers/fortunes.mjs",
    "techempower/handlers/hello.mjs",
    "techempower/handlers/worlds.mjs",
    "workflows/workflows/promotion.json",
    "workflows/workflows/test_script_sdk_example.json",
    "workflows/workflows/rules/gifts-left.js",
    "workflows/workflows/rules/grant-balance.js",
    "workflows/workflows/rules/grant-points.js",
    "workflows/workflows/rules/note-failure.js",
    "workflows/workflows/rules/prepare.js",
    "workflows/workflows/rules/recharged-120.js",
    "workflows/workflows/rules/recharged-50.js",
    "workflows/workflows/rules/sdk-example.js",
    "workflows/workflows/rules/within-promotion.js",
    "workflows/workflows/rules/within-second-period.js",
    "seeds/qoper8/forebay.toml",
    "seeds/qoper8/hello.mjs",
    "seeds/mgweb/forebay.toml",
    "seeds/mgweb/seed.ndjson",
    "seeds/wabur/forebay.toml",
    "seeds/wabur/seed.ndjson",
    "seeds/rengine/forebay.toml",
    "seeds/pgasync/forebay.toml",
];
/// The ladder's own files.
const LADDER: &[(&str, &str)] = &[
    ("ladder/forebay.toml", include_str!("site/forebay.toml")),
    ("ladder/seed.ndjson", include_str!("site/seed.ndjson")),
    ("ladder/hello.mjs", HELLO_MJS),
    ("ladder/hello.py", HELLO_PY),
    ("ladder/fastapi_hello.py", FASTAPI_HELLO_PY),
    ("ladder/own-read.mjs", include_str!("site/own-read.mjs")),
    ("ladder/public/record.json", include_str!("site/record.json")),
    ("workflows/workflows/table.json", TABLE),
];
/// Texts that suites refer to by placeholders.
pub(super) const HELLO_MJS: &str = include_str!("site/hello.mjs");
pub(super) const HELLO_PY: &str = include_str!("site/hello.py");
pub(super) const FASTAPI_HELLO_PY: &str = include_str!("site/fastapi_hello.py");
pub(super) const TABLE: &str = include_str!("site/table.json");

/// Serves a configuration, wherever that would listen, on a free port.
const SERVE: &[&str] = &[
    "serve",
    "-c",
    "forebay.toml",
    "--listen",
    "127.0.0.1:0",
    "--admin",
    "off",
];

/// Starts the server of all rungs whose needs are met.
pub(super) fn start(
    suite: &Suite,
    settings: &Settings,
    place: &Place,
    stop: &AtomicBool,
) -> Result<(Rc<RefCell<Process>>, SocketAddr), LadderError> {
    let site = place.folder().join("site");
    for (path, text) in EXAMPLES.iter().chain(LADDER) {
        write(&site.join(path), text)?;
    }
    let folder = site.join(&suite.site);
    let file = folder.join("forebay.toml");
    let mut configuration = fs::read_to_string(&file).map_err(|source| failed(&file, source))?;
    for rung in &suite.rungs {
        if rung.needs.iter().all(|need| place.lacks(need).is_none()) {
            configuration += &place.fill(&rung.config, &[]).map_err(LadderError::Server)?;
        }
    }
    write(&file, &configuration)?;
    let command = |words: &[&str]| {
        let mut command = Command::new(&settings.server);
        command.args(words).current_dir(&folder).env("PATH", &place.path);
        command.envs(&suite.env);
        command.envs(place.postgres.iter().map(|url| ("FOREBAY_PG_URL", url)));
        command
    };
    if folder.join("seed.ndjson").exists() {
        let output = command(&["store", "import", "seed.ndjson", "--data", "data"]).output();
        let output = output.map_err(|source| failed(&settings.server, source))?;
        if !output.status.success() {
            return Err(LadderError::Server(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
    }
    let started = Process::start(&mut command(SERVE));
    let mut server = started.map_err(|source| failed(&settings.server, source))?;
    let begun = Instant::now();
    loop {
        if let Some(address) = address_in(&server.output()) {
            return Ok((Rc::new(RefCell::new(server)), address));
        }
        if let Some(how) = server.ended() {
            return Err(LadderError::Server(format!(
                "it has ended: {how}; it printed: {}",
                server.output().trim()
            )));
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

fn write(file: &Path, text: &str) -> Result<(), LadderError> {
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(file, text))
        .map_err(|source| failed(file, source))
}

fn failed(path: &Path, source: io::Error) -> LadderError {
    LadderError::Files {
        path: path.to_owned(),
        source,
    }
}
