//! A disk that does not take what is flushed. A library that the server is started with refuses flushes while a file is there.

use std::{fs, process::Command};

use forebay_testkit::Folder;

use super::{ask, put, setup, text};

const REFUSES_FLUSHES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int file)
{
    if (access(getenv("REFUSE_FLUSHES"), F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
    return real(file);
}
"#;

#[test]
fn after_a_failed_flush_nothing_is_written_and_everything_can_be_read() {
    let tools = Folder::new();
    tools.write("refuses.c", REFUSES_FLUSHES);
    let library = tools.path().join("refuses.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(tools.path().join("refuses.c"))
        .arg("-ldl")
        .status()
        .expect("a C compiler is needed to build the server, too");
    assert!(compiled.success());
    let refuse = tools.path().join("refuse");
    let server = setup("flush_interval = \"1m\"", "")
        .env("LD_PRELOAD", library.to_str().unwrap())
        .env("REFUSE_FLUSHES", refuse.to_str().unwrap())
        .start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/1", "1");
    assert_eq!(server.admin().get("/health/ready").status, 200);

    fs::write(&refuse, "").unwrap();
    let unknown = ask(&mut client, "PUT", "/store/Open/1", &[], b"2");
    assert_eq!(unknown.status, 500, "{unknown:?}");
    assert!(unknown.text().contains("committed, but the flush"), "{unknown:?}");

    // The system takes flushes again, but nobody knows what it has let go of.
    fs::remove_file(&refuse).unwrap();
    let refused = ask(&mut client, "PUT", "/store/Open/1", &[], b"3");
    assert_eq!(refused.status, 500, "{refused:?}");
    assert!(
        refused.text().contains("until the store is opened anew"),
        "{refused:?}"
    );
    assert_eq!(text(&mut client, "/store/Open/1"), "2");
    let ready = server.admin().get("/health/ready");
    assert_eq!(ready.status, 503, "{ready:?}");
    assert!(ready.text().contains("\"store\":{\"reason\":"), "{ready:?}");
}
