//! Commands on a terminal: `script` gives them one of its own, and this file types on it and reads what appears.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use forebay_testkit::{Process, http_target::Server, wait_for, wait_until};

/// Ctrl-C, as a keyboard sends it.
const CTRL_C: &str = "\x03";
/// To the start of the line, and clear it.
const REDRAW: &str = "\r\x1b[K";

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
                // A character may be cut in two for a moment.
                *shown.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
            }
        });
        Self {
            child,
            keyboard,
            screen,
        }
    }

    /// The process that the shell line has become with `exec`, while it runs.
    pub(crate) fn process(&self) -> Option<Process> {
        let children = Process::children_of(self.child.id());
        let mut running = children.into_iter().filter(|child| child.is_alive());
        running.next()
    }

    /// The process that is the terminal.
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

    /// Waits for the end. The last text must be there; the screen is then complete.
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

/// What is left to see after the last picture was taken away.
fn after_pictures(screen: &str) -> &str {
    screen
        .rsplit_once(REDRAW)
        .unwrap_or_else(|| panic!("{screen:?}"))
        .1
}

#[test]
fn the_picture_is_redrawn_in_place_and_taken_away_and_ctrl_c_prints_the_partial_result() {
    let server = Server::start(1);
    let line = format!(
        "exec FOREBAY load http://{}/ -c 2 -d 1h --warmup 0",
        server.address()
    );
    let mut terminal = Terminal::run(&line, &[]);
    wait_until("two pictures", || {
        terminal.screen().matches("measuring ").count() >= 2
    });
    terminal.types(CTRL_C);
    let screen = terminal.end("Verdict");
    assert!(screen.contains("measuring "), "{screen:?}");
    let result = after_pictures(&screen);
    assert!(!result.contains("measuring"), "{result:?}");
    assert!(
        result.contains("interrupted: these are the figures up to then"),
        "{result:?}"
    );
    assert!(result.contains("answers in"), "{result:?}");
}

#[test]
fn no_color_holds_for_the_picture_and_for_the_result() {
    let server = Server::start(1);
    let line = format!(
        "exec FOREBAY load http://{}/ -c 2 -d 1h --warmup 0",
        server.address()
    );
    let mut terminal = Terminal::run(&line, &[("NO_COLOR", "1")]);
    wait_until("a picture", || terminal.screen().contains("measuring "));
    terminal.types(CTRL_C);
    let screen = terminal.end("Verdict");
    assert!(screen.contains("measuring "), "{screen:?}");
    // The only sequences are those that move and erase.
    let sequences = screen.replace(REDRAW, "");
    assert!(!sequences.contains('\x1b'), "{sequences:?}");
}
