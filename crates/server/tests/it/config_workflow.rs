//! `[workflow]`: what it becomes, and the whole text of each error.

use std::time::Duration;

use forebay_script::Priority;
use forebay_server::config::{Secret, WorkflowClient, WorkflowScene};

use crate::config::Project;

fn project() -> Project {
    let mut project = Project::new();
    project.env.push(("SHOP", "s3cret".to_owned()));
    project.env.push(("SPACED", "two words".to_owned()));
    std::fs::create_dir(project.folder.join("workflows")).unwrap();
    project
}

#[test]
fn clients_and_scenes_are_read_and_printed_without_what_is_secret() {
    let project = project();
    let text = "[workflow]\n[workflow.clients.shop]\nsecret = 'SHOP'\nruns_max = 3\nruns_per_second = 100\npriority = 'high'\n\
        [workflow.clients.'a b']\ntoken = 'SHOP'\nworkflows = ['x', 'y']\n\
        [workflow.scenes.x]\nruns_max = 2\nqueue_max = 0\ntimeout = '50ms'\npriority = 'low'\n[workflow.scenes.y]\n";
    let config = project.good(text);
    let workflow = config.workflow.as_ref().unwrap();
    let secret = || {
        Some(Secret {
            variable: "SHOP".into(),
            value: "s3cret".into(),
        })
    };
    let shop = WorkflowClient {
        secret: secret(),
        token: None,
        workflows: vec!["*".into()],
        runs_max: Some(3),
        runs_per_second: Some(100),
        priority: Priority::High,
    };
    assert_eq!(workflow.clients["shop"], shop);
    let other = WorkflowClient {
        secret: None,
        token: secret(),
        workflows: vec!["x".into(), "y".into()],
        runs_max: None,
        runs_per_second: None,
        priority: Priority::Normal,
    };
    assert_eq!(workflow.clients["a b"], other);
    let x = WorkflowScene {
        runs_max: Some(2),
        queue_max: 0,
        timeout: Some(Duration::from_millis(50)),
        priority: Priority::Low,
    };
    assert_eq!(workflow.scenes["x"], x);
    let y = WorkflowScene {
        runs_max: None,
        queue_max: 1024,
        timeout: None,
        priority: Priority::Normal,
    };
    assert_eq!(workflow.scenes["y"], y);
    assert!(!config.to_toml().contains("s3cret") && !format!("{config:?}").contains("s3cret"));
    assert_eq!(project.good(&config.to_toml()), config);
}

#[test]
fn clients_that_could_not_show_who_they_are_are_errors() {
    let project = project();
    for (client, error) in [
        (
            "",
            "3: workflow.clients.shop.secret: it has no `secret` and no `token`: one of them names an environment variable",
        ),
        (
            "secret = 's e'",
            "4: workflow.clients.shop.secret: found \"s e\", expected the name of an environment variable",
        ),
        (
            "token = 'NONE'",
            "4: workflow.clients.shop.token: the environment variable `NONE` must hold the token: at least one printable ASCII character, no spaces",
        ),
        (
            "secret = 'SPACED'",
            "4: workflow.clients.shop.secret: the environment variable `SPACED` must hold the secret: at least one printable ASCII character, no spaces",
        ),
    ] {
        let text = format!("\n[workflow]\n[workflow.clients.shop]\n{client}\n");
        assert_eq!(project.errors(&text), format!("./forebay.toml:{error}"));
    }
}
