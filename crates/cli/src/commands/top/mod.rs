mod sample;
mod tables;
mod view;

use std::{io, sync::mpsc, thread, time::Duration};

use anyhow::Context as _;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use self::{
    sample::{Interval, Sample},
    view::View,
};
use super::load::Interrupt;
use crate::{
    control::{Control, ControlError, Which},
    failure::UsageError,
    output,
};

/// Interval between two samples.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a key press, or a signal, may wait to be noticed.
const KEYS_WAIT: Duration = Duration::from_millis(100);

/// Watch the running server on the terminal: requests a second, latencies, routes, pools, workers, the store
///
/// Keys: q ends, p pauses, Tab chooses a table, the left and right arrows the column it is sorted by, r reverses its order, up and down scroll.
#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(arguments: &TopArgs) -> anyhow::Result<()> {
    if !output::is_terminal() {
        let text = "`forebay top` draws on a terminal, and standard output is none: use `forebay status`, `forebay status --follow` or `forebay status --json`";
        return Err(UsageError(text.to_owned()).into());
    }
    let control = Control::of(&arguments.which)?;
    let first = Sample::take(&control)?;
    let interrupt = Interrupt::listen()?;
    let samples = sampling(control)?;
    let mut screen = Screen::open().context("the terminal cannot be drawn on")?;
    let mut view = View::new(Interval::first(first), output::in_colour());
    let mut is_paused = false;
    while !interrupt.came() {
        match samples.try_recv() {
            Ok(sample) => view.update(sample, is_paused),
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => {
                anyhow::bail!("the thread that asks the server has ended")
            }
        }
        screen.terminal.draw(|frame| view.draw(frame, is_paused))?;
        if !event::poll(KEYS_WAIT)? {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match order(key) {
                Some(Order::End) => break,
                Some(Order::Pause) => is_paused = !is_paused,
                Some(Order::View(change)) => change(&mut view),
                None => {}
            },
            _ => {}
        }
    }
    Ok(())
}

/// The command that a key stands for.
enum Order {
    End,
    Pause,
    View(fn(&mut View)),
}

fn order(key: KeyEvent) -> Option<Order> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Order::End);
    }
    Some(match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Order::End,
        KeyCode::Char('p' | ' ') => Order::Pause,
        KeyCode::Tab => Order::View(View::next_table),
        KeyCode::Left => Order::View(|view| view.table().sort_by_neighbour(-1)),
        KeyCode::Right => Order::View(|view| view.table().sort_by_neighbour(1)),
        KeyCode::Char('r') => Order::View(|view| view.table().reverse()),
        KeyCode::Up => Order::View(|view| view.table().scroll(-1)),
        KeyCode::Down => Order::View(|view| view.table().scroll(1)),
        KeyCode::PageUp => Order::View(|view| view.table().scroll(-10)),
        KeyCode::PageDown => Order::View(|view| view.table().scroll(10)),
        KeyCode::Home => Order::View(|view| view.table().scroll(isize::MIN)),
        _ => return None,
    })
}

/// Takes samples on a thread of its own: a server that is slow to answer must not hold up the keys.
fn sampling(control: Control) -> io::Result<mpsc::Receiver<Result<Sample, ControlError>>> {
    // Of samples for which nobody has looked, one is enough.
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new().name("samples".into()).spawn(move || {
        loop {
            thread::sleep(PAUSE);
            if sender.send(Sample::take(&control)).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The terminal in raw mode, on its alternate screen. It is as before once this is dropped, and before the message of a panic.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                ratatui::restore();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The hook that `try_init` has set has restored it already; doing it twice would move the cursor onto the message.
        if !thread::panicking() {
            ratatui::restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// In the environment of this test where it runs on a terminal of its own.
    const INSIDE: &str = "FOREBAY_TEST_ON_TERMINAL";

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        if std::env::var_os(INSIDE).is_some() {
            let _screen = Screen::open().unwrap();
            panic!("on purpose");
        }
        let line = format!(
            "{} --nocapture --exact commands::top::tests::a_panic_restores_the_terminal_before_its_message; stty -a",
            std::env::current_exe().unwrap().display()
        );
        let output = Command::new("script")
            .args(["--quiet", "--command", &line, "/dev/null"])
            .env(INSIDE, "1")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let (drawn, after) = text.split_once("on purpose").expect("the message is printed");
        assert!(
            drawn.contains("\x1b[?1049h") && drawn.contains("\x1b[?1049l"),
            "{text:?}"
        );
        assert!(
            !after.contains("\x1b[?1049l"),
            "twice would overwrite the message: {text:?}"
        );
        assert!(after.contains(" icanon") && after.contains(" echo "), "{text:?}");
    }
}
