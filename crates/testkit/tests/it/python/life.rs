//! Start, run and end of Python workers.

use forebay_testkit::{Load, Setup, wait_until};

use super::{TOOLBOX, pool};
use crate::support::{ONE_WORKER, noted};

#[test]
fn what_a_handler_prints_is_in_the_log_and_never_on_the_link() {
    let server = pool(TOOLBOX, ONE_WORKER).start();
    assert_eq!(server.get("/print").text(), "done");
    for line in [
        "printed by the handler",
        "written to the descriptor",
        "by a program",
    ] {
        server.wait_for_log(&[line, "\"pool\":\"api\"", "\"worker\":1"]);
    }
    let logged = server.wait_for_log(&["\"logged\"", "\"number\":7"]);
    assert!(
        logged.contains("\"request\":\"") && logged.contains("\"WARN\""),
        "{logged}"
    );
}

#[test]
fn hooks_run_before_the_first_request_and_after_the_last() {
    let mut server = pool(TOOLBOX, ONE_WORKER).start();
    assert_eq!(server.get("/count").text(), "{\"served\":1,\"pool\":\"api\"}");
    assert_eq!(server.get("/count").text(), "{\"served\":2,\"pool\":\"api\"}");
    let pid = server.get("/pid").text().to_owned();
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(noted(&server), [format!("start {pid}"), format!("stop {pid}")]);
}

#[test]
fn workers_are_recycled_without_a_failed_request() {
    let keys = "workers = { min = 2, max = 2 }\nrecycle = { jobs = 50 }";
    let server = pool(TOOLBOX, keys).start();
    let load = Load::on(&server, "/echo").connections(8);
    let running = load.start();
    wait_until("workers to end", || {
        noted(&server)
            .iter()
            .filter(|line| line.starts_with("stop"))
            .count()
            >= 4
    });
    load.end();
    let report = running.join().expect("the load does not panic");
    report.assert_each_answered(&[200]);
}

#[test]
fn a_worker_sees_the_environment_and_the_folder_that_the_pool_gives_it() {
    let keys = "env = { GIVEN = \"yes\" }\nenv_pass = [\"PASSED\"]\ncwd = \"sub\"";
    let server = pool(TOOLBOX, keys)
        .file("sub/x", "")
        .env("PASSED", "too")
        .env("HIDDEN", "no")
        .start();
    for (name, value) in [("GIVEN", "\"yes\""), ("PASSED", "\"too\""), ("HIDDEN", "null")] {
        let answer = server.get(&format!("/env/{name}"));
        let cwd = server.folder().path().join("sub");
        assert_eq!(
            answer.text(),
            format!("{{\"value\":{value},\"cwd\":\"{}\"}}", cwd.display())
        );
    }
}

#[test]
fn a_changed_file_reloads_and_no_compiled_one_does() {
    let source = "from forebay import App\nfrom lib import word\napp = App()\napp.get('/')(lambda: word)\n";
    let server = pool(source, ONE_WORKER)
        .file("lib.py", "word = 'one'\n")
        .argument("--watch")
        .start();
    assert_eq!(server.get("/").text(), "one");
    let worker = server.workers()[0];
    // Of the same length and, twice, within a second: that is all by which Python recognises a changed source.
    for word in ["two", "six", "ten"] {
        server.folder().write("lib.py", format!("word = '{word}'\n"));
        wait_until("the changed word", || server.get("/").text() == word);
    }
    wait_until("the old worker to end", || !worker.is_alive());
}

#[test]
fn a_start_module_runs_first() {
    let source = "from forebay import App\nimport os\napp = App()\napp.get('/')(lambda request, ctx: {'early': os.environ['EARLY'], 'hook': ctx.state.hook})\n";
    let start = "import os\nos.environ['EARLY'] = 'set'\ndef on_start(ctx):\n    ctx.state.hook = 'ran'\n";
    let server = pool(source, "start = \"begin.py\"")
        .file("begin.py", start)
        .start();
    assert_eq!(server.get("/").text(), "{\"early\":\"set\",\"hook\":\"ran\"}");
}

#[test]
fn a_handler_that_cannot_start_says_why_and_what_to_do() {
    let app = "from forebay import App\napp = App()\n";
    for (handler, source, said) in [
        (
            "app.py",
            "import nosuchthing\n",
            &[
                "cannot import",
                "No module named 'nosuchthing'",
                "install what is missing there",
                "python = ",
            ][..],
        ),
        ("app.py", "exec('def broken(:')\n", &["SyntaxError", "app.py"]),
        (
            "app.py",
            "raise RuntimeError('at import')\n",
            &["RuntimeError: at import"],
        ),
        (
            "app.py",
            "x = 1\n",
            &["has no application", "`app`, `application` or `handler`"],
        ),
        (
            "app.py",
            "def create_app():\n    pass\n",
            &["handler = \\\"app.py:create_app()\\\""],
        ),
        (
            "app.py:web",
            app,
            &["has no object `web`", "handler = \\\"app.py:app\\\""],
        ),
        ("app.py", "app = 7\n", &["is a int", "interface = \\\"wsgi\\\""]),
        ("no.such:app", app, &["cannot import no.such", "cwd"]),
        (
            "app.py",
            "from forebay import App\napp = App()\n@app.on_start\ndef no():\n    raise ValueError('in the hook')\n",
            &["ValueError: in the hook"],
        ),
        (
            "app.py",
            "import sys\nsys.exit(3)\n",
            &["ended the process while it was imported"],
        ),
        (
            "json.py",
            "app = 1\n",
            &["has the name of another module, `json`"],
        ),
    ] {
        let file = if handler.starts_with("json") {
            "json.py"
        } else {
            "app.py"
        };
        let server = Setup::new(&format!(
            "[pool.api]\nhandler = \"{handler}\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
        ))
        .file(file, source)
        .start();
        server.wait_for_log(&[&["worker did not start"][..], said].concat());
        assert_eq!(server.get("/").status, 503, "{handler}: {source}");
    }
}

#[test]
fn an_interpreter_that_is_too_old_is_told_apart() {
    let old = "#!/bin/sh\nexec python3 -c 'import sys, runpy\nsys.version_info = (3, 8, 1, \"final\", 0)\nrunpy.run_path(sys.argv[1], run_name=\"__main__\")' \"$@\"\n";
    let setup = pool(TOOLBOX, "python = \"./old\"").file("old", old);
    let file = setup.folder().path().join("old");
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = setup.start();
    server.wait_for_log(&["this is Python 3.8", "workers need Python 3.9 or newer"]);
}
