//! `examples/seeds`: the documents that this server grew from. Every route that their command lines ask for answers, where they ask for it.

use std::path::{Path, PathBuf};

use forebay_testkit::{Folder, Postgres};

use crate::{
    run::{Serving, forebay, run},
    showcase::examples,
};

/// A copy of one of the examples, with the folder to serve.
fn seed(name: &str) -> (Folder, PathBuf) {
    let folder = examples();
    let seed = folder.path().join("seeds").join(name);
    (folder, seed)
}

fn import(folder: &Path) {
    let imported = run(folder, &["store", "import", "seed.ndjson", "--data", "data"]);
    assert_eq!(imported.code, 0, "{}", imported.err);
}

#[test]
fn each_listens_where_its_document_asks_on_both_protocols_of_the_internet() {
    for (name, port) in [
        ("qoper8", 3000),
        ("mgweb", 8080),
        ("wabur", 6363),
        ("rengine", 28002),
        ("pgasync", 8080),
    ] {
        let (_folder, seed) = seed(name);
        let mut check = forebay(&seed, &["check"]);
        check.env("FOREBAY_PG_URL", "postgres://nobody@127.0.0.1:1/nothing");
        let printed = String::from_utf8(check.output().unwrap().stdout).unwrap();
        let listens = format!("listen = [\"127.0.0.1:{port}\", \"[::1]:{port}\"]");
        assert!(printed.contains(&listens), "{name}: {printed}");
        assert!(printed.contains("level = \"error\""), "{name}: {printed}");
    }
}

#[test]
fn qoper8_has_a_route_in_memory_and_one_of_a_worker() {
    let (_folder, seed) = seed("qoper8");
    let serving = Serving::start(&seed, &[]);
    let local = serving.get("/local");
    assert_eq!(local.text(), "{\"status\":\"success\",\"result\":\"local\"}");
    assert_eq!(serving.get("/helloworld").text(), "{\"hello\":\"world\"}");
}

#[test]
fn mgweb_reads_the_person_that_was_imported() {
    let (_folder, seed) = seed("mgweb");
    import(&seed);
    let serving = Serving::start(&seed, &[]);
    assert_eq!(serving.get("/local").status, 200);
    let helloworld = serving.get("/mgweb/helloworld");
    assert_eq!(helloworld.text(), "{\"hello\":\"world 123\"}");
    for path in ["/mgweb/userx/1", "/mgweb/user/1"] {
        let rob = "{\"key\":\"1\",\"data\":{\"firstName\":\"Rob\",\"lastName\":\"Tweed\"}}";
        assert_eq!(serving.get(path).text(), rob, "{path}");
    }
}

#[test]
fn wabur_has_its_record_by_every_path() {
    let (_folder, seed) = seed("wabur");
    import(&seed);
    let serving = Serving::start(&seed, &[]);
    let record =
        "{\"kind\":\"Article\",\"text\":\"Just some text, and a little more.\",\"title\":\"Sample 11\"}";
    assert_eq!(serving.get("/json/000000000000000b").text(), record);
    for path in ["/e1/Article/11", "/v1/Article/11", "/n1/Article/11"] {
        let answer = format!("{{\"code\":0,\"results\":[{{\"id\":11,\"data\":{record}}}]}}");
        assert_eq!(serving.get(path).text(), answer, "{path}");
    }
}

#[test]
fn rengine_runs_the_workflow_of_its_request_file() {
    let (_folder, seed) = seed("rengine");
    let serving = Serving::start(&seed, &[]);
    let url = format!("http://{}/execute/internal/workflow", serving.address());
    let words = ["load", "ab", "-p", "benchmark1.json", "-T", "application/json"];
    let ended = run(&seed, &[&words[..], &["-n", "20", "-c", "10", &url]].concat());
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("20"), "{}", ended.out);
}

#[test]
fn pgasync_reads_ten_rows_by_both_drivers() {
    let (_folder, seed) = seed("pgasync");
    let database = Postgres::start();
    let mut command = forebay(&seed, &["serve", "--admin", "off", "--listen", "127.0.0.1:0"]);
    command.env("FOREBAY_PG_URL", database.url());
    let serving = Serving::spawn(&seed, command);
    for path in ["/queries?queries=10", "/queries2?queries=10"] {
        let answer = serving.get(path);
        assert_eq!(
            answer.text().matches("randomNumber").count(),
            10,
            "{path}: {answer:?}"
        );
    }
}
