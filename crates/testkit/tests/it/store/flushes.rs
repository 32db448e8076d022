//! A disk that fails to flush.

use forebay_testkit::wait_until;

use super::{ask, disk::Disk, put, setup, text};

#[test]
fn after_a_failed_flush_nothing_is_written_and_everything_can_be_read() {
    let disk = Disk::new();
    let server = disk.under(setup("flush_interval = \"1m\"", "")).start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/1", "1");
    assert_eq!(server.admin().get("/health/ready").status, 200);

    disk.refuse();
    let unknown = ask(
        &mut client,
        "PUT",
        "/store/Open/1",
        &[("x-request-id", "unsafe-1")],
        b"2",
    );
    assert_eq!(unknown.status, 500, "{unknown:?}");
    assert!(unknown.text().contains("committed, but the flush"), "{unknown:?}");
    server.wait_for_log(&["the store fails", "committed, but the flush", "unsafe-1"]);

    // The system accepts flushes again, but may have dropped any of the earlier writes.
    disk.refuse_no_more();
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

#[test]
fn a_store_whose_commits_fail_is_not_ready_until_one_succeeds() {
    let server = setup("", "").start();
    let ready = || server.admin().get("/health/ready");
    assert_eq!(ready().status, 200);
    // The log can be neither opened nor written.
    let log = server.folder().path().join("data/changes");
    std::fs::write(&log, "in the way").unwrap();
    let refused = ask(&mut server.connect(), "PUT", "/store/Open/1", &[], b"1");
    assert_eq!(refused.status, 500, "{refused:?}");
    let failing = ready();
    assert_eq!(failing.status, 503, "{failing:?}");
    assert!(failing.text().contains("changes"), "{failing:?}");
    // The server notices that it can write again without a write by a client.
    std::fs::remove_file(&log).unwrap();
    wait_until("the store to be ready", || ready().status == 200);
    put(&mut server.connect(), "/store/Open/1", "2");
    assert_eq!(ready().status, 200);
    assert_eq!(text(&mut server.connect(), "/store/Open/1"), "2");
}
