//! A simulated disk: programs run with a preloaded library that records what they flush.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead, BufReader, Lines, Write, stdin, stdout},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::LazyLock,
};

use tempfile::TempDir;

use super::restart::restart;

const LIBRARY: &str = include_str!("disk.c");
const PAGE: usize = 4096;
/// Environment variable with the store's folder; it also tells a subprocess that it has been started as one.
const STORE: &str = "FOREBAY_TEST_DISK_STORE";
/// Exit code of a program when the power is cut.
const CUT: i32 = 77;

static COMPILED: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let own = |name: &str| folder.join(format!("{}-{name}", process::id()));
    fs::write(own("disk.c"), LIBRARY).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([own("disk.so"), own("disk.c")])
        .arg("-ldl")
        .status()
        .expect("a C compiler is needed to build the store, too");
    assert!(compiled.success());
    // Several test programs may do this at the same time.
    fs::rename(own("disk.so"), folder.join("disk.so")).unwrap();
    fs::remove_file(own("disk.c")).unwrap();
    folder.join("disk.so")
});

/// Deterministic pseudo-random numbers (xorshift, Marsaglia 2003).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn yes(&mut self, percent: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 100 < percent
    }
}

pub(super) struct Disk {
    folder: TempDir,
}

impl Disk {
    pub(super) fn new() -> Self {
        let disk = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["root", "flushed/files", "flushed/names"] {
            fs::create_dir_all(disk.folder.path().join(folder)).unwrap();
        }
        disk
    }

    /// A disk that holds copies of these files, all of them flushed.
    pub(super) fn with(store: &Path) -> Self {
        let disk = Self::new();
        copy(store, &disk.store());
        copy(store, &disk.flushed("files").join("store"));
        for (folder, names) in [
            ("+", "store\n"),
            ("store+", "store.mdbx\nchanges\n"),
            ("store+changes+", &listing(&store.join("changes")).join("\n")),
        ] {
            fs::write(disk.flushed("names").join(folder), names).unwrap();
        }
        disk
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.path().join("root/store")
    }

    fn flushed(&self, what: &str) -> PathBuf {
        self.folder.path().join("flushed").join(what)
    }

    /// Command that runs a program on this disk: a test of this binary, which does its work if [`store_to_use`] is set.
    fn command(&self, program: &str) -> Command {
        let path = |name| self.folder.path().join(name).canonicalize().unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", program, "--nocapture", "--test-threads=1"])
            .env("LD_PRELOAD", &*COMPILED)
            .env("DISK_ROOT", path("root"))
            .env("DISK_FLUSHED", path("flushed"))
            .env("DISK_REFUSE", self.folder.path().join("refuse"))
            .env(STORE, path("root").join("store"));
        command
    }

    pub(super) fn start(&self, program: &str) -> Program {
        let mut child = self
            .command(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Program {
            orders: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
        }
    }

    /// Runs a program until it ends, or the power is cut after that many flushes; true if it was cut.
    pub(super) fn run_until_cut(&self, program: &str, flushes: usize) -> bool {
        let ended = self
            .command(program)
            .env("DISK_CUT", flushes.to_string())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let was_cut = ended.status.code() == Some(CUT);
        assert!(was_cut || ended.status.success(), "{ended:?}");
        was_cut
    }

    /// Makes calls of these kinds fail; `disk.c` lists them.
    pub(super) fn refuse(&self, kinds: &str) {
        fs::write(self.folder.path().join("refuse"), kinds).unwrap();
    }

    pub(super) fn refuse_no_more(&self) {
        fs::remove_file(self.folder.path().join("refuse")).unwrap();
    }

    /// The store after a power cut now: everything that was flushed, and a random part of the pages and names written
    /// since.
    pub(super) fn after_power_cut(&self, percent: u64, chance: &mut Chance) -> TempDir {
        let image = tempfile::tempdir().unwrap();
        if self.names("", percent, chance).contains("store") {
            self.lay_down("store", image.path(), percent, chance);
        }
        image
    }

    /// A copy of the store's files as the system sees them.
    pub(super) fn as_it_is(&self) -> TempDir {
        let image = tempfile::tempdir().unwrap();
        copy(&self.store(), image.path());
        image
    }

    fn lay_down(&self, folder: &str, to: &Path, percent: u64, chance: &mut Chance) {
        for name in self.names(folder, percent, chance) {
            let path = format!("{folder}/{name}");
            if name == "changes" {
                fs::create_dir(to.join(&name)).unwrap();
                self.lay_down(&path, &to.join(&name), percent, chance);
                continue;
            }
            let mut image = fs::read(self.flushed("files").join(&path)).unwrap_or_default();
            let later = fs::read(self.folder.path().join("root").join(&path)).unwrap_or_default();
            tear(&mut image, &later, percent, chance);
            if name == "store.mdbx" {
                restart(&mut image);
            }
            fs::write(to.join(&name), image).unwrap();
        }
    }

    /// The names in a folder after a power cut.
    fn names(&self, folder: &str, percent: u64, chance: &mut Chance) -> BTreeSet<String> {
        let flat = format!("{}+", folder.replace('/', "+"));
        let flushed = fs::read_to_string(self.flushed("names").join(flat)).unwrap_or_default();
        let flushed: BTreeSet<String> = flushed.lines().map(str::to_owned).collect();
        let later = listing(&self.folder.path().join("root").join(folder));
        let later: BTreeSet<String> = later.into_iter().collect();
        let mut names = flushed.clone();
        for name in flushed.symmetric_difference(&later) {
            if !chance.yes(percent) {
                continue;
            }
            if !names.remove(name) {
                names.insert(name.clone());
            }
        }
        // The engine recreates it.
        names.remove("store.mdbx-lck");
        names
    }
}

/// A subprocess that executes orders until it is killed.
pub(super) struct Program {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Sends an order and waits for the answer.
    pub(super) fn ask(&mut self, order: &str) -> String {
        self.try_to_ask(order).expect("the program has ended")
    }

    /// As [`Program::ask`]; `None` if the program ends instead.
    pub(super) fn try_to_ask(&mut self, order: &str) -> Option<String> {
        writeln!(self.orders, "{order}").unwrap();
        loop {
            let line = self.answers.next()?.unwrap();
            if let Some(answer) = line.strip_prefix("answer ") {
                return Some(answer.to_owned());
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folder of the store for a subprocess; `None` when this is an ordinary test run.
pub(super) fn store_to_use() -> Option<PathBuf> {
    env::var_os(STORE).map(PathBuf::from)
}

/// Main loop of a subprocess: answers each order.
pub(super) fn obey(mut answer: impl FnMut(&str) -> String) {
    for order in stdin().lines() {
        let answer = answer(&order.unwrap());
        // The test harness may have printed part of a line.
        let mut out = stdout().lock();
        writeln!(out, "\nanswer {answer}").unwrap();
        out.flush().unwrap();
    }
}

/// Overwrites a random part of the pages with their later content.
fn tear(image: &mut Vec<u8>, later: &[u8], percent: u64, chance: &mut Chance) {
    for (number, page) in later.chunks(PAGE).enumerate() {
        let at = number * PAGE;
        if chance.yes(percent) {
            image.resize(image.len().max(at + page.len()), 0);
            image[at..at + page.len()].copy_from_slice(page);
        }
    }
}

fn listing(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in listing(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}
