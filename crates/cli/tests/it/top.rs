//! `forebay top` on a terminal, with a real server behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use forebay_testkit::{Folder, Process, wait_for, wait_until};
use rustix::process::Signal;

use crate::{
    run::{Serving, run},
    terminal::Terminal,
};

const ROWS: u16 = 40;
const COLUMNS: u16 = 160;
const CONFIG: &str = "[store]\npath = \"data\"\n[pool.api]\nhandler = \"api.mjs\"\nworkers = { min = 2, max = 2 }\n\
    [[route]]\npath = \"/api\"\npool = \"api\"\n[[route]]\npath = \"/here\"\nrespond = { text = \"here\" }\n";

fn serving() -> (Folder, Serving) {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    folder.write("api.mjs", "export default () => 'one';");
    let serving = Serving::start(folder.path(), &[]);
    (folder, serving)
}

/// `top` for the server of a folder; afterwards the settings of the terminal are printed.
fn top(folder: &Folder) -> Terminal {
    let socket = folder.path().join("forebay.sock");
    let line = format!(
        "stty rows {ROWS} cols {COLUMNS}; FOREBAY top --socket {}; echo ended with $?; stty -a",
        socket.display()
    );
    Terminal::run(&line, &[])
}

/// The text on the screen.
fn seen(terminal: &Terminal) -> vt100::Parser {
    let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
    parser.process(terminal.screen().as_bytes());
    parser
}

/// The fields of the row that begins with this text; none if there is no such row.
fn row(terminal: &Terminal, first: &str) -> Vec<String> {
    let text = seen(terminal).screen().contents();
    let row = text.lines().find(|line| line.starts_with(first));
    let words = row
        .unwrap_or_default()
        .split("  ")
        .filter(|word| !word.is_empty());
    words.map(|word| word.trim().to_owned()).collect()
}

fn footer(terminal: &Terminal) -> String {
    let text = seen(terminal).screen().contents();
    text.lines().last().unwrap_or_default().trim_end().to_owned()
}

/// The terminal is as it was: the main screen, lines, echo.
fn assert_restored(terminal: &mut Terminal, code: u8) {
    // The last setting of all.
    let screen = terminal.end("-extproc");
    assert!(!seen(terminal).screen().alternate_screen(), "{screen:?}");
    assert!(!seen(terminal).screen().hide_cursor(), "{screen:?}");
    assert!(screen.contains(&format!("ended with {code}")), "{screen:?}");
    let settings: Vec<&str> = screen.split_whitespace().collect();
    for setting in ["icanon", "echo", "isig"] {
        assert!(settings.contains(&setting), "{setting} in {screen:?}");
    }
}

#[test]
fn top_shows_what_routes_pools_workers_and_the_store_do_and_obeys_keys() {
    let (folder, serving) = serving();
    let has_ended = Arc::new(AtomicBool::new(false));
    let load = {
        let (has_ended, mut client) = (has_ended.clone(), serving.connect());
        thread::spawn(move || {
            while !has_ended.load(Ordering::Relaxed) {
                for target in ["/here", "/here", "/api", "/nowhere"] {
                    client.get(target);
                }
            }
        })
    };
    let mut terminal = top(&folder);
    let rate = |terminal: &Terminal, first: &str, column: usize| {
        let row = row(terminal, first);
        row.get(column)
            .and_then(|rate| rate.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    wait_until("rates of both routes, and both workers", || {
        let ready = row(&terminal, "api  ")
            .get(2)
            .is_some_and(|workers| workers == "2/2");
        ready && rate(&terminal, "/here", 1) > 0.0 && rate(&terminal, "/api", 1) > 0.0
    });
    terminal.types("p");
    wait_until("the pause", || footer(&terminal).starts_with("PAUSED"));
    let here = row(&terminal, "/here");
    assert_eq!(
        (&here[1], &*here[3], here.len()),
        (&here[2], "0", 9),
        "all of them are 2xx: {here:?}"
    );
    assert!(
        here[7..]
            .iter()
            .all(|time| time.ends_with("us") || time.ends_with("ms")),
        "{here:?}"
    );
    assert!(rate(&terminal, "(none)", 4) > 0.0, "a 404 has no route");
    let pool = row(&terminal, "api  ");
    assert_eq!(
        (&*pool[1], &*pool[2], &*pool[4], pool.len()),
        ("ready", "2/2", "0/1024", 12),
        "{pool:?}"
    );
    assert!(
        rate(&terminal, "api  ", 5) > 0.0 && pool[8].ends_with("MiB"),
        "{pool:?}"
    );
    for process in serving.workers(2) {
        let text = seen(&terminal).screen().contents();
        assert!(
            text.contains(&format!("  {}  ready", process.pid)),
            "{} in {text}",
            process.pid
        );
    }
    let text = seen(&terminal).screen().contents();
    assert!(
        text.lines()
            .any(|line| line.starts_with("store ") && line.contains("0 of 1024 writes wait")),
        "{text}"
    );
    // Routes are sorted by their rate; r turns that around, and the left arrow sorts by name.
    let order = |terminal: &Terminal| {
        let text = seen(terminal).screen().contents();
        let routes = text.lines().filter_map(|line| line.split("  ").next());
        let routes = routes.filter(|first| ["/here", "/api"].contains(first));
        routes.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(order(&terminal), ["/here", "/api"]);
    terminal.types("r");
    wait_until("the other order", || order(&terminal) == ["/api", "/here"]);
    terminal.types("r\x1b[D");
    wait_until("the order of names", || order(&terminal) == ["/here", "/api"]);
    terminal.types("r");
    wait_until("the other order of names", || {
        order(&terminal) == ["/api", "/here"]
    });
    let paused = row(&terminal, "/here");
    terminal.types("p");
    wait_until("new figures", || row(&terminal, "/here") != paused);
    terminal.types("q");
    assert_restored(&mut terminal, 0);
    has_ended.store(true, Ordering::Relaxed);
    load.join().unwrap();
}

#[test]
fn ctrl_c_and_a_signal_end_top_and_leave_the_terminal_as_it_was() {
    let (folder, _serving) = serving();
    for is_signal in [false, true] {
        let mut terminal = top(&folder);
        wait_until("the view", || footer(&terminal).starts_with("q quit"));
        if is_signal {
            let process = wait_for("the process", || {
                let shell = Process::children_of(terminal.script().pid).into_iter().next()?;
                Process::children_of(shell.pid).into_iter().next()
            });
            process.signal(Signal::TERM);
        } else {
            terminal.types("\x03");
        }
        assert_restored(&mut terminal, 0);
    }
}

#[test]
fn top_says_that_the_server_is_gone_and_goes_on_when_there_is_one_again() {
    let (folder, mut serving) = serving();
    let mut terminal = top(&folder);
    wait_until("the view", || footer(&terminal).starts_with("q quit"));
    serving.process().signal(Signal::TERM);
    serving.wait();
    wait_until("the failure", || {
        footer(&terminal).contains("cannot reach a server") && footer(&terminal).ends_with("trying again")
    });
    let serving = Serving::start(folder.path(), &[]);
    let pid = format!(", pid {},", serving.process().pid);
    wait_until("the new server", || {
        seen(&terminal).screen().contents().contains(&pid) && footer(&terminal).starts_with("q quit")
    });
    terminal.types("q");
    assert_restored(&mut terminal, 0);
}

#[test]
fn top_without_a_terminal_or_a_server_says_so() {
    let folder = Folder::new();
    folder.write(
        "forebay.toml",
        "[[route]]\npath = \"/\"\nrespond = { text = \"here\" }\n",
    );
    let told = run(folder.path(), &["top"]);
    assert_eq!((told.code, told.out.as_str()), (2, ""));
    assert!(
        told.err.contains("standard output is none: use `forebay status`"),
        "{told:?}"
    );
    let mut terminal = top(&folder);
    assert_restored(&mut terminal, 4);
    assert!(
        terminal.screen().contains("cannot reach a server"),
        "{}",
        terminal.screen()
    );
    assert!(!terminal.screen().contains("\x1b[?1049h"), "nothing was drawn");
}
