//! Programs that a measurement starts. Each has a process group of its own, so that Ctrl-C reaches it through this process only and nothing
//! that it has started outlives it; the guard ends the group if this process is killed.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_pool::guard;
use rustix::process::{Pid, Signal, kill_process_group};

/// Longest time that a program may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often an ending program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Bytes of a program's output that are kept, the last ones.
const OUTPUT_KEPT: usize = 16 * 1024;

/// A running program. Dropping it ends it with everything in its process group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Process {
    /// Starts a program without standard input, and keeps the end of its output.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        guard::add(child.id());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut process = Self {
            child,
            output: Arc::default(),
            readers: Vec::new(),
        };
        let output = &process.output;
        let readers = stdout.map(|stream| keep(stream, output)).into_iter();
        let readers = readers.chain(stderr.map(|stream| keep(stream, output)));
        process.readers = readers.collect::<io::Result<_>>()?;
        Ok(process)
    }

    /// Waits until it ends, and returns its status and all that is kept of its output. It is ended after `time_max`, or when `stop` is set.
    pub(crate) fn wait(
        mut self,
        time_max: Duration,
        stop: &AtomicBool,
    ) -> Result<(ExitStatus, String), String> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                for reader in self.readers.drain(..) {
                    // A reader that panicked has kept what it had read.
                    let _ = reader.join();
                }
                return Ok((status, self.output()));
            }
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if begun.elapsed() > time_max {
                return Err(format!("it did not end within {} s", time_max.as_secs()));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The process id, which is that of the group, too.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The end of what it has printed, with both streams mixed.
    pub(crate) fn output(&self) -> String {
        let output = self.output.lock().expect("nobody panics with it locked");
        String::from_utf8_lossy(&output).into_owned()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(match self.output().trim() {
            "" => status.to_string(),
            printed => format!("{status}; it printed: {printed}"),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        end_group(&mut self.child);
    }
}

/// Ends a program with everything in its process group, which is its own: by SIGTERM, and what is left after 5 s by SIGKILL.
pub fn end_group(child: &mut Child) {
    let group = Pid::from_child(child);
    // SIGTERM lets it end in order, with its own children.
    let _ = kill_process_group(group, Signal::TERM);
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < STOP_MAX {
        thread::sleep(LOOK_EVERY);
    }
    let _ = kill_process_group(group, Signal::KILL);
    guard::remove(child.id());
    let _ = child.wait();
}

/// Reads a stream to its end, on a thread of its own, and keeps its last bytes.
fn keep(
    mut stream: impl Read + Send + 'static,
    output: &Arc<Mutex<Vec<u8>>>,
) -> io::Result<thread::JoinHandle<()>> {
    let output = Arc::clone(output);
    let read = move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut part) {
            let mut output = output.lock().expect("nobody panics with it locked");
            output.extend_from_slice(&part[..length]);
            let excess = output.len().saturating_sub(OUTPUT_KEPT);
            output.drain(..excess);
        }
    };
    thread::Builder::new().name("output".to_owned()).spawn(read)
}
