//! `forebay store shell`, and other commands while it has the store open.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Stdio},
};

use forebay_testkit::{Folder, wait_until};

use crate::{
    run::{Serving, forebay},
    store_nodes::{done, fed, store},
    terminal::Terminal,
};

/// A shell that runs until dropped.
pub(crate) struct Shell {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Shell {
    pub(crate) fn start(folder: &Folder) -> Self {
        let mut child = forebay(folder.path(), &["store", "shell"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn types(&mut self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    /// The next line that it prints.
    pub(crate) fn says(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Closes its input, and waits for its end.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn commands_are_words_and_the_first_that_fails_ends_a_script() {
    let folder = Folder::new();
    let script = "\
# a comment

set ^Person(\"a b\",1) {\"x\": [1, 2]}
set Person/text 'some text' --string
get Person
ls Person --count
kill Person/text --yes
get Person/text
ls";
    let ended = fed(&folder, &["shell"], script);
    assert_eq!(
        ended.out,
        "{\"a b\":{\"1\":{\"x\":[1,2]}},\"text\":\"some text\"}\na%20b\t2\ntext\t1\n"
    );
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (
            4,
            "made a new store in data\nerror: line 8 of the input has failed\n  because: there is no node ^Person(\"text\")\n"
        )
    );
    let wrong = fed(&folder, &["shell"], "gett Person\n");
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("unrecognized subcommand 'gett'"), "{wrong:?}");
    let left = fed(&folder, &["shell"], "help\nls\nexit\nget Nothing\n");
    assert_eq!((left.code, left.err.as_str()), (0, ""));
    assert!(
        left.out.contains("\n  set     Give a node a value") && left.out.ends_with("\nPerson\n"),
        "{left:?}"
    );
}

#[test]
fn others_read_and_write_while_a_shell_has_the_store_open() {
    let folder = Folder::new();
    let mut shell = Shell::start(&folder);
    shell.types("set G/a 1");
    shell.types("get G");
    assert_eq!(shell.says(), "{\"a\":1}\n");
    done(&folder, &["set", "G/b", "2"]);
    shell.types("get G");
    assert_eq!(shell.says(), "{\"a\":1,\"b\":2}\n");
    done(&folder, &["backup", "copy"]);
    assert_eq!(
        done(&folder, &["get", "G", "--data", "copy"]),
        "{\"a\":1,\"b\":2}\n"
    );
    let refused = store(&folder, &["compact"]);
    assert_eq!(refused.code, 1);
    let holder = format!("is open in another process (pid {})\n", shell.pid());
    assert!(refused.err.contains(&holder), "{refused:?}");
    assert_eq!(shell.end(), 0);
    done(&folder, &["compact"]);
    assert_eq!(done(&folder, &["get", "G"]), "{\"a\":1,\"b\":2}\n");
}

#[test]
fn commands_and_a_running_server_see_what_the_other_writes() {
    let folder = Folder::new();
    folder.write(
        "forebay.toml",
        "[store]\n[store.access]\nG = { read = \"public\", write = \"public\" }\n[[route]]\npath = \"/store/*\"\nstore = {}\n",
    );
    let serving = Serving::start(folder.path(), &[]);
    done(&folder, &["set", "G/a", "[1]"]);
    assert_eq!(serving.get("/store/G/a").text(), "[1]");
    let mut client = serving.connect();
    client.post("/store/G/list", b"{\"by\":\"server\"}");
    assert_eq!(client.response().status, 201);
    assert_eq!(done(&folder, &["get", "G/list/1/by"]), "\"server\"\n");
    let export = done(&folder, &["export"]);
    done(&folder, &["backup", "copy"]);
    assert_eq!(done(&folder, &["export", "--data", "copy"]), export);
    assert!(done(&folder, &["verify"]).starts_with("sound: "));
    let refused = store(&folder, &["compact"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("is open in another process (pid "),
        "{refused:?}"
    );
    assert_eq!(
        fed(
            &folder,
            &["import", "-"],
            "{\"path\":[\"G\",\"a\",1],\"value\":2}\n"
        )
        .code,
        0
    );
    assert_eq!(serving.get("/store/G/a").text(), "[1,2]");
}

#[test]
fn a_shell_that_is_killed_leaves_a_store_that_opens() {
    let folder = Folder::new();
    let mut shell = Shell::start(&folder);
    shell.types("set G/a 1");
    shell.types("ls");
    assert_eq!(shell.says(), "G\n");
    drop(shell);
    assert_eq!(done(&folder, &["get", "G"]), "{\"a\":1}\n");
    assert!(done(&folder, &["verify"]).starts_with("sound: "));
    done(&folder, &["compact"]);
}

#[test]
fn on_a_terminal_a_line_that_fails_is_told_and_the_next_one_is_read() {
    let folder = Folder::new();
    let line = format!("cd {} && FOREBAY store shell", folder.path().display());
    let mut terminal = Terminal::run(&line, &[]);
    for (typed, answer) in [
        ("", "store> "),
        ("get Nope\r", "there is no node ^Nope"),
        ("set G/a [1]\r", "set G/a [1]"),
        ("get G/a\r", "[\r\n  1\r\n]"),
    ] {
        terminal.types(typed);
        wait_until(answer, || {
            let screen = terminal.screen();
            // A new prompt follows the output.
            let rest = screen.rsplit_once(answer).map(|(_, rest)| rest);
            rest.is_some_and(|rest| answer == "store> " || rest.contains("store> "))
        });
    }
    terminal.types("exit\r");
    terminal.end("exit");
}
