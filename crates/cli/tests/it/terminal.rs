//! Commands on a terminal: `script` gives each one of its own, and the tests type on it and read the screen.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use forebay_testkit::{Process, http_target::Server, wait_for, wait_until};

/// Ctrl-C, as a keyboard sends it.
const CTRL_C: &str = "\x03";

/// A shell line on a terminal; it is killed when dropped.
pub(crate) struct Terminal {
    child: Child,
    keyboard: ChildStdin,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    /// `FOREBAY` in the line is the binary.
    pub(crate) fn run(line: &str, environment: &[(&str, &str)]) -> Self {
        let line = line.replace("FOREBAY", env!("CARGO_BIN_EXE_forebay"));
        let mut child = Command::new("script")
            .args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"])
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let keyboard = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        let screen: Arc<Mutex<String>> = Arc::default();
        let shown = screen.clone();
        thread::spawn(move || {
            let (mut bytes, mut read) = (Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = output.read(&mut read) {
                bytes.extend_from_slice(&read[..count]);
                // A character may be split between two reads.
                *shown.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
            }
        });
        Self {
            child,
            keyboard,
            screen,
        }
    }

    /// The process that has replaced the shell by `exec`, while it runs.
    pub(crate) fn process(&self) -> Option<Process> {
        let children = Process::children_of(self.child.id());
        let mut running = children.into_iter().filter(|child| child.is_alive());
        running.next()
    }

    /// The process that provides the terminal.
    pub(crate) fn script(&self) -> Process {
        Process::with_pid(self.child.id()).expect("it runs until the end")
    }

    pub(crate) fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits for the end. The last text must have appeared; the screen is then complete.
    pub(crate) fn end(&mut self, last: &str) -> String {
        let status = wait_for("the command to end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.screen());
        wait_until(last, || self.screen().contains(last));
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn progress_is_printed_and_ctrl_c_prints_the_partial_result() {
    let server = Server::start(1);
    let line = format!(
        "exec FOREBAY load http://{}/ -c 2 -d 1h --warmup 0",
        server.address()
    );
    let mut terminal = Terminal::run(&line, &[]);
    wait_until("two lines of progress", || {
        terminal.screen().matches("measuring ").count() >= 2
    });
    terminal.types(CTRL_C);
    let screen = terminal.end("Verdict");
    let (_, result) = screen.rsplit_once("measuring ").unwrap();
    assert!(
        result.contains("interrupted: these are the figures up to then"),
        "{result:?}"
    );
    assert!(result.contains("answers in"), "{result:?}");
    assert!(!screen.contains('\x1b'), "{screen:?}");
}

#[test]
fn a_password_is_asked_for_and_not_shown() {
    let mut terminal = Terminal::run("exec FOREBAY password", &[]);
    wait_until("the question", || terminal.screen().contains("Password: "));
    terminal.types("correct horse\r");
    let screen = terminal.end("$argon2id$");
    assert!(!screen.contains("correct horse"), "{screen:?}");
}
