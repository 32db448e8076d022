use forebay_testkit::Folder;

use crate::run::{Serving, run};

#[test]
fn a_new_folder_checks_and_serves_at_once() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "apps/first"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(
        ended.out.ends_with("next: cd apps/first && forebay serve\n"),
        "{}",
        ended.out
    );
    let app = folder.path().join("apps/first");
    assert_eq!(run(&app, &["check"]).code, 0);
    let serving = Serving::start(&app, &[]);
    assert_eq!(serving.get("/").text(), "{\"hello\":\"world\"}");
    assert_eq!(serving.get("/hello/ada").text(), "{\"hello\":\"ada\"}");
    assert_eq!(
        serving.get("/local").text(),
        "{\"status\":\"success\",\"result\":\"local\"}"
    );
    let mut client = serving.connect();
    client.post("/sum", b"[1, 2, 3]");
    assert_eq!(client.response().text(), "{\"sum\":6}");
}

#[test]
fn nothing_is_ever_overwritten() {
    let folder = Folder::new();
    folder.write("app/notes.txt", "mine");
    let ended = run(folder.path(), &["new", "app"]);
    assert_eq!(ended.code, 1);
    assert_eq!(
        ended.err,
        "error: app is not empty, and nothing is ever overwritten\n"
    );
    assert_eq!(folder.read("app/notes.txt").unwrap(), "mine");
    assert!(folder.read("app/forebay.toml").is_none());
    folder.write("file", "");
    assert!(
        run(folder.path(), &["new", "file"])
            .err
            .starts_with("error: cannot write to file\n  because: ")
    );
}

#[test]
fn the_folder_one_is_in_will_do_when_it_is_empty() {
    let folder = Folder::new();
    let ended = run(folder.path(), &["new", "."]);
    assert_eq!(ended.code, 0);
    assert!(ended.out.ends_with("next: forebay serve\n"), "{}", ended.out);
    assert!(folder.read("handlers/api.mjs").is_some());
}
