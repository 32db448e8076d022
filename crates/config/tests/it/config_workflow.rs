//! `[workflow]`: the result of valid sections, and the complete text of each error.

use std::time::Duration;

use forebay_config::{
    Secret, Target, WorkflowApi, WorkflowClient, WorkflowRoute, WorkflowScene, WorkflowSource,
};
use forebay_workflow::Priority;

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
    let text = "[workflow]\nlogs = 'logs'\nlogs_rotate = { size = '1MiB', keep = 2 }\n[workflow.clients.shop]\nsecret = 'SHOP'\nruns_max = 3\nruns_per_second = 100\npriority = 'high'\n\
        [workflow.clients.'a b']\ntoken = 'SHOP'\nworkflows = ['x', 'y']\nreleases = true\n\
        [workflow.scenes.x]\nruns_max = 2\nqueue_max = 0\ntimeout = '50ms'\npriority = 'low'\n[workflow.scenes.y]\n";
    let config = project.good(text);
    let workflow = config.workflow.as_ref().unwrap();
    let secret = || Some(Secret::of_variable("SHOP", "s3cret"));
    let shop = WorkflowClient {
        secret: secret(),
        token: None,
        releases: false,
        workflows: vec!["*".into()],
        runs_max: Some(3),
        runs_per_second: Some(100),
        priority: Priority::High,
    };
    assert_eq!(workflow.clients["shop"], shop);
    let other = WorkflowClient {
        secret: None,
        token: secret(),
        releases: true,
        workflows: vec!["x".into(), "y".into()],
        runs_max: None,
        runs_per_second: None,
        priority: Priority::Normal,
    };
    assert_eq!(workflow.clients["a b"], other);
    assert_eq!(workflow.logs, Some(project.folder.join("logs")));
    assert_eq!(
        (workflow.logs_rotate.size, workflow.logs_rotate.keep),
        (1 << 20, 2)
    );
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
        (
            "secret = 'SHOP'\nreleases = true",
            "5: workflow.clients.shop.releases: it has no `token`, by which releases are read and changed",
        ),
    ] {
        let text = format!("\n[workflow]\n[workflow.clients.shop]\n{client}\n");
        assert_eq!(project.errors(&text), format!("./forebay.toml:{error}"));
    }
}

#[test]
fn workflows_are_in_a_folder_or_in_the_store() {
    let project = project();
    let route = "[[route]]\npath = '/first/*'\nworkflow = { release = 1 }\n";
    let text = format!("[store]\n[workflow]\nstore = 'Rules'\n{route}");
    let config = project.good(&text);
    let source = config.workflow.as_ref().unwrap().source();
    let global = "Rules".to_owned();
    assert_eq!(source, WorkflowSource::Store { global });
    let pinned = WorkflowRoute {
        api: WorkflowApi::Named,
        release: Some(1),
    };
    assert_eq!(config.routes[0].target, Target::Workflow(pinned));
    assert_eq!(project.good(&config.to_toml()), config);
    let config = project.good("[workflow]\nwatch = true\n");
    let source = config.workflow.as_ref().unwrap().source();
    assert!(matches!(source, WorkflowSource::Folder { path, watch: true } if path.ends_with("workflows")));
    assert_eq!(project.good(&config.to_toml()), config);
}

#[test]
fn workflows_that_would_be_in_two_places_or_in_none_are_errors() {
    let project = project();
    for (text, error) in [
        (
            "[store]\n[workflow]\nstore = 'Rules'\npath = 'workflows'\n".to_owned(),
            "4: workflow.path: it is for workflows of a folder; these are in the store (store = \"Rules\")",
        ),
        (
            "[store]\n[workflow]\nstore = 'Rules'\nwatch = true\n".to_owned(),
            "4: workflow.watch: it is for workflows of a folder; these are in the store (store = \"Rules\")",
        ),
        (
            "[workflow]\nstore = 'Rules'\n".to_owned(),
            "2: workflow.store: there is no store; a section `[store]` makes one",
        ),
        (
            "[store]\n[workflow]\nstore = 'a b'\n".to_owned(),
            "3: workflow.store: the name of a global cannot contain ' ': letters, digits",
        ),
        (
            "[[route]]\npath = '/first/*'\nworkflow = { release = 1 }\n".to_owned(),
            "3: route.workflow.release: the workflows are those of a folder, which has no releases; `store` under [workflow] has",
        ),
    ] {
        let told = project.errors(&text);
        assert!(told.starts_with(&format!("./forebay.toml:{error}")), "{told}");
    }
}

#[test]
fn a_route_to_releases_needs_releases_and_a_client_that_may_change_them() {
    let project = project();
    let route = "[[route]]\npath = '/releases/*'\nworkflow = { api = 'releases' }\n";
    let client = "[workflow.clients.ci]\ntoken = 'SHOP'\nreleases = true\n";
    let config = project.good(&format!("[store]\n[workflow]\nstore = 'Rules'\n{client}{route}"));
    let about_releases = WorkflowRoute {
        api: WorkflowApi::Releases,
        release: None,
    };
    assert_eq!(config.routes[0].target, Target::Workflow(about_releases));
    assert_eq!(project.good(&config.to_toml()), config);
    for (text, error) in [
        (
            format!("[workflow]\n{client}{route}"),
            "7: route.workflow.api: the workflows are those of a folder, which has no releases; `store` under [workflow] has",
        ),
        (
            format!("[store]\n[workflow]\nstore = 'Rules'\n{route}"),
            "6: route.workflow.api: no client may use it: `releases = true` and `token` under [workflow.clients.ID]",
        ),
        (
            format!(
                "[store]\n[workflow]\nstore = 'Rules'\n{client}{}",
                route.replace("/*", "")
            ),
            "8: route.path: found \"/releases\"; a route with `workflow = { api = \"releases\" }` is a name and `/*`",
        ),
        (
            format!(
                "[store]\n[workflow]\nstore = 'Rules'\n{client}{}",
                route.replace("/releases/*", "/*")
            ),
            "8: route.path: found \"/*\"; a route with `workflow = { api = \"releases\" }` is a name and `/*`",
        ),
        (
            format!(
                "[store]\n[workflow]\nstore = 'Rules'\n{client}{}",
                route.replace("' }", "', release = 1 }")
            ),
            "9: route.workflow.release: with `api = \"releases\"` the path names the release",
        ),
    ] {
        let told = project.errors(&text);
        assert!(told.starts_with(&format!("./forebay.toml:{error}")), "{told}");
    }
}
