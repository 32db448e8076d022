//! The server of this version with all rungs: its files, and its start.

use std::{
    cell::RefCell,
    fs,
    net::SocketAddr,
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
/// The configuration without the sections of rungs.
const CONFIGURATION: &str = include_str!("site/forebay.toml");
/// Texts that suites refer to by placeholders.
pub(super) const HELLO_PY: &str = include_str!("site/hello.py");
pub(super) const TECHEMPOWER: &str = example!("techempower/forebay.toml");
pub(super) const TABLE: &str = include_str!("site/table.json");

/// Starts the server of all rungs whose needs are met.
pub(super) fn start(
    suite: &Suite,
    settings: &Settings,
    place: &Place,
    stop: &AtomicBool,
) -> Result<(Rc<RefCell<Process>>, SocketAddr), LadderError> {
    let folder = place.folder().join("site");
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
        command.envs(place.postgres.iter().map(|url| ("FOREBAY_PG_URL", url)));
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
            return Ok((Rc::new(RefCell::new(server)), address));
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
