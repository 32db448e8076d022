//! `--watch`: puts changes of the configuration, of handlers, and of code next to them into effect as they are saved.
//!
//! The kernel tells of changes in the folders. Then, and once a second for file systems that tell of none, all files are looked at; whether
//! one has changed is decided by that alone. A reload starts only the pools again whose code has changed.

mod notifier;
mod problem;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use forebay_workflow::FileStamps;
use tokio::time::{Instant, sleep};

pub(crate) use self::problem::{Problem, Problems};
use self::{notifier::Notifier, problem::shortened};
use crate::{
    config::{Config, PythonModule, Target, Worker},
    reload::{ReloadError, Reloaded},
    server::Shared,
};

/// How often files are looked at without being told of a change.
const INTERVAL: Duration = Duration::from_secs(1);
/// A reload waits until nothing has changed for this long, so that one save or checkout causes one reload.
const QUIET: Duration = Duration::from_millis(15);
/// A reload waits no longer than this for changes to end.
const QUIET_MAX: Duration = Duration::from_secs(2);
/// Most folder entries that are watched.
const ENTRIES_MAX: usize = 20_000;
/// Files named in a line of the log.
const NAMED_MAX: usize = 3;
/// Extensions of code. Data that a handler writes next to itself must not cause a reload.
const CODE: [&str; 10] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "wasm", "py"];
/// The file that marks a Python virtual environment.
const ENVIRONMENT_MARK: &str = "pyvenv.cfg";

/// Identifies a state of a file: modification time, length and inode.
type Stamp = (i64, i64, u64, u64);
pub(crate) type Stamps = BTreeMap<PathBuf, Stamp>;

/// The files found at some places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    stamps: Stamps,
    /// False if there were more than [`ENTRIES_MAX`].
    whole: bool,
}

/// The files and folders to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Places {
    files: Vec<PathBuf>,
    /// Folders watched for code, including their subfolders.
    folders: Vec<PathBuf>,
    /// Those of each pool among these files and folders.
    pools: BTreeMap<String, Vec<PathBuf>>,
    /// Workflow folders among these, in which every workflow file is watched as well.
    graphs: Vec<PathBuf>,
    /// Folders of static files, which are not watched.
    left_out: Vec<PathBuf>,
}

/// The files of a configuration as they are now.
pub(crate) fn stamps(config: &Config) -> Stamps {
    Places::of(config).look(|_| ()).stamps
}

/// Watches and reloads until cancelled. `loaded` are the files as they were when the code was loaded.
pub(crate) async fn watch(shared: Arc<Shared>, problems: Arc<Problems>, loaded: Stamps) {
    let notifier = Arc::new(Notifier::start());
    let mut read = shared.reloading.read.subscribe();
    let mut places = Arc::new(Places::of(&shared.front.app().config));
    let mut seen = carried_over(&loaded, look_first(&places, &notifier).await);
    tokio::spawn(log_failing_starts(shared.clone()));
    loop {
        tokio::select! {
            () = notifier.changed(|name| places.may_watch(name)) => {}
            () = sleep(INTERVAL) => {}
        }
        let began = Instant::now();
        let now = look(&places, &notifier).await.stamps;
        if now != seen {
            let now = quiet(&places, &notifier, now).await;
            let files = differences(&seen, &now);
            seen = now;
            reload(&shared, &problems, &places, &files, began).await;
        }
        if read.has_changed().unwrap_or(false) {
            let config = read.borrow_and_update().clone();
            if let Some(config) = config {
                places = Arc::new(Places::of(&config));
                seen = carried_over(&seen, look_first(&places, &notifier).await);
            }
        }
    }
}

/// Logs pools that do not start with the server.
async fn log_failing_starts(shared: Arc<Shared>) {
    let app = shared.front.app();
    let (pools, config) = (app.pools.clone(), app.config.clone());
    // A reload waits until the app is released.
    drop(app);
    for (name, pool) in pools {
        if let Err(reason) = pool.settled().await {
            tracing::error!(target: "forebay::server", "{}", Problem::of_start(&name, &reason, &config));
        }
    }
}

/// Puts changed files into effect, and logs what has come of it. What fails is tried again with the next change.
async fn reload(
    shared: &Arc<Shared>,
    problems: &Problems,
    places: &Places,
    files: &[PathBuf],
    began: Instant,
) {
    for file in files {
        remove_bytecode(file);
    }
    let stale = problems.add_stale(places.pools_of(files));
    let result = shared.renew(Some(stale)).await;
    let config = shared.front.app().config.clone();
    let Reloaded { pools, failing, .. } = match result {
        Ok(reloaded) => reloaded,
        Err(ReloadError::Stopping) => return,
        Err(error) => {
            let problem = Problem::of_all(&error.with_causes(), &config);
            tracing::error!(target: "forebay::server", "{problem}");
            problems.set_all(problem);
            return;
        }
    };
    let of_pool = |(name, text): (&String, &String)| (name.clone(), Problem::of_pool(name, text, &config));
    let failing: BTreeMap<_, _> = failing.iter().map(of_pool).collect();
    for problem in failing.values() {
        tracing::error!(target: "forebay::server", "{problem}");
    }
    let what = match &pools {
        None => Some("reloaded the configuration and all pools".to_owned()),
        Some(pools) if !pools.is_empty() => {
            let names: Vec<_> = pools.iter().map(|name| format!("`{name}`")).collect();
            Some(format!(
                "restarted pool{} {}",
                if names.len() == 1 { "" } else { "s" },
                names.join(", ")
            ))
        }
        Some(_) => failing.is_empty().then(|| "reloaded".to_owned()),
    };
    if let Some(what) = what {
        let took_ms = began.elapsed().as_millis();
        tracing::info!(target: "forebay::server", "{what} in {took_ms} ms ({})", names(files));
    }
    problems.set_pools(failing);
}

/// Python tells whether its bytecode of a module is up to date by a time in seconds and the length, which two saves can share.
fn remove_bytecode(file: &Path) {
    let (Some(folder), Some(name)) = (file.parent(), file.file_stem().and_then(OsStr::to_str)) else {
        return;
    };
    if file.extension().is_none_or(|extension| extension != "py") {
        return;
    }
    for entry in fs::read_dir(folder.join("__pycache__"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let is_of_it = |cached: &str| {
            cached
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('.'))
        };
        if entry.file_name().to_str().is_some_and(is_of_it) {
            // If it cannot be removed, Python still notices all but the quickest changes.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The first few files, as a list.
fn names(files: &[PathBuf]) -> String {
    let mut names: Vec<_> = (files.iter().take(NAMED_MAX))
        .map(|file| shortened(file).display().to_string())
        .collect();
    if files.len() > NAMED_MAX {
        names.push(format!("{} more", files.len() - NAMED_MAX));
    }
    names.join(", ")
}

/// Looks at the places for the first time and logs a warning if they contain too many entries.
async fn look_first(places: &Arc<Places>, notifier: &Arc<Notifier>) -> Stamps {
    let found = look(places, notifier).await;
    if !found.whole {
        tracing::warn!(
            target: "forebay::server",
            "--watch: the folders of the handlers have more than {ENTRIES_MAX} entries, changes to the rest are not noticed"
        );
    }
    found.stamps
}

/// The stamps of new places, with already known files as they were, so that changes since then are still noticed.
fn carried_over(seen: &Stamps, mut found: Stamps) -> Stamps {
    for (path, stamp) in &mut found {
        if let Some(before) = seen.get(path) {
            *stamp = *before;
        }
    }
    found
}

/// The files that are in only one of them, or have changed.
fn differences(before: &Stamps, after: &Stamps) -> Vec<PathBuf> {
    let changed = after
        .iter()
        .filter(|(path, stamp)| before.get(*path) != Some(stamp));
    let removed = before.iter().filter(|(path, _)| !after.contains_key(*path));
    changed.chain(removed).map(|(path, _)| path.clone()).collect()
}

/// Waits until nothing changes any more, and returns the stamps.
async fn quiet(places: &Arc<Places>, notifier: &Arc<Notifier>, mut before: Stamps) -> Stamps {
    let until = Instant::now() + QUIET_MAX;
    loop {
        sleep(QUIET).await;
        let now = look(places, notifier).await.stamps;
        if now == before || Instant::now() > until {
            return now;
        }
        before = now;
    }
}

/// Looks at the places, all of whose folders are watched from before they are looked at.
async fn look(places: &Arc<Places>, notifier: &Arc<Notifier>) -> Found {
    let (places, notifier) = (places.clone(), notifier.clone());
    let looked = tokio::task::spawn_blocking(move || places.look(|folder| notifier.add(folder)));
    looked.await.expect("nothing cancels this, and a panic goes on")
}

impl Places {
    fn of(config: &Config) -> Self {
        let mut places = Self {
            files: std::iter::once(&config.file)
                .chain(&config.included)
                .cloned()
                .collect(),
            ..Self::default()
        };
        for (name, pool) in &config.pools {
            let (files, folders) = (places.files.len(), places.folders.len());
            match &pool.worker {
                Worker::Script { handler, start, .. } => {
                    for module in std::iter::once(handler).chain(start) {
                        places.files.push(module.clone());
                        places.folders.extend(module.parent().map(Path::to_owned));
                    }
                }
                Worker::Python {
                    application, start, ..
                } => {
                    let module = match &application.module {
                        PythonModule::File(file) => Some(file),
                        PythonModule::Named(_) => {
                            places.folders.push(pool.cwd.clone());
                            None
                        }
                    };
                    for module in module.into_iter().chain(start) {
                        places.files.push(module.clone());
                        places.folders.extend(module.parent().map(Path::to_owned));
                    }
                }
                Worker::Command { program, command, .. } => {
                    places.files.push(program.clone());
                    let arguments = command.iter().skip(1).map(|argument| pool.cwd.join(argument));
                    places.files.extend(arguments.filter(|file| file.is_file()));
                }
            }
            let own = [&places.files[files..], &places.folders[folders..]].concat();
            places.pools.insert(name.clone(), own);
        }
        for script in config.scripts.values() {
            places.files.push(script.handler.clone());
            places.folders.extend(script.handler.parent().map(Path::to_owned));
        }
        if let Some(folder) = config.workflow.as_ref().and_then(|workflow| workflow.folder()) {
            places.folders.push(folder.to_owned());
            places.graphs.push(folder.to_owned());
        }
        for route in &config.routes {
            match &route.target {
                Target::Respond(respond) => places.files.extend(respond.file.clone()),
                Target::Files(files) => places.left_out.push(files.folder.clone()),
                Target::Redirect(_)
                | Target::Rewrite(_)
                | Target::Store
                | Target::Records
                | Target::Tql
                | Target::Sql(_)
                | Target::Pool(_)
                | Target::Proxy(_)
                | Target::Script(_)
                | Target::Workflow(_)
                | Target::OpenApi => {}
            }
        }
        places
    }

    /// The pools with code among these files.
    fn pools_of(&self, files: &[PathBuf]) -> BTreeSet<String> {
        let is_of =
            |file: &PathBuf, place: &PathBuf| file == place || is_code(file) && file.starts_with(place);
        let has_any = |own: &Vec<PathBuf>| {
            files
                .iter()
                .any(|file| own.iter().any(|place| is_of(file, place)))
        };
        let pools = self.pools.iter().filter(|(_, own)| has_any(own));
        pools.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a file of this name is watched, if it lies where files are watched.
    fn may_watch(&self, name: &OsStr) -> bool {
        let is_named = |file: &PathBuf| file.file_name() == Some(name);
        is_code(Path::new(name)) || !self.graphs.is_empty() || self.files.iter().any(is_named)
    }

    /// The files and folders without symbolic links, as far as they exist.
    fn roots(&self) -> Vec<PathBuf> {
        let all = self.files.iter().chain(&self.folders);
        all.filter_map(|place| fs::canonicalize(place).ok()).collect()
    }

    /// Looks at all files, and calls `enter` with each folder before its files are looked at.
    fn look(&self, mut enter: impl FnMut(&Path)) -> Found {
        let mut stamps = Stamps::new();
        for file in &self.files {
            let target = fs::canonicalize(file).unwrap_or_default();
            let folders = [file.parent(), target.parent()];
            folders.into_iter().flatten().for_each(&mut enter);
            note(&mut stamps, file);
        }
        let mut left = ENTRIES_MAX;
        let mut folders = self.folders.clone();
        while let Some(folder) = folders.pop() {
            enter(&folder);
            // A removed folder has no entries; their absence is the change.
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                left = left.saturating_sub(1);
                if left == 0 {
                    return Found { stamps, whole: false };
                }
                let path = entry.path();
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && !self.enters(&path) => {}
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(_) if is_code(&path) || self.is_of_workflows(&path) => note(&mut stamps, &path),
                    _ => {}
                }
            }
        }
        Found { stamps, whole: true }
    }

    /// Whether it is a workflow file: a graph, a rule, a test, or a template.
    fn is_of_workflows(&self, file: &Path) -> bool {
        self.graphs
            .iter()
            .filter_map(|folder| file.strip_prefix(folder).ok()?.to_str())
            .any(forebay_workflow::is_workflow_file)
    }

    /// Whether to look for code in a folder: not in packages, hidden folders, virtual environments or folders of static files.
    fn enters(&self, folder: &Path) -> bool {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        name != "node_modules"
            && !name.starts_with('.')
            && !self.left_out.iter().any(|out| out == folder)
            && !folder.join(ENVIRONMENT_MARK).exists()
    }
}

/// Looks at the files of a workflow folder, including graphs, tests and templates. If there are too many entries, the log says so once.
pub(crate) fn look_at_workflows(folder: PathBuf) -> FileStamps {
    let places = Places {
        folders: vec![folder.clone()],
        graphs: vec![folder.clone()],
        ..Places::default()
    };
    let mut is_told = false;
    Box::new(move || {
        let found = places.look(|_| ());
        if !found.whole && !is_told {
            is_told = true;
            tracing::warn!(
                target: "forebay::workflow",
                "{} has more than {ENTRIES_MAX} entries, changes to the rest are not noticed",
                folder.display()
            );
        }
        found.stamps
    })
}

fn is_code(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| CODE.iter().any(|code| extension == *code))
}

fn note(stamps: &mut Stamps, file: &Path) {
    if let Ok(found) = fs::metadata(file) {
        stamps.insert(
            file.to_owned(),
            (found.mtime(), found.mtime_nsec(), found.len(), found.ino()),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("fb-watch-{name}-{}", std::process::id()));
        for inner in ["lib", "node_modules/a", ".git", "public"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        folder
    }

    fn places(folder: &Path) -> Places {
        Places {
            files: vec![folder.join("forebay.toml")],
            folders: vec![folder.to_owned()],
            left_out: vec![folder.join("public")],
            ..Places::default()
        }
    }

    /// Which of these changes are noticed: a file is created, rewritten, replaced and removed.
    fn noticed(folder: &Path, name: &str) -> Vec<bool> {
        let (places, file) = (places(folder), folder.join(name));
        let mut before = places.look(|_| ());
        let mut differs = || {
            let now = places.look(|_| ());
            std::mem::replace(&mut before, now.clone()) != now
        };
        let mut noticed = Vec::new();
        fs::write(&file, "a").unwrap();
        noticed.push(differs());
        fs::write(&file, "longer").unwrap();
        noticed.push(differs());
        let fresh = folder.join("fresh.tmp");
        fs::write(&fresh, "shorte").unwrap();
        fs::rename(&fresh, &file).unwrap();
        noticed.push(differs());
        fs::remove_file(&file).unwrap();
        noticed.push(differs());
        noticed
    }

    #[test]
    fn code_and_configuration_are_watched_and_nothing_else() {
        let folder = folder("which");
        for name in ["forebay.toml", "api.mjs", "lib/deep.ts"] {
            assert_eq!(noticed(&folder, name), [true; 4], "{name}");
        }
        for name in [
            "data.json",
            "forebay.log",
            "node_modules/a/index.js",
            ".git/hook.js",
            "public/app.js",
        ] {
            assert_eq!(noticed(&folder, name), [false; 4], "{name}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn of_workflows_all_their_files_are_watched_and_nothing_else() {
        let folder = folder("workflows");
        for inner in ["rules/price", "schemas", "templates", "tests"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        for (name, is_noticed) in [
            ("order.json", true),
            ("rules/price.js", true),
            ("rules/price/one.ts", true),
            ("tests/order.json", true),
            ("schemas/order.json", true),
            ("templates/page.html", true),
            ("templates/page.xml", true),
            ("templates/page.txt", true),
            ("templates/page.json", true),
            ("templates/page.pdf", false),
            ("page.html", false),
            ("rules/written.json", false),
        ] {
            let mut look = look_at_workflows(folder.clone());
            let before = look();
            fs::write(folder.join(name), "a").unwrap();
            assert_eq!(look() != before, is_noticed, "{name}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_change_during_a_reload_is_noticed_after_it() {
        let stamps = |pairs: &[(&str, u64)]| -> Stamps {
            pairs
                .iter()
                .map(|&(name, length)| (name.into(), (0, 0, length, 0)))
                .collect()
        };
        let seen = stamps(&[("kept", 1), ("edited", 1), ("dropped", 1)]);
        let found = stamps(&[("kept", 1), ("edited", 2), ("added", 5)]);
        let seen = carried_over(&seen, found.clone());
        assert_eq!(seen, stamps(&[("kept", 1), ("edited", 1), ("added", 5)]));
        assert_ne!(seen, found, "so the edit is noticed");
    }
}
