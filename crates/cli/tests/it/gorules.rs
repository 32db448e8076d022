//! The public test graphs of GoRules' engine, if they have been fetched: docs/guide/workflows.md says how.

use std::{fs, path::Path};

use forebay_testkit::Folder;
use serde_json::{Value, json};

use crate::run::{run, workspace};

/// The repository that has the graphs; Git ignores the folder.
const FETCHED: &str = "tests/gorules";
/// The time at which the results were recorded.
const NOW: &str = "2025-08-19T16:55:02.078Z";

/// Reads the tests within a graph's file, as stored tests of the workflow.
fn stored_tests(workflow: &str, file: &Path) -> Value {
    let graph: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let tests = graph["tests"].as_array().unwrap().iter().enumerate();
    let tests = tests.map(|(number, test)| {
        json!({"name": number.to_string(), "workflow": workflow, "args": test["input"], "expect": {"result": test["output"]}})
    });
    tests.collect()
}

#[test]
fn the_public_graphs_of_gorules_have_the_results_of_its_engine() {
    let graphs = workspace().join(FETCHED).join("test-data/graphs");
    let Ok(entries) = fs::read_dir(&graphs) else {
        println!("{} is absent: nothing was tested", graphs.display());
        return;
    };
    let folder = Folder::new();
    folder.write("forebay.toml", "[workflow]\npath = \"flows\"\n");
    let mut count = 0;
    for entry in entries {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        folder.write(&format!("flows/{name}.json"), fs::read_to_string(&file).unwrap());
        let tests = stored_tests(name, &file);
        count += tests.as_array().unwrap().len();
        folder.write(&format!("flows/tests/{name}.json"), tests.to_string());
    }
    assert!(count > 0, "{} has no tests", graphs.display());
    let ended = run(folder.path(), &["workflow", "test", "--now", NOW]);
    let holds = format!("{count} of {count} hold");
    assert!(
        ended.out.ends_with(&format!("{holds}\n")),
        "{}{}",
        ended.out,
        ended.err
    );
    println!("{holds}");
}
