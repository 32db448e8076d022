//! Single keys, read without a line end while a run is shown on a terminal.

use std::io::{self, IsTerminal as _};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};

/// The terminal, switched to single keys. It is switched back when dropped.
#[derive(Debug)]
pub(crate) struct Keys {
    before: Termios,
}

impl Keys {
    /// `None` where nobody types: standard input or error is no terminal, or this is not its foreground process.
    pub(crate) fn listen() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        // To change a terminal from the background stops the process (POSIX, 11.1.4).
        if rustix::termios::tcgetpgrp(&input).ok()? != rustix::process::getpgrp() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 0;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &single).ok()?;
        Some(Self { before })
    }

    /// How the terminal was before, to be put back where no drop is run.
    pub(crate) fn restorer(&self) -> Box<dyn FnOnce() + Send> {
        let before = self.before.clone();
        Box::new(move || {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        })
    }

    /// The key that was pressed, if one was.
    #[expect(
        clippy::unused_self,
        reason = "only a terminal that was switched gives single keys"
    )]
    pub(crate) fn pressed(&self) -> Option<char> {
        let input = io::stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if poll(&mut ready, Some(&at_once)).ok()? == 0 {
            return None;
        }
        let mut key = [0];
        match rustix::io::read(&input, &mut key) {
            Ok(1) => Some(key[0].into()),
            _ => None,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
