//! `docs/guide/stdio.md`: its controllers as written there.

use forebay_testkit::{Load, Setup, blocks};
use serde_json::json;

const GUIDE: &str = include_str!("../../../../../docs/guide/stdio.md");

#[test]
fn the_controllers_of_the_guide_work_as_they_stand() {
    let config: String = blocks(GUIDE, "toml")
        .into_iter()
        .filter(|toml| !toml.contains("ruby") && !toml.contains("controller.mjs"))
        .collect();
    let mut setup = Setup::new(&config);
    for (language, name) in [("bash", "hello.sh"), ("awk", "count.awk"), ("python", "notes.py")] {
        let block = blocks(GUIDE, language)[0];
        assert!(block.contains(name), "the block says its name: {block}");
        assert!(block.lines().count() <= 12, "it is as short as it says");
        setup = setup.file(name, block);
    }
    let server = setup.start();
    assert_eq!(server.get("/hello/world").text(), "hello from /hello/world");
    for seen in 1..=3 {
        let answer = server.get("/count/a");
        assert_eq!(answer.json(), json!({"path": "/count/a", "seen": seen}));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    let noted = server.post("/notes/1", b"five!");
    assert_eq!((noted.status, noted.json()), (201, json!({"length": 5})));
    let bytes = server.post("/notes/1", b"\xff");
    assert_eq!((bytes.status, bytes.json()), (201, json!({"length": 0})));
    let refused = server.get("/notes/1");
    assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
}

#[test]
fn sixteen_requests_at_a_time_go_through_one_awk() {
    let toml = blocks(GUIDE, "toml");
    let config = toml.iter().find(|toml| toml.contains("awk")).unwrap();
    let server = Setup::new(config)
        .file("count.awk", blocks(GUIDE, "awk")[0])
        .start();
    // The controller does not return the bodies, so each response differs from its request; only the number of responses counts here.
    let report = Load::on(&server, "/count/x").connections(32).requests(2000).run();
    assert_eq!((report.with_status(200), report.unanswered), (2000, 0));
    assert_eq!(server.get("/count/x").json()["seen"], 2001);
}
