//! Configurations of several files.

use std::fs;

use forebay_config::{Target, Worker};

use crate::config::Project;

const SHOP: &str = r#"
[pool.shop]
command = ["./run.sh"]

[[route]]
path = "/shop/*"
pool = "shop"

[[route]]
path = "/shop/files/*"
files = "pictures"
"#;

/// A project with a shop in a subfolder.
fn with_shop(text: &str) -> Project {
    let project = Project::new();
    project.executable("shop/run.sh");
    fs::create_dir(project.folder.join("shop/pictures")).unwrap();
    fs::write(project.folder.join("shop/shop.toml"), text).unwrap();
    project
}

#[test]
fn an_included_file_adds_what_it_has_with_paths_of_its_own_folder() {
    let project = with_shop(SHOP);
    let config = project.good(
        "include = ['shop/shop.toml']\n[server]\ndeadline = '7s'\n[[route]]\npath = '/*'\nfiles = 'public'",
    );
    let Worker::Command { program, .. } = &config.pools["shop"].worker else {
        panic!("not a command")
    };
    assert_eq!(*program, project.folder.join("shop/run.sh"));
    assert_eq!(config.pools["shop"].cwd, project.folder.join("shop"));
    assert_eq!(config.included, [project.folder.join("shop/shop.toml")]);
    let folders = config.routes.iter().filter_map(|route| match &route.target {
        Target::Files(files) => Some(files.folder.clone()),
        _ => None,
    });
    assert_eq!(
        folders.collect::<Vec<_>>(),
        [
            project.folder.join("public"),
            project.folder.join("shop/pictures")
        ]
    );
    for route in &config.routes {
        assert_eq!(route.deadline.as_secs(), 7, "{}", route.path);
    }
    let printed = project.good(&config.to_toml());
    assert_eq!((printed.pools, printed.routes), (config.pools, config.routes));
}

#[test]
fn the_environment_decides_whether_a_file_is_included() {
    let mut project = with_shop(SHOP);
    let text = "include = ['${SHOP:+shop/shop.toml}']\n[[route]]\npath = '/*'\nfiles = 'public'";
    assert_eq!(project.good(text).routes.len(), 1);
    project.env.push(("SHOP", String::new()));
    assert_eq!(project.good(text).routes.len(), 1);
    project.env[0].1 = "yes".to_owned();
    assert_eq!(project.good(text).routes.len(), 3);
}

#[test]
fn what_is_wrong_with_an_included_file_names_it() {
    let project = with_shop("\n[pool.shop]\ncommand = [\"./none.sh\"]\nqueue_mx = 1\n");
    assert_eq!(
        project.errors("include = ['shop/shop.toml']\n[pool.own]\nhandler = 'api.mjs'"),
        format!(
            "./shop/shop.toml:4: pool.shop.queue_mx: no such key (did you mean `queue_max`?); accepted: {}",
            project
                .errors("[pool.own]\nqueue_mx = 1")
                .lines()
                .next()
                .unwrap()
                .split_once("accepted: ")
                .unwrap()
                .1
        )
    );
    let project = with_shop("\n[pool.shop]\ncommand = [\"./none.sh\"]\n");
    assert_eq!(
        project.errors(
            "include = ['shop/shop.toml']\n[pool.own]\nhandler = 'no.mjs'\n[[route]]\npath = '/'\npool = 'shop'\n"
        ),
        "./forebay.toml:3: pool.own.handler: there is no file `./no.mjs`\n\
         ./shop/shop.toml:3: pool.shop.command: there is no program `./none.sh`"
    );
    assert_eq!(
        with_shop("route = [").errors("include = ['shop/shop.toml']"),
        "./shop/shop.toml:1: not TOML: unclosed array, expected `]`"
    );
}

#[test]
fn files_that_do_not_fit_together_are_refused() {
    let project = with_shop(&format!("{SHOP}[server]\nthreads = 1\n"));
    assert_eq!(
        project.errors("include = ['shop/shop.toml']"),
        "./shop/shop.toml:12: server: a file that is included has no such section: it stands in the one that includes it"
    );
    let project = with_shop(SHOP);
    assert_eq!(
        project.errors("include = ['shop/shop.toml']\n[pool.shop]\nhandler = 'api.mjs'"),
        "./shop/shop.toml:2: pool.shop: the name is taken on line 2 of `./forebay.toml`"
    );
    assert_eq!(
        project.errors("include = ['shop/shop.toml']\n[[route]]\npath = '/shop/*'\nfiles = 'public'"),
        "./shop/shop.toml:6: route.path: `/shop/*` answers every method already, by the route on line 3 of `./forebay.toml`"
    );
    let project = with_shop("include = ['../forebay.toml']\n");
    assert_eq!(
        project.errors("include = ['shop/shop.toml']"),
        "./shop/shop.toml:1: include: a file that is included includes no others"
    );
}

#[test]
fn an_include_that_names_no_file_is_refused() {
    let project = Project::new();
    assert_eq!(
        project.errors("include = ['no.toml']\n"),
        "./forebay.toml:1: include: cannot read `./no.toml`: No such file or directory (os error 2)"
    );
    assert_eq!(
        project.errors("include = 'no.toml'\n"),
        "./forebay.toml:1: include: cannot read `./no.toml`: No such file or directory (os error 2)"
    );
    let many = vec!["'no.toml'"; 65].join(", ");
    assert_eq!(
        project.errors(&format!("include = [{many}]\n")),
        "./forebay.toml:1: include: found 65 files, expected at most 64"
    );
}
