//! Checks what ARCHITECTURE.md says of crates and folders against the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// `from -> to` of every dependency between crates of this workspace, without those of tests.
const ARROWS: [(&str, &str); 75] = [
    ("forebay", "forebay-bench"),
    ("forebay", "forebay-jobs"),
    ("forebay", "forebay-load"),
    ("forebay", "forebay-server"),
    ("forebay", "forebay-store"),
    ("forebay", "forebay-typescript"),
    ("forebay", "forebay-workflow"),
    ("forebay-acme", "forebay-http-client"),
    ("forebay-acme", "forebay-tls"),
    ("forebay-auth", "forebay-http-client"),
    ("forebay-auth", "forebay-tls"),
    ("forebay-bench", "forebay-load"),
    ("forebay-bench", "forebay-pool"),
    ("forebay-bench", "forebay-runtimes"),
    ("forebay-clients", "forebay-tls"),
    ("forebay-cluster", "forebay-jobs"),
    ("forebay-cluster", "forebay-pool"),
    ("forebay-cluster", "forebay-wire"),
    ("forebay-config", "forebay-acme"),
    ("forebay-config", "forebay-auth"),
    ("forebay-config", "forebay-clients"),
    ("forebay-config", "forebay-cluster"),
    ("forebay-config", "forebay-http-client"),
    ("forebay-config", "forebay-jobs"),
    ("forebay-config", "forebay-pg"),
    ("forebay-config", "forebay-records"),
    ("forebay-config", "forebay-router"),
    ("forebay-config", "forebay-runtimes"),
    ("forebay-config", "forebay-script"),
    ("forebay-config", "forebay-store"),
    ("forebay-config", "forebay-tls"),
    ("forebay-config", "forebay-upstream"),
    ("forebay-config", "forebay-workflow"),
    ("forebay-http-client", "forebay-tls"),
    ("forebay-jobs", "forebay-store"),
    ("forebay-node-native", "forebay-jobs"),
    ("forebay-node-native", "forebay-records"),
    ("forebay-node-native", "forebay-store"),
    ("forebay-pg", "forebay-tls"),
    ("forebay-pg", "forebay-trace"),
    ("forebay-pool", "forebay-trace"),
    ("forebay-pool", "forebay-wire"),
    ("forebay-records", "forebay-store"),
    ("forebay-script", "forebay-clients"),
    ("forebay-script", "forebay-http-client"),
    ("forebay-script", "forebay-pg"),
    ("forebay-script", "forebay-records"),
    ("forebay-script", "forebay-store"),
    ("forebay-script", "forebay-tls"),
    ("forebay-script", "forebay-trace"),
    ("forebay-script", "forebay-wire"),
    ("forebay-script", "forebay-workflow"),
    ("forebay-server", "forebay-acme"),
    ("forebay-server", "forebay-auth"),
    ("forebay-server", "forebay-clients"),
    ("forebay-server", "forebay-cluster"),
    ("forebay-server", "forebay-config"),
    ("forebay-server", "forebay-http-client"),
    ("forebay-server", "forebay-jobs"),
    ("forebay-server", "forebay-pg"),
    ("forebay-server", "forebay-pool"),
    ("forebay-server", "forebay-profile"),
    ("forebay-server", "forebay-records"),
    ("forebay-runtimes", "forebay-pool"),
    ("forebay-server", "forebay-router"),
    ("forebay-server", "forebay-runtimes"),
    ("forebay-server", "forebay-script"),
    ("forebay-server", "forebay-store"),
    ("forebay-server", "forebay-tls"),
    ("forebay-server", "forebay-trace"),
    ("forebay-server", "forebay-upstream"),
    ("forebay-server", "forebay-workflow"),
    ("forebay-store", "forebay-pg"),
    ("forebay-testkit", "forebay-wire"),
    ("forebay-upstream", "forebay-tls"),
];

/// Output of `cargo metadata` for this workspace.
fn metadata(options: &[&str]) -> Value {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

#[test]
fn libraries_have_permitted_licences_and_no_new_duplicates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules: toml_edit::DocumentMut = fs::read_to_string(root.join("deny.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let texts = |section: &str, key: &str| -> BTreeSet<String> {
        let values = rules[section][key].as_array().unwrap();
        values
            .iter()
            .map(|value| value.as_str().unwrap().to_owned())
            .collect()
    };
    let licences = texts("licenses", "allow");
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let metadata = metadata(&["--filter-platform", &platform]);
    let used = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = used.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let mut versions: BTreeMap<&str, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for package in packages.filter(|package| used.contains(package["id"].as_str().unwrap())) {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or_default();
        let is_permitted = licence.replace(['(', ')'], "").split(" AND ").all(|part| {
            part.split(" OR ")
                .flat_map(|one| one.split('/'))
                .any(|one| licences.contains(one.trim()))
        });
        assert!(is_permitted, "{name} has the licence {licence}");
        let version = package["version"].as_str().unwrap();
        let numbers = version
            .split(['.', '-', '+'])
            .map_while(|number| number.parse().ok());
        versions.entry(name).or_default().insert(numbers.collect());
    }
    let older = versions.iter().flat_map(|(name, versions)| {
        let older = versions.iter().take(versions.len() - 1);
        older.map(move |numbers| {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            format!("{name}@{}", numbers.join("."))
        })
    });
    assert_eq!(older.collect::<BTreeSet<_>>(), texts("bans", "skip"));
}

#[test]
fn crates_depend_on_each_other_only_along_the_documented_arrows() {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().unwrap();
    let names: BTreeSet<&str> = packages
        .iter()
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    let mut found = BTreeSet::new();
    for package in packages {
        let dependencies = package["dependencies"].as_array().unwrap();
        for dependency in dependencies
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
        {
            let to = dependency["name"].as_str().unwrap();
            if names.contains(to) {
                found.insert((package["name"].as_str().unwrap(), to));
            }
        }
    }
    assert_eq!(found, BTreeSet::from(ARROWS));
}

/// All source files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("it is a folder of the sources")
        .map(|entry| entry.expect("it can be listed").path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.collect()
}

#[test]
fn the_state_of_a_pool_knows_nothing_that_does_input_or_output() {
    let state = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pool/src/state");
    for file in sources(&state) {
        let text = fs::read_to_string(&file).unwrap();
        for room in [
            "supervisor::",
            "link::",
            "mailbox::",
            "reader::",
            "outbox::",
            "sys::",
            "tokio::",
        ] {
            let found = text
                .split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
                .any(|word| word.starts_with(room) || word.contains(&format!("crate::{room}")));
            assert!(!found, "{} uses {room}", file.display());
        }
    }
}

#[test]
fn one_file_of_the_server_writes_the_fields_that_delimit_an_answer() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let fields = ["content-length: ", "transfer-encoding: ", "connection: close"];
    let writing = sources(&server).into_iter().filter(|file| {
        let text = fs::read_to_string(file).unwrap();
        let own = text.split("#[cfg(test)]").next().unwrap();
        fields.iter().any(|field| own.contains(field))
    });
    let writing: BTreeSet<String> = writing
        .map(|file| file.strip_prefix(&server).unwrap().display().to_string())
        .collect();
    assert_eq!(writing, BTreeSet::from(["reply.rs".to_owned()]));
}

#[test]
fn what_reads_and_writes_connections_names_no_target_and_targets_no_protocol() {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let names = |folder: &str, words: &[&str]| -> Vec<String> {
        let mut text = String::new();
        sources_below(&server.join(folder), &mut text);
        let used = words.iter().filter(|word| text.contains(**word));
        used.map(|word| format!("{folder}: {word}")).collect()
    };
    let targets = [
        "RespondTarget",
        "FilesTarget",
        "StoreTarget",
        "RecordsTarget",
        "TqlTarget",
        "SqlTarget",
        "PoolTarget",
        "ProxyTarget",
        "ScriptTarget",
        "WorkflowTarget",
        "Target::",
    ];
    assert_eq!(names("front", &targets), [""; 0]);
    assert_eq!(
        names("target", &["Socket<", "front::socket", "RequestBody", "Http1"]),
        [""; 0]
    );
}

/// All Rust below a folder, as one text.
fn sources_below(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the sources can be read") {
        let path = entry.expect("the sources can be read").path();
        if path.is_dir() {
            sources_below(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).expect("the sources can be read"));
        }
    }
}

/// The last column of a document's tables, without their heads.
fn last_columns(document: &str) -> impl Iterator<Item = &str> {
    let rows = document
        .lines()
        .filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "));
    let cells = rows.map(|(_, cell)| cell.trim_start_matches("| "));
    cells.filter(|cell| !["test", "tests"].contains(cell))
}

#[test]
fn tests_that_tables_of_documents_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = String::new();
    sources_below(&root.join("crates"), &mut sources);
    let attributes = ["#[test]", "#[tokio::test"].map(|attribute| sources.split(attribute).skip(1));
    let functions = attributes.into_iter().flatten();
    let names = functions.filter_map(|text| text.split_once("fn ")?.1.split_once('('));
    let tests: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    for (document, least) in [
        ("docs/operating/security.md", 60),
        ("docs/operating/asvs.md", 60),
        ("docs/reference/rengine.md", 50),
    ] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        let quoted = last_columns(&text).flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let named: Vec<_> = quoted.filter(|name| !name.contains('/')).collect();
        let unknown: Vec<_> = named.iter().filter(|name| !tests.contains(**name)).collect();
        assert!(
            unknown.is_empty(),
            "{document} names tests that are not there: {unknown:?}"
        );
        assert!(named.len() > least, "{document}: {}", named.len());
    }
}

#[test]
fn each_boundary_has_a_test() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/security.md");
    let text = fs::read_to_string(page).unwrap();
    for cell in last_columns(&text) {
        assert!(cell.starts_with('`'), "no test: {cell}");
    }
}
