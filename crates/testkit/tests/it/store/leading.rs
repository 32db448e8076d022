//! The store as the server has it open: exclusively, for its lifetime, and for its workers.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use forebay_store::{Options, Store};
use forebay_testkit::{Client, Folder, wait_until};

use super::{OPEN, config, indexes::refused, put, reload, send, setup, start};
use crate::support::metric;

#[test]
fn a_second_server_is_refused_with_the_firsts_pid() {
    let folder = Folder::new();
    let keys = format!("path = \"{}\"", folder.path().display());
    let mut first = setup(&keys, "").start();
    put(&mut first.connect(), "/store/Open/1", "1");
    let second = Folder::new();
    second.write(
        "forebay.toml",
        format!(
            "[server]\nlisten = [\"127.0.0.1:0\"]\n[admin]\nlisten = \"off\"\nsocket = \"off\"\n{}",
            config(&keys, OPEN, "")
        ),
    );
    let mut refused = Command::new(fs::read_link(format!("/proc/{}/exe", first.process().pid)).unwrap())
        .args(["serve", "-c"])
        .arg(second.path().join("forebay.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A refused server ends without a ready line; any other is killed below.
    let mut ready = String::new();
    BufReader::new(refused.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    // It may have ended by itself.
    let _ = refused.kill();
    let output = refused.wait_with_output().unwrap();
    assert_eq!(ready, "", "a second server has started");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = format!(" open (process {})", first.process().pid);
    assert!(said.contains(&expected), "{said}");
    // The lock is released when its holder ends, however that happens.
    first.kill();
    let again = setup(&keys, "").start();
    assert_eq!(again.get("/store/Open/1").text(), "1");
}

#[test]
fn a_reload_keeps_the_store_open_and_takes_new_rules() {
    let server = start();
    put(&mut server.connect(), "/store/Open/1", "1");
    assert_eq!(server.get("/store/Late/1").status, 403);
    let rules = format!("{OPEN}Late = {{ read = \"public\" }}\n");
    server.reconfigure(&config("", &rules, ""));
    assert_eq!(reload(&server).status, 200);
    assert_eq!(server.get("/store/Late/1").status, 404);
    assert_eq!(server.get("/store/Open/1").text(), "1");
    for keys in [
        "path = \"elsewhere\"",
        "durability = \"relaxed\"",
        "value_bytes_max = \"1KiB\"",
        "queue_max = 1",
    ] {
        server.reconfigure(&config(keys, OPEN, ""));
        let refused = reload(&server);
        assert!(refused.status >= 400, "{keys}: {refused:?}");
        assert!(
            refused
                .text()
                .contains("store has changed, which takes an upgrade or a restart"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(server.get("/store/Late/1").status, 404);
    assert!(!server.folder().path().join("elsewhere").exists());
}

#[test]
fn an_orderly_end_keeps_relaxed_writes_and_a_write_under_way() {
    let folder = Folder::new();
    let keys = format!(
        "path = \"{}\"\ndurability = \"relaxed\"\nflush_interval = \"1m\"",
        folder.path().display()
    );
    let mut server = setup(&keys, "").start();
    // As long as another process has the store open, unflushed commits stay unflushed.
    let options = Options {
        lead: false,
        create: false,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    put(&mut server.connect(), "/store/Open/1", "1");
    assert!(store.stats().unwrap().not_checkpointed_bytes > 0);
    let held = store.begin().unwrap();
    let mut writing = server.connect();
    send(&mut writing, "PUT", "/store/Open/2", &[], b"2");
    wait_until("the write to wait", || {
        metric(&server, "forebay_store_queue_writes") == 1
    });
    server.terminate();
    let address = server.address();
    wait_until("the server to take no more", || Client::try_tcp(address).is_err());
    assert!(
        !writing.is_readable_within(Duration::from_millis(200)),
        "the write has not been done yet"
    );
    drop(held);
    assert_eq!(writing.response().status, 201);
    assert!(server.wait().success());
    assert_eq!(store.stats().unwrap().not_checkpointed_bytes, 0);
    let server = setup(&keys, "").start();
    assert_eq!(server.get("/store/Open/1").text(), "1");
    assert_eq!(server.get("/store/Open/2").text(), "2");
}

/// The permissions of everything below a folder, by path.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        found.push((
            path.clone(),
            fs::metadata(&path)
                .expect("the folder can be read")
                .permissions()
                .mode()
                & 0o777,
        ));
        if path.is_dir() {
            found.append(&mut modes(&path));
        }
    }
    found
}

#[test]
fn only_its_owner_may_use_what_is_in_the_folder_of_a_store() {
    let folder = Folder::new();
    let data = folder.path().join("data");
    let keys = format!("path = \"{}\"", data.display());
    let only_owner = || {
        let found = modes(&data);
        assert!(found.len() > 4, "{found:?}");
        for (path, mode) in found {
            assert_eq!(
                mode,
                if path.is_dir() { 0o700 } else { 0o600 },
                "{}",
                path.display()
            );
        }
        assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    };
    let server = setup(&keys, "").start();
    put(&mut server.connect(), "/store/Open/1", "1");
    only_owner();
    drop(server);
    for (path, _) in modes(&data) {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = setup(&keys, "").start();
    server.wait_for_log(&["data/changes/", "was open to others (mode 755)"]);
    only_owner();
    assert_eq!(server.get("/store/Open/1").text(), "1");
}

#[test]
fn a_server_does_not_begin_an_empty_store_beside_the_log_of_another() {
    let program = setup("path = \"other\"", "").start();
    for bytes in [None, Some(0), Some(8 << 10)] {
        let folder = Folder::new();
        let data = folder.path().join("data");
        let keys = format!("path = \"{}\"", data.display());
        let mut server = setup(&keys, "").start();
        for number in 0..340 {
            put(&mut server.connect(), "/store/Open/1", &number.to_string());
        }
        server.kill();
        drop(server);
        let tree = data.join("store.mdbx");
        match bytes {
            None => fs::remove_file(&tree).unwrap(),
            Some(bytes) => fs::File::options()
                .write(true)
                .open(&tree)
                .unwrap()
                .set_len(bytes)
                .unwrap(),
        }
        let said = refused(&program, &keys);
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(
            said.contains("has changes 1 to 340") && said.contains("forebay store restore"),
            "{said}"
        );
        assert_eq!(fs::read_dir(data.join("changes")).unwrap().count(), 1);
    }
}
