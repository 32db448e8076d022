//! `forebay store index`.

use forebay_testkit::Folder;

use crate::store_nodes::{done, fed, store};

#[test]
fn indexes_are_made_listed_and_dropped() {
    let folder = Folder::new();
    done(
        &folder,
        &[
            "set",
            "Person/data",
            r#"{"1":{"name":"Rob","tags":["x","y"]},"2":{"name":"Ada","tags":["y"]}}"#,
        ],
    );
    assert_eq!(done(&folder, &["index", "list"]), "");
    done(
        &folder,
        &["index", "define", "by-name", "^Person(\"data\")", "name"],
    );
    done(
        &folder,
        &[
            "index",
            "define",
            "by-tag",
            "Person/data",
            "tags.*",
            "\"a.b\".c",
            "--unique",
        ],
    );
    // Defining the same index again is neither an error nor a change.
    let before = done(&folder, &["stats", "--json"]);
    done(&folder, &["index", "define", "by-name", "Person/data", "name"]);
    assert_eq!(done(&folder, &["stats", "--json"]), before);
    let all = "by-name\tPerson/data\tname\nby-tag\tPerson/data\ttags.*, \"a.b\".c\tunique\n";
    assert_eq!(done(&folder, &["index", "list"]), all);
    assert_eq!(done(&folder, &["query"]), all);
    done(&folder, &["set", "Person/data/3/name", "Bob", "--string"]);
    assert_eq!(
        done(&folder, &["query", "by-name", "--paths"]),
        "Person/data/2\nPerson/data/3\nPerson/data/1\n"
    );
    done(&folder, &["index", "drop", "by-name"]);
    assert_eq!(
        done(&folder, &["index", "list"]),
        "by-tag\tPerson/data\ttags.*, \"a.b\".c\tunique\n"
    );
    assert_eq!(done(&folder, &["get", "Person/data/3/name"]), "\"Bob\"\n");
    // Also as words of a shell, which has its own quotes.
    let shell = fed(
        &folder,
        &["shell"],
        "index define by-name Person/data name\nindex list\n",
    );
    assert_eq!((shell.code, shell.out.lines().count()), (0, 2), "{shell:?}");
}

#[test]
fn an_index_that_cannot_be_is_refused() {
    let folder = Folder::new();
    let define = |words: &[&str]| store(&folder, &[&["index", "define"], words].concat());
    let wrong = define(&["x", "G", "a..b"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            2,
            "error: \"a..b\" is no field such as `lastName`, `address.city` or `tags.*`\n  because: a name is missing (an empty one is written `\"\"`) at byte 2\n"
        )
    );
    let wrong = define(&["x", "G", "a.*", "b.*"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (1, "error: index `x`: `*` can stand only once in its fields\n")
    );
    assert!(
        !folder.path().join("data").exists(),
        "nothing was made for what cannot be"
    );
    done(&folder, &["set", "G", r#"{"1":{"a":5},"2":{"a":5}}"#]);
    let wrong = define(&["x", "G", "a", "--unique"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            1,
            "error: index `x` is unique, and record 1 has the same values\n"
        )
    );
    assert_eq!(define(&["x", "G", "a"]).code, 0);
    let wrong = define(&["x", "G", "b"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            1,
            "error: index `x`: there is another index of this name; drop that first\n"
        )
    );
    let none = store(&folder, &["index", "drop", "y"]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (
            1,
            "error: index `y`: there is no such index; `forebay store index list` prints all\n"
        )
    );
}
