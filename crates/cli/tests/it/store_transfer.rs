//! `forebay store export` and `import`.

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use forebay_testkit::{Folder, wait_for};

use crate::{
    run::forebay,
    store_nodes::{done, fed, store},
};

const PEOPLE: &str = r#"{"1":{"name":"Rob","tags":["a",1.50,{}]},"2":{"name":"Eve \u00e9\n","ok":true}}"#;

#[test]
fn an_export_imported_elsewhere_is_the_same_store() {
    let folder = Folder::new();
    done(&folder, &["set", "Person/data", PEOPLE]);
    done(&folder, &["set", "Person/data/1/tags", "\"own\""]);
    done(&folder, &["set", "Other/007", "[]"]);
    let all = done(&folder, &["export", "--nodes"]);
    assert_eq!(all.lines().count(), 8, "{all}");
    for (file, more) in [
        ("short.ndjson", &[][..]),
        ("long.ndjson", &["--nodes"]),
        ("m.zwr", &[]),
        ("m.txt", &["--format", "zwr"]),
    ] {
        let told = store(&folder, &[&["export", "--to", file], more].concat());
        assert_eq!(told.code, 0, "{told:?}");
        assert!(told.err.starts_with(&format!("{file}: ")), "{told:?}");
        assert!(!folder.path().join(format!("{file}.part")).exists());
        let target = format!("{file}-data");
        let read = store(&folder, &["import", file, "--data", &target]);
        assert_eq!(read.code, 0, "{read:?}");
        assert_eq!(
            done(&folder, &["export", "--nodes", "--data", &target]),
            all,
            "{file}"
        );
        assert!(done(&folder, &["verify", "--data", &target]).starts_with("sound: "));
    }
    assert_eq!(
        done(&folder, &["export", "Other", "Person/data/2", "--nodes"]),
        "{\"path\":[\"Other\",\"007\"],\"value\":[]}\n\
         {\"path\":[\"Person\",\"data\",2,\"name\"],\"value\":\"Eve é\\n\"}\n\
         {\"path\":[\"Person\",\"data\",2,\"ok\"],\"value\":true}\n"
    );
    let piped = fed(&folder, &["import", "-", "--data", "piped"], &all);
    assert_eq!(piped.code, 0, "{piped:?}");
    assert!(piped.err.contains("\n8 lines, "), "{piped:?}");
    assert_eq!(done(&folder, &["export", "--nodes", "--data", "piped"]), all);
}

#[test]
fn a_line_that_fails_is_named_and_the_import_can_go_on_there() {
    let folder = Folder::new();
    let mut lines = String::new();
    for number in 1..=25_000 {
        let value = if number == 20_500 { "oops" } else { "1" };
        writeln!(lines, "{{\"path\":[\"G\",{number}],\"value\":{value}}}").unwrap();
    }
    folder.write("in.ndjson", &lines);
    let failed = store(&folder, &["import", "in.ndjson"]);
    assert_eq!(failed.code, 1);
    assert!(
        failed.err.contains("error: line 20500: not JSON that can be kept: no JSON value begins like this at byte 28; the lines up to 20000 are in the store"),
        "{failed:?}"
    );
    assert_eq!(done(&folder, &["ls", "--count"]), "G\t20000\n");
    folder.write("in.ndjson", lines.replace("oops", "1"));
    done(
        &folder,
        &["import", "in.ndjson", "--replace", "--from-line", "20001"],
    );
    assert_eq!(done(&folder, &["ls", "--count"]), "G\t25000\n");
    done(&folder, &["set", "G/old", "true"]);
    done(&folder, &["import", "in.ndjson"]);
    assert_eq!(done(&folder, &["get", "G/old"]), "true\n");
    done(&folder, &["import", "in.ndjson", "--replace"]);
    assert_eq!(store(&folder, &["get", "G/old"]).code, 4);
}

#[test]
fn what_cannot_be_exported_or_read_is_told() {
    let folder = Folder::new();
    done(&folder, &["set", "my-global/a", "true"]);
    let zwr = store(&folder, &["export", "--to", "x.zwr"]);
    assert_eq!(zwr.code, 1);
    assert!(
        zwr.err.contains("global `my-global` cannot be written as ZWR"),
        "{zwr:?}"
    );
    assert!(!folder.path().join("x.zwr").exists() && !folder.path().join("x.zwr.part").exists());
    for words in [
        &["export", "--lossy"][..],
        &["export", "--format", "zwr", "--nodes"],
    ] {
        assert_eq!(store(&folder, words).code, 2, "{words:?}");
    }
    let absent = store(&folder, &["import", "none.ndjson"]);
    assert_eq!(absent.code, 1);
    assert!(
        absent
            .err
            .starts_with("error: cannot read none.ndjson\n  because: No such file"),
        "{absent:?}"
    );
    let full = forebay(folder.path(), &["store", "export"])
        .stdout(OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&full.stderr).into_owned();
    assert!(complaint.contains("No space left on device"), "{complaint}");
}

#[test]
fn an_export_ends_well_when_its_reader_has_enough() {
    let folder = Folder::new();
    let mut lines = String::new();
    for number in 0..20_000 {
        writeln!(lines, "{{\"path\":[\"G\",{number}],\"value\":\"some text\"}}").unwrap();
    }
    assert_eq!(fed(&folder, &["import", "-"], &lines).code, 0);
    let mut child = forebay(folder.path(), &["store", "export", "--nodes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(100, child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(first, "{\"path\":[\"G\",0],\"value\":\"some text\"}\n");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), ended.stderr.len()),
        (Some(0), 0),
        "{ended:?}"
    );
}

#[test]
fn a_terminal_shows_how_far_an_import_is() {
    let folder = Folder::new();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let line = format!("{} store import pipe", env!("CARGO_BIN_EXE_forebay"));
    let mut child = Command::new("script")
        .args(["--quiet", "--flush", "--return", "--command", &line, "/dev/null"])
        .current_dir(folder.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let screen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let (shown, mut output) = (screen.clone(), child.stdout.take().unwrap());
    let reader = thread::spawn(move || {
        let mut read = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut read) {
            shown.lock().unwrap().extend_from_slice(&read[..count]);
        }
    });
    let seen = || String::from_utf8_lossy(&screen.lock().unwrap()).into_owned();
    let mut input = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let lines = "{\"path\":[\"G\"],\"value\":1}\n".repeat(10_000);
    wait_for("the bar", || {
        input.write_all(lines.as_bytes()).unwrap();
        seen().contains("\r\u{1b}[Kimport ").then_some(())
    });
    drop(input);
    let status = wait_for("the import to end", || child.try_wait().unwrap());
    reader.join().unwrap();
    assert!(status.success(), "{}", seen());
    assert!(
        seen().contains(" lines, ") && seen().contains(" in "),
        "{}",
        seen()
    );
}
