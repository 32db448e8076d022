//! `forebay store get`, `set`, `kill`, `tree`, `ls` and `stats`.

use std::{io::Write as _, process::Stdio};

use forebay_testkit::Folder;

use crate::run::{Ended, ended, forebay, run};

/// Runs `forebay store` with these words.
pub(crate) fn store(folder: &Folder, words: &[&str]) -> Ended {
    run(folder.path(), &[&["store"], words].concat())
}

/// As [`store`], but it must succeed; returns its output.
pub(crate) fn done(folder: &Folder, words: &[&str]) -> String {
    let ended = store(folder, words);
    assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
    ended.out
}

/// As [`store`], with text on standard input.
pub(crate) fn fed(folder: &Folder, words: &[&str], input: &str) -> Ended {
    let mut child = forebay(folder.path(), &[&["store"], words].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ended(&child.wait_with_output().unwrap())
}

#[test]
fn what_is_set_is_got_by_either_way_of_naming_it() {
    let folder = Folder::new();
    let made = store(
        &folder,
        &["set", "Person/data/1", r#"{"first name":"Rob","x":1.50}"#],
    );
    assert_eq!((made.code, made.err.as_str()), (0, "made a new store in data\n"));
    done(&folder, &["set", "^Person(\"nextId\")", "-5"]);
    assert_eq!(
        done(&folder, &["get", "Person"]),
        "{\"data\":{\"1\":{\"first name\":\"Rob\",\"x\":1.50}},\"nextId\":-5}\n"
    );
    for path in ["Person/data/1/first%20name", "^Person(\"data\",1,\"first name\")"] {
        assert_eq!(done(&folder, &["get", path]), "\"Rob\"\n");
        assert_eq!(done(&folder, &["get", path, "--raw"]), "Rob\n");
    }
    assert_eq!(
        done(&folder, &["get", "Person/data/1", "--raw"]),
        "{\"first name\":\"Rob\",\"x\":1.50}\n"
    );
}

#[test]
fn a_value_comes_from_standard_input_and_a_text_needs_no_quotes() {
    let folder = Folder::new();
    assert_eq!(fed(&folder, &["set", "G/a", "-"], " [1,\n 2] ").code, 0);
    done(&folder, &["set", "G/b", "it's \"x\"", "--string"]);
    done(&folder, &["set", "--string", "G/c", "--", "-x"]);
    done(&folder, &["set", "G/d", "-1.5e3"]);
    assert_eq!(
        done(&folder, &["get", "G"]),
        "{\"a\":[1,2],\"b\":\"it's \\\"x\\\"\",\"c\":\"-x\",\"d\":-1.5e3}\n"
    );
}

#[test]
fn a_node_that_is_not_there_ends_with_4() {
    let folder = Folder::new();
    done(&folder, &["set", "G/a/b", "1"]);
    for (words, complaint) in [
        (&["get", "G/none"][..], "error: there is no node ^G(\"none\")\n"),
        (&["kill", "None", "--yes"], "error: there is no node ^None\n"),
        (&["tree", "G/x"], "error: there is no node ^G(\"x\")\n"),
        (&["ls", "G/x"], "error: there is no node ^G(\"x\")\n"),
        (&["export", "G", "None"], "error: there is no node ^None\n"),
        (
            &["get", "G/a", "--value"],
            "error: node ^G(\"a\") has no value of its own, only children\n  try: without `--value` for the document of its children\n",
        ),
    ] {
        let ended = store(&folder, words);
        assert_eq!(
            (ended.code, ended.out.as_str(), ended.err.as_str()),
            (4, "", complaint),
            "{words:?}"
        );
    }
}

#[test]
fn a_node_can_have_a_value_and_children() {
    let folder = Folder::new();
    done(&folder, &["set", "G/a", "[1]"]);
    done(&folder, &["set", "G/a", "\"own\""]);
    assert_eq!(done(&folder, &["get", "G/a"]), "[1]\n");
    assert_eq!(done(&folder, &["get", "G/a", "--value"]), "\"own\"\n");
}

#[test]
fn what_a_kill_would_remove_is_told_before_it_is_done() {
    let folder = Folder::new();
    done(&folder, &["set", "G", r#"{"a":{"b":1,"c":[2,3]},"d":4}"#]);
    let asked = store(&folder, &["kill", "G/a"]);
    assert_eq!(
        (asked.code, asked.err.as_str()),
        (
            2,
            "error: `kill` would remove 3 values at ^G(\"a\"); `--yes` does it\n"
        )
    );
    assert_eq!(done(&folder, &["get", "G/a/b"]), "1\n");
    done(&folder, &["kill", "G/a", "--yes"]);
    assert_eq!(done(&folder, &["get", "G"]), "{\"d\":4}\n");
}

#[test]
fn without_a_store_nothing_is_made_by_reading_or_by_a_wrong_value() {
    let folder = Folder::new();
    for words in [
        &["get", "G"][..],
        &["kill", "G", "--yes"],
        &["ls"],
        &["stats"],
        &["verify"],
        &["compact"],
        &["backup", "there"],
        &["export"],
    ] {
        let ended = store(&folder, words);
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{words:?}");
        assert_eq!(
            ended.err,
            "error: there is no store in data\n  try: `--data DIR` for a store elsewhere; `store set` and `store import` make a new one\n",
            "{words:?}"
        );
    }
    let wrong = store(&folder, &["set", "G", "text"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("at byte 0; `--string` sets VALUE as a text"),
        "{wrong:?}"
    );
    let path = store(&folder, &["get", "G//x"]);
    assert_eq!(path.code, 2);
    assert!(
        path.err
            .contains("an empty subscript between `/` is written as M does"),
        "{path:?}"
    );
    assert!(!folder.path().join("data").exists());
}

#[test]
fn trees_and_lists_show_what_is_there_and_no_more_than_asked_for() {
    let folder = Folder::new();
    done(
        &folder,
        &[
            "set",
            "Person",
            r#"{"data":{"1":{"name":"Rob","tags":["x"]},"2":{"name":"Eve"}},"a/b":null}"#,
        ],
    );
    done(&folder, &["set", "Person/data", "7"]);
    done(&folder, &["set", "Zip/10", "\"old\""]);
    assert_eq!(
        done(&folder, &["tree"]),
        r#"^Person
  a%2Fb = null
  data = 7
    1
      name = "Rob"
      tags []
        0 = "x"
    2
      name = "Eve"
^Zip
  10 = "old"
"#
    );
    assert_eq!(
        done(&folder, &["tree", "Person/data", "--depth", "1"]),
        "^Person(\"data\") = 7\n  1 ...\n  2 ...\n"
    );
    let cut = store(&folder, &["tree", "--limit", "2"]);
    assert_eq!(cut.out, "^Person\n  a%2Fb = null\n");
    assert_eq!(cut.err, "2 nodes shown; `--limit N` shows more\n");
    assert_eq!(done(&folder, &["ls"]), "Person\nZip\n");
    assert_eq!(done(&folder, &["ls", "--count"]), "Person\t5\nZip\t1\n");
    assert_eq!(done(&folder, &["ls", "Person"]), "a%2Fb\ndata\n");
    assert_eq!(
        done(&folder, &["ls", "Person/data", "--count", "--limit", "1"]),
        "1\t2\n"
    );
}

#[test]
fn an_index_leads_to_records() {
    let folder = Folder::new();
    let lines = r#"{"path":["Person","data"],"document":{"1":{"age":30,"name":"Rob"},"2":{"age":4,"name":"Eve"},"3":{"age":30,"name":"7"}}}
{"index":{"fields":[["age"],["name"]],"name":"by_age","records":["Person","data"],"unique":false}}
"#;
    assert_eq!(fed(&folder, &["import", "-"], lines).code, 0);
    assert_eq!(done(&folder, &["query"]), "by_age\tPerson/data\tage, name\n");
    for (words, expected) in [
        (&["30"][..], "Person/data/3\nPerson/data/1\n"),
        (&["30", "Rob"], "Person/data/1\n"),
        (&["30", "7"], ""),
        (&["30", "\"7\""], "Person/data/3\n"),
        (&["--to", "29"], "Person/data/2\n"),
        (&["--from", "5", "--reverse"], "Person/data/1\nPerson/data/3\n"),
        (&["--limit", "1"], "Person/data/2\n"),
        (&["30", "--from", "R"], "Person/data/1\n"),
    ] {
        assert_eq!(
            done(&folder, &[&["query", "by_age", "--paths"], words].concat()),
            expected,
            "{words:?}"
        );
    }
    assert_eq!(
        done(&folder, &["query", "by_age", "4"]),
        "Person/data/2\t{\"age\":4,\"name\":\"Eve\"}\n"
    );
    let absent = store(&folder, &["query", "none"]);
    assert_eq!(
        (absent.code, absent.err.as_str()),
        (1, "error: index `none`: there is no such index\n")
    );
}

#[test]
fn figures_are_told_to_people_and_to_programs() {
    let folder = Folder::new();
    done(&folder, &["set", "G", "1"]);
    let told = done(&folder, &["stats"]);
    assert!(told.contains("pages             4096 bytes each\n"), "{told}");
    assert!(told.ends_with("\nnot checkpointed  0 B\n"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&done(&folder, &["stats", "--json"])).unwrap();
    assert_eq!(json["page_bytes"], 4096);
    assert_eq!(json["not_checkpointed_bytes"], 0);
    assert!(json["last_commit"].as_u64().unwrap() > 0, "{json}");
}

#[test]
fn a_document_on_a_terminal_has_lines() {
    let folder = Folder::new();
    done(&folder, &["set", "G", r#"{"a":[1,{}],"b":"x"}"#]);
    let line = format!("{} store get G", env!("CARGO_BIN_EXE_forebay"));
    let shown = std::process::Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&shown.stdout).replace('\r', ""),
        "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x\"\n}\n"
    );
}
