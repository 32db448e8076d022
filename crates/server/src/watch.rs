//! `--watch`: reloads when the configuration, a handler, or code next to a handler changes.
//!
//! Files are polled every 300 ms. Polling sees every way an editor saves, needs no kernel support, and costs one system call per file;
//! folders with a great many files occur only in development.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use forebay_workflow::FileStamps;
use tokio::time::sleep;

use crate::{
    config::{Config, PythonModule, Target, Worker},
    server::Shared,
};

const INTERVAL: Duration = Duration::from_millis(300);
/// A reload waits until nothing has changed for this long, so that one save or checkout causes one reload.
const QUIET: Duration = Duration::from_millis(100);
/// Most folder entries that are watched.
const ENTRIES_MAX: usize = 20_000;
/// Extensions of code. Data that a handler writes next to itself must not cause a reload.
const CODE: [&str; 10] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "wasm", "py"];
/// The file that marks a Python virtual environment.
const ENVIRONMENT_MARK: &str = "pyvenv.cfg";

/// Identifies a state of a file: modification time, length and inode.
type Stamp = (i64, i64, u64, u64);
type Stamps = BTreeMap<PathBuf, Stamp>;

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
    /// Workflow folders among these, in which every workflow file is watched as well.
    graphs: Vec<PathBuf>,
    /// Folders of static files, which are not watched.
    left_out: Vec<PathBuf>,
}

/// Watches and reloads until cancelled.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let mut read = shared.reloading.read.subscribe();
    let mut places = Arc::new(Places::of(&shared.front.app().config));
    let mut seen = look_first(&places).await;
    loop {
        sleep(INTERVAL).await;
        let now = look(&places).await.stamps;
        if now != seen {
            seen = quiet(&places, now).await;
            // The outcome is in the log; the next attempt needs another change.
            let _ = shared.reload("--watch").await;
        }
        if read.has_changed().unwrap_or(false) {
            let config = read.borrow_and_update().clone();
            if let Some(config) = config {
                places = Arc::new(Places::of(&config));
                seen = carried_over(&seen, look_first(&places).await);
            }
        }
    }
}

/// Looks at the places for the first time and logs a warning if they contain too many entries.
async fn look_first(places: &Arc<Places>) -> Stamps {
    let found = look(places).await;
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

/// Waits until nothing changes any more, and returns the stamps.
async fn quiet(places: &Arc<Places>, mut before: Stamps) -> Stamps {
    loop {
        sleep(QUIET).await;
        let now = look(places).await.stamps;
        if now == before {
            return now;
        }
        before = now;
    }
}

async fn look(places: &Arc<Places>) -> Found {
    let places = places.clone();
    let looked = tokio::task::spawn_blocking(move || places.look());
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
        for pool in config.pools.values() {
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
                Target::Store
                | Target::Records
                | Target::Tql
                | Target::Sql(_)
                | Target::Pool(_)
                | Target::Proxy(_)
                | Target::Script(_)
                | Target::Workflow(_) => {}
            }
        }
        places
    }

    fn look(&self) -> Found {
        let mut stamps = Stamps::new();
        for file in &self.files {
            note(&mut stamps, file);
        }
        let mut left = ENTRIES_MAX;
        let mut folders = self.folders.clone();
        while let Some(folder) = folders.pop() {
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
        let found = places.look();
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
        let mut before = places.look();
        let mut differs = || {
            let now = places.look();
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
