//! Exit codes and error messages of commands.

use std::net::TcpListener;

use forebay_testkit::Folder;

use crate::run::{ended, forebay, run};

#[test]
fn what_is_done_ends_with_0_and_complains_about_nothing() {
    let folder = Folder::new();
    for arguments in [&["version"][..], &["--version"], &["--help"], &["help", "serve"]] {
        let ended = run(folder.path(), arguments);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arguments:?}");
    }
    assert_eq!(run(folder.path(), &["version"]).out, "forebay 0.1.0\n");
    let json = run(folder.path(), &["version", "--json"]).out;
    assert!(
        json.contains("\"version\":\"0.1.0\"") && json.ends_with("}\n"),
        "{json}"
    );
}

#[test]
fn every_shell_gets_completions_of_every_command() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(folder.path(), &["completions", shell]);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{shell}");
        for word in ["serve", "check", "load", "status", "reload", "logs", "resize"] {
            assert!(ended.out.contains(word), "{shell}: {word}: {}", ended.out);
        }
    }
}

#[test]
fn a_wrong_command_line_ends_with_2_before_anything_happens() {
    let folder = Folder::new();
    folder.write("forebay.toml", "");
    for (arguments, complaint) in [
        (&[][..], "Usage: forebay <COMMAND>"),
        (&["serv"], "similar subcommand exists: 'serve'"),
        (&["serve", "--threads", "257"], "257 is not in 1..=256"),
        (&["serve", "--workers", "0"], "0 is not in 1..=1024"),
        (
            &["serve", "--listen", "8080"],
            "expected an address such as \"127.0.0.1:8080\"",
        ),
        (&["serve", "--access-log", "maybe"], "[possible values: on, off]"),
        (
            &["serve", "--inspect"],
            "--inspect: the configuration has no pool with a JavaScript handler",
        ),
        (&["pool", "resize", "api", "many"], "invalid digit"),
        (
            &["logs", "--level", "loud"],
            "[possible values: error, warn, info, debug, trace]",
        ),
    ] {
        let ended = run(folder.path(), arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(complaint), "{arguments:?}: {ended:?}");
        assert_eq!(ended.out, "", "{arguments:?}");
    }
}

#[test]
fn a_configuration_that_is_not_there_or_not_valid_ends_with_3_and_says_what_to_do() {
    let folder = Folder::new();
    let first = "`forebay new DIR` writes one to start with; `-c FILE` names another; `forebay serve APPLICATION` needs none";
    let elsewhere = "the same in the server's folder; `-c FILE` or `--socket FILE` for a server elsewhere";
    for (command, hint) in [
        (&["serve"][..], first),
        (&["check"], first),
        (&["reload"], elsewhere),
        (&["status"], elsewhere),
        (&["logs"], elsewhere),
        (&["pool", "resize", "api", "2"], elsewhere),
    ] {
        let ended = run(folder.path(), command);
        assert_eq!((ended.code, ended.out.as_str()), (3, ""), "{command:?}");
        assert_eq!(
            ended.err,
            format!(
                "error: cannot read the configuration `forebay.toml`\n  because: No such file or directory (os error 2)\n  \
                 try: {hint}\n"
            )
        );
    }
    folder.write(
        "other.toml",
        "[server]\nlisen = [\"127.0.0.1:0\"]\nthreads = 1000\n",
    );
    for command in ["serve", "check"] {
        let ended = run(folder.path(), &[command, "-c", "other.toml"]);
        assert_eq!((ended.code, ended.out.as_str()), (3, ""), "{command}");
        assert!(
            ended.err.contains("other.toml:2: server.lisen: no such key"),
            "{ended:?}"
        );
        assert!(
            ended.err.contains("other.toml:3: server.threads: found 1000"),
            "{ended:?}"
        );
    }
}

#[test]
fn what_fails_while_running_ends_with_1_and_its_causes_are_told_once() {
    let folder = Folder::new();
    folder.write("forebay.toml", "[admin]\nlisten = \"off\"\nsocket = \"off\"\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(folder.path(), &["serve", "--listen", &address]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert_eq!(
        ended.err,
        format!(
            "error: cannot listen on {address}\n  because: Address already in use (os error 98)\n  \
             try: another address with `--listen HOST:PORT`; port 0 lets the system choose a free one\n"
        )
    );
}

#[test]
fn a_server_that_cannot_be_reached_ends_with_4() {
    let folder = Folder::new();
    folder.write("forebay.toml", "");
    for arguments in [
        &["status"][..],
        &["reload"],
        &["logs"],
        &["pool", "resize", "api", "2"],
    ] {
        let ended = run(folder.path(), arguments);
        assert_eq!((ended.code, ended.out.as_str()), (4, ""), "{arguments:?}");
        let socket = folder.path().join("forebay.sock");
        assert!(
            ended
                .err
                .starts_with(&format!("error: cannot reach a server at {}\n", socket.display()))
        );
        assert!(
            ended.err.contains("try: `forebay serve` in another terminal"),
            "{ended:?}"
        );
    }
    folder.write("forebay.toml", "[admin]\nsocket = \"off\"\n");
    let ended = run(folder.path(), &["status"]);
    assert_eq!(ended.code, 4);
    assert!(ended.err.contains("switches the control socket off"), "{ended:?}");
}

#[test]
fn a_reader_that_leaves_early_ends_the_command_and_is_no_failure() {
    let folder = Folder::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = forebay(folder.path(), &["completions", "bash"])
        .stdout(writer)
        .output()
        .unwrap();
    let ended = ended(&output);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}
