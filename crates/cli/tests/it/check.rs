use forebay_testkit::Folder;

use crate::run::{ended, forebay, run};

const CONFIG: &str = r#"
[server]
listen = ["127.0.0.1:${CHECK_PORT:-8080}"]

[pool.api]
command = ["sh", "-c", "exec api --key ${CHECK_SECRET}"]
env = { TOKEN = "${CHECK_SECRET}", PRICE = "5$", PORT = "${CHECK_PORT:-8080}" }

[[route]]
path = "/api"
pool = "api"
headers = { authorization = "Bearer ${CHECK_SECRET}" }

[[route]]
path = "/secret"
respond = { text = "it is ${CHECK_SECRET}, é" }
"#;

#[test]
fn what_is_printed_is_the_whole_configuration_and_reads_back_as_the_same() {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    let check = |file: &str| {
        let output = forebay(folder.path(), &["check", "-c", file])
            .env("CHECK_SECRET", "open sesame")
            .output();
        ended(&output.unwrap())
    };
    let first = check("forebay.toml");
    assert_eq!((first.code, first.err.as_str()), (0, ""));
    for line in [
        "listen = [\"127.0.0.1:8080\"]",
        "queue_max = 1024",
        "deadline = \"30s\"",
    ] {
        assert!(first.out.contains(line), "{line} is not in\n{}", first.out);
    }
    folder.write("printed.toml", &first.out);
    assert_eq!(check("printed.toml").out, first.out);
}

#[test]
fn values_of_the_environment_are_printed_by_their_names_where_secrets_may_stand() {
    let folder = Folder::new();
    folder.write("forebay.toml", CONFIG);
    let mut command = forebay(folder.path(), &["check"]);
    let printed = ended(
        &command
            .env("CHECK_SECRET", "open sesame")
            .env("CHECK_PORT", "8090")
            .output()
            .unwrap(),
    )
    .out;
    assert!(!printed.contains("sesame"), "{printed}");
    for line in [
        "listen = [\"127.0.0.1:8090\"]",
        "TOKEN = \"${CHECK_SECRET}\"",
        "PRICE = \"5$$\"",
        "PORT = \"${CHECK_PORT}\"",
        "exec api --key ${CHECK_SECRET}",
        "\"authorization\" = \"Bearer ${CHECK_SECRET}\"",
        "it is ${CHECK_SECRET}, é",
    ] {
        let bare = line.replace('"', "");
        assert!(
            printed.replace('"', "").contains(&bare),
            "{line} is not in\n{printed}"
        );
    }
}

#[test]
fn a_runtime_that_is_not_installed_is_a_problem_with_its_line() {
    let folder = Folder::new();
    folder.write("api.mjs", "export default () => 1;");
    folder.write(
        "forebay.toml",
        "[pool.api]\nhandler = \"api.mjs\"\nruntime = \"node\"\n",
    );
    let mut command = forebay(folder.path(), &["check"]);
    let ended = ended(
        &command
            .env("PATH", "/nowhere")
            .env_remove("FOREBAY_NODE")
            .output()
            .unwrap(),
    );
    assert_eq!(ended.code, 3);
    assert!(
        ended
            .err
            .contains("forebay.toml:3: pool.api.runtime: node is not installed"),
        "{ended:?}"
    );
    assert_eq!(run(folder.path(), &["check"]).code, 0);
}
