//! `[pool.NAME]` with Python handlers.

use std::path::{Path, PathBuf};

use forebay_config::{Interface, PythonApplication, PythonModule, Worker};

use crate::config::Project;

fn project() -> Project {
    let mut project = Project::new();
    std::fs::write(project.folder.join("app.py"), "").unwrap();
    project.programs = vec!["node", "python3", "python"];
    project
}

fn worker(project: &Project, keys: &str) -> (PathBuf, PythonApplication) {
    let config = project.good(&format!("[pool.api]\n{keys}"));
    match &config.pools["api"].worker {
        Worker::Python {
            program, application, ..
        } => (program.clone(), application.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handler_is_a_file_or_a_module_with_or_without_an_object() {
    let project = project();
    let file = PythonModule::File(project.folder.join("app.py"));
    let named = |name: &str| PythonModule::Named(name.to_owned());
    for (keys, module, object) in [
        ("handler = 'app.py'", &file, None),
        ("handler = 'app.py:api'", &file, Some("api")),
        ("handler = './app.py:create_app()'", &file, Some("create_app()")),
        (
            "handler = 'site.wsgi:application'",
            &named("site.wsgi"),
            Some("application"),
        ),
        (
            "handler = 'site.wsgi'\nruntime = 'python'",
            &named("site.wsgi"),
            None,
        ),
    ] {
        let (_, application) = worker(&project, keys);
        assert_eq!(
            (&application.module, application.object.as_deref()),
            (module, object),
            "{keys}"
        );
        assert_eq!(
            (application.interface, application.mount),
            (Interface::Auto, None)
        );
    }
    let (_, application) = worker(&project, "handler = 'app.py'\ninterface = 'asgi'\nmount = '/py'");
    assert_eq!(application.interface, Interface::Asgi);
    assert_eq!(application.mount.as_deref(), Some("/py"));
}

#[test]
fn the_interpreter_is_the_named_one_else_that_of_an_environment_else_the_installed_one() {
    let mut project = project();
    let program = |project: &Project, keys: &str| worker(project, &format!("handler = 'app.py'\n{keys}")).0;
    assert_eq!(program(&project, ""), Path::new("/bin/python3"));
    project.programs = vec!["python"];
    assert_eq!(program(&project, ""), Path::new("/bin/python"));
    let plain = project.executable("venv/bin/python");
    assert_eq!(program(&project, ""), plain);
    let hidden = project.executable(".venv/bin/python");
    assert_eq!(program(&project, ""), hidden);
    let active = project.executable("active/bin/python");
    project
        .env
        .push(("VIRTUAL_ENV", project.folder.join("active").display().to_string()));
    assert_eq!(program(&project, ""), active);
    let other = project.executable("other/python3.9");
    project.env.push(("FOREBAY_PYTHON", other.display().to_string()));
    assert_eq!(program(&project, ""), other);
    assert_eq!(program(&project, "python = '.venv'"), hidden);
    assert_eq!(program(&project, "python = '.venv/bin/python'"), hidden);
    assert_eq!(program(&project, "python = 'python'"), Path::new("/bin/python"));
}

#[test]
fn what_is_wrong_with_a_python_pool_is_said_with_what_is_accepted() {
    let mut project = project();
    for (keys, expected) in [
        (
            "handler = 'none.py:app'",
            "2: pool.api.handler: there is no file `./none.py`",
        ),
        (
            "handler = '1st:app'\nruntime = 'python'",
            "2: pool.api.handler: found \"1st:app\", expected a file such as `app.py` or a module such as `package.module`, and after \
             a colon, perhaps, the object in it",
        ),
        (
            "handler = 'app.py'\nmount = 'py/'",
            "3: pool.api.mount: found \"py/\", expected a path such as \"/py\": it starts with a slash, does not end with one, and \
             stands there decoded, without `:` and `*`",
        ),
        (
            "handler = 'app.py'\npython = 'no/such'",
            "3: pool.api.python: `python` is \"no/such\", which is neither an executable file nor a virtual environment",
        ),
        (
            "handler = 'api.mjs'\nmount = '/py'",
            "3: pool.api.mount: only a pool whose handler Python runs has it",
        ),
        (
            "command = ['python3']\npython = 'python3'",
            "3: pool.api.python: only a pool whose handler Python runs has it",
        ),
        (
            "handler = 'app.py'\ninterface = 'cgi'",
            "3: pool.api.interface: found 'cgi', expected one of \"auto\", \"forebay\", \"wsgi\", \"asgi\"",
        ),
    ] {
        assert_eq!(
            project.errors(&format!("[pool.api]\n{keys}")),
            format!("./forebay.toml:{expected}"),
            "in:\n{keys}"
        );
    }
    project.programs.clear();
    assert_eq!(
        project.errors("[pool.api]\nhandler = 'app.py'"),
        "./forebay.toml:1: pool.api.runtime: no Python is installed: there is no `.venv` or `venv` in the folder of the configuration or \
         above it, no `python3` or `python` in PATH, and neither VIRTUAL_ENV nor FOREBAY_PYTHON is set; install Python 3.9 or newer, \
         or say `python = \"PATH\"`"
    );
}

#[test]
fn a_python_pool_is_printed_as_it_can_be_read_again() {
    let project = project();
    let config = project
        .good("[pool.api]\nhandler = 'app.py:make()'\ninterface = 'wsgi'\nmount = '/py'\nstart = 'app.py'");
    assert_eq!(project.good(&config.to_toml()), config);
}
