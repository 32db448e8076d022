//! Machines as network namespaces, where this user may make them: `tests/cluster`.

use std::{path::PathBuf, process::Command};

use forebay_testkit::{Setup, blocks};

use super::{Nats, wait_for_hosts};

/// Runs a program of `tests/cluster`; false if this user may make no namespaces.
fn run(program: &str, arguments: &[&str]) -> bool {
    let may = Command::new("unshare")
        .args([
            "--net", "--pid", "--mount", "--fork", "ip", "link", "add", "try", "type", "bridge",
        ])
        .output();
    if !rustix::process::geteuid().is_root() || !may.is_ok_and(|output| output.status.success()) {
        return false;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster");
    let output = Command::new("node")
        .arg(folder.join(program))
        .args(arguments)
        .output()
        .expect("node is there");
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
    true
}

#[test]
fn the_guide_leads_from_one_folder_to_three_machines() {
    if run("guide.mjs", &[]) {
        return;
    }
    // As processes of this machine, each with a folder of its own.
    let guide = include_str!("../../../../../docs/guide/cluster.md");
    let nats = Nats::start();
    let written = blocks(guide, "toml")[1];
    let (_server, own) = written.split_at(written.find("[cluster]").expect("it is the section of the guide"));
    let urls = own.split('"').find(|text| text.starts_with("nats://"));
    let own = own.replace(urls.expect("the guide has URLs"), &nats.url());
    let setup = || Setup::new(&own).file("api.mjs", blocks(guide, "js")[0]).admin();
    let front = setup().start();
    let _hosts = [(); 2].map(|()| setup().work_on("api").start());
    wait_for_hosts(&front, 2);
    assert_eq!(front.get("/").status, 200);
}

#[test]
fn machines_that_are_cut_off_and_killed_lose_and_repeat_nothing() {
    run("faults.mjs", &["--only", "kill,cut", "--short"]);
}
