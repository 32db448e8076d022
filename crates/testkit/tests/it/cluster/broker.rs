//! A broker that is away, restarts, or asks who connects.

use data_encoding::BASE64URL_NOPAD;
use forebay_testkit::{Folder, Setup, wait_until};
use nkeys::KeyPair;
use serde_json::{Value, json};

use super::{Nats, PATIENT, config, front, host, node, wait_for_hosts};
use crate::{
    certificates::{for_name, issuer},
    support::{TOOLBOX, wait_for_note},
};

#[test]
fn a_broker_that_is_away_at_start_is_waited_for() {
    let mut nats = Nats::stopped(&[]);
    let front = front(&nats, TOOLBOX, "");
    let host = host(&nats, TOOLBOX, "");
    let refused = front.get("/pid");
    assert_eq!(refused.status, 503);
    assert!(
        refused.detail().contains("NATS at nats://127.0.0.1:"),
        "{}",
        refused.detail()
    );
    assert_eq!(front.get("/here").status, 200);
    for process in [&front, &host] {
        let ready = process.admin().get("/health/ready");
        assert_eq!(ready.status, 503);
        let why = &ready.json()["cluster"]["reason"];
        assert!(why.as_str().is_some_and(|why| why.contains("NATS at")), "{why}");
    }
    let checked = front.command(&["check"]);
    assert!(checked.status.success(), "`check` connects to nothing");
    nats.run();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
    for process in [&front, &host] {
        wait_until("it is ready", || {
            process.admin().get("/health/ready").status == 200
        });
    }
}

#[test]
fn a_broker_that_is_lost_fails_requests_at_once_until_it_is_back() {
    let mut nats = Nats::start();
    let front = front(&nats, TOOLBOX, PATIENT);
    let host = host(&nats, TOOLBOX, PATIENT);
    wait_for_hosts(&front, 1);
    let mut running = front.connect();
    running.request("GET", "/wait/gate/running");
    wait_for_note(&host, "begin running");
    nats.stop();
    assert_eq!(running.response().status, 502, "what was under way");
    wait_for_note(&host, "abort running");
    wait_until("new requests are refused", || {
        let refused = front.get("/pid");
        refused.status == 503 && refused.detail().contains("NATS at")
    });
    nats.run();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
}

#[test]
fn credentials_are_given_to_the_broker_and_shown_to_nobody() {
    let nats = Nats::with(&["--user", "ada", "--pass", "not-for-the-log"]);
    let with = |login: &str| nats.url().replace("//", &format!("//{login}@"));
    let right = with("ada:not-for-the-log");
    let front = node(&right, TOOLBOX, "").start();
    let _host = node(&right, TOOLBOX, "").work_on("api").start();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
    let checked = front.command(&["check"]);
    let printed = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(printed.contains("ada:***@127.0.0.1"), "{printed}");
    let wrong = node(&with("ada:wrong-secret"), TOOLBOX, "").start();
    wait_until("the broker refuses", || {
        wrong.get("/pid").detail().contains("authorization violation")
    });
    for shown in [printed, front.log(), wrong.log(), wrong.get("/pid").detail()] {
        assert!(
            !shown.contains("not-for-the-log") && !shown.contains("wrong-secret"),
            "{shown}"
        );
    }
}

/// A JWT about an operator, an account or a user of NATS, whose public key is the subject.
fn claim(issuer: &KeyPair, subject: &KeyPair, about: &Value) -> String {
    let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims =
        json!({"jti": "1", "iat": 1, "iss": issuer.public_key(), "sub": subject.public_key(), "nats": about});
    let signed = format!("{}.{}", part(head), part(claims));
    let signature = issuer.sign(signed.as_bytes()).expect("it has a seed");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// The file of a new user of this account, who may publish and subscribe to these subjects.
fn credentials(account: &KeyPair, publish: &[&str], subscribe: &[&str]) -> String {
    let user = KeyPair::new_user();
    let about = json!({
        "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
        "pub": {"allow": publish}, "sub": {"allow": subscribe},
    });
    let (jwt, seed) = (claim(account, &user, &about), user.seed().expect("it has one"));
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[test]
fn users_of_an_account_connect_with_their_files_and_need_no_more_than_the_permissions_of_the_guide() {
    let (operator, account) = (KeyPair::new_operator(), KeyPair::new_account());
    let limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1});
    let folder = Folder::new();
    folder.write(
        "nats.conf",
        format!(
            "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}\n",
            claim(&operator, &operator, &json!({"type": "operator", "version": 2})),
            account.public_key(),
            claim(
                &operator,
                &account,
                &json!({"type": "account", "version": 2, "limits": limits})
            ),
        ),
    );
    let file = folder.path().join("nats.conf");
    let nats = Nats::with(&["--config", file.to_str().expect("a plain path")]);
    let config = config(&nats.url(), "").replace("[pool", "credentials = \"user.creds\"\n[pool");
    let setup = |credentials: String| {
        let setup = Setup::new(&config).file("api.mjs", TOOLBOX);
        setup.file("user.creds", &credentials)
    };
    let (of_hosts, of_fronts) = (
        ["forebay.main.*.hosts", "forebay.main.*.front.>"],
        "forebay.main.*.host.>",
    );
    let front = setup(credentials(&account, &[of_fronts], &of_hosts))
        .admin()
        .start();
    let _host = setup(credentials(&account, &of_hosts, &[of_fronts]))
        .work_on("api")
        .start();
    wait_for_hosts(&front, 1);
    assert_eq!(front.post("/echo", b"a body").text(), "a body");
    assert!(!front.log().contains("ermission"), "{}", front.log());
    let stranger = setup(credentials(&KeyPair::new_account(), &[], &[])).start();
    wait_until("the broker refuses", || {
        stranger.get("/pid").detail().contains("authorization violation")
    });
    stranger.folder().write("user.creds", "not-for-the-log");
    let unusable = stranger.command(&["serve"]);
    let error = String::from_utf8_lossy(&unusable.stderr).into_owned();
    assert!(
        error.contains("user.creds` (cluster.credentials)") && !error.contains("not-for-the-log"),
        "{error}"
    );
    std::fs::remove_file(stranger.folder().path().join("user.creds")).expect("it is there");
    let checked = stranger.command(&["check"]);
    let error = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(error.contains("cluster.credentials: there is no file"), "{error}");
}

#[test]
fn the_broker_is_reached_with_tls_and_a_certificate_of_this_process() {
    let authority = issuer("authority");
    let folder = Folder::new();
    let [server, client] = ["localhost", "client"].map(|name| {
        let (certificate, key) = for_name(&authority, name, 2020..2100);
        folder.write(&format!("{name}.pem"), certificate.pem());
        folder.write(&format!("{name}.key"), key.serialize_pem());
        [".pem", ".key"].map(|end| folder.path().join(format!("{name}{end}")).display().to_string())
    });
    folder.write("ca.pem", authority.pem());
    let ca = folder.path().join("ca.pem").display().to_string();
    let nats = Nats::with(&[
        "--tlsverify",
        "--tlscert",
        &server[0],
        "--tlskey",
        &server[1],
        "--tlscacert",
        &ca,
    ]);
    let keys = |certificate: &str| {
        let url = format!(
            "nats = \"tls://localhost:{}\"\nca = \"{ca}\"\n{certificate}",
            nats.port
        );
        config("", "").replace("nats = \"\"", &url)
    };
    let certificate = format!("cert = \"{}\"\nkey = \"{}\"", client[0], client[1]);
    let setup = |keys: &str| Setup::new(keys).file("api.mjs", TOOLBOX).admin();
    let front = setup(&keys(&certificate)).start();
    let _host = setup(&keys(&certificate)).work_on("api").start();
    wait_for_hosts(&front, 1);
    assert_eq!(front.get("/pid").status, 200);
    let stranger = setup(&keys("")).start();
    wait_until("the broker refuses", || {
        stranger.get("/pid").detail().contains("cannot be reached")
    });
}
