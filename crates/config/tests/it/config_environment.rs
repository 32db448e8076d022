//! The parts of a configuration that depend on the machine: files, programs, socket paths.

use std::fs;

use forebay_config::{Config, Runtime, Worker};

use crate::config::Project;

#[test]
fn a_socket_path_that_the_kernel_would_cut_is_refused() {
    let project = Project::new();
    let long = "x".repeat(108);
    let errors = project.errors(&format!("[server]\nlisten = ['unix:/{long}']"));
    assert_eq!(
        errors,
        format!(
            "./forebay.toml:2: server.listen: `/{long}` has 109 bytes, a Unix socket's path has at most 107"
        )
    );
}

#[test]
fn auto_takes_node_and_else_bun() {
    let mut project = Project::new();
    let runtime = |project: &Project| {
        let config = project.good("[pool.api]\nhandler = 'api.mjs'");
        match &config.pools["api"].worker {
            Worker::Script { runtime, program, .. } => (*runtime, program.clone()),
            other @ (Worker::Command { .. } | Worker::Python { .. }) => panic!("{other:?}"),
        }
    };
    assert_eq!(runtime(&project), (Runtime::Node, "/bin/node".into()));
    project.programs = vec!["bun"];
    assert_eq!(runtime(&project), (Runtime::Bun, "/bin/bun".into()));
    let local = project.executable("node_modules/.bin/bun");
    assert_eq!(runtime(&project), (Runtime::Bun, local));
    let named = project.executable("my-bun");
    project.env.push(("FOREBAY_BUN", named.display().to_string()));
    assert_eq!(runtime(&project), (Runtime::Bun, named));
}

#[test]
fn a_runtime_that_is_not_there_is_a_clear_error() {
    let mut project = Project::new();
    project.programs.clear();
    let text = "[pool.api]\nhandler = 'api.mjs'";
    assert_eq!(
        project.errors(text),
        "./forebay.toml:1: pool.api.runtime: neither node nor bun is installed: there is no `node` in PATH and no `bun` in \
         node_modules/.bin or PATH, and neither FOREBAY_NODE nor FOREBAY_BUN is set"
    );
    project.env.push(("FOREBAY_NODE", "api.mjs".to_owned()));
    assert_eq!(
        project.errors(text),
        "./forebay.toml:1: pool.api.runtime: FOREBAY_NODE is \"./api.mjs\", which is not an executable file"
    );
}

#[test]
fn a_file_is_read_in_the_surroundings_of_this_process() {
    let project = Project::new();
    let file = project.folder.join("own.toml");
    let text = "[pool.sh]\ncommand = ['sh']\nenv = { HOME = '${HOME:-/}' }\n[[route]]\npath = '/*'\nfiles = 'public'\n";
    fs::write(&file, text).unwrap();
    let config = Config::load(&file).unwrap();
    assert_eq!((&config.file, &config.folder), (&file, &project.folder));
    let Worker::Command { program, .. } = &config.pools["sh"].worker else {
        panic!("not a command")
    };
    assert!(program.is_absolute() && program.ends_with("sh"), "{program:?}");
    fs::write(&file, " ".repeat((4 << 20) + 1)).unwrap();
    let source = std::error::Error::source(&Config::load(&file).unwrap_err())
        .unwrap()
        .to_string();
    assert_eq!(source, "it is larger than 4194304 bytes");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let project = Project::new();
    let missing = project.folder.join("no.toml");
    let error = Config::load(&missing).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot read the configuration `{}`", missing.display())
    );
    assert!(std::error::Error::source(&error).is_some());
}
