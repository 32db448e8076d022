//! Certificates that the server obtains itself, from Pebble: an authority that speaks ACME.

use std::{
    fs,
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    time::SystemTime,
};

use forebay_testkit::{
    Folder, PATIENCE, Server, Setup, blocks, command, curl, free_port, wait_for, wait_until,
};
use serde_json::{Value, json};

use crate::{
    certificates::{for_name, issuer},
    reload::reload,
    rule_clients::Running,
    support::metric,
    upgrade::upgrade,
};

const NAMES: [&str; 2] = ["shop.example", "www.shop.example"];
const GOOD: std::ops::Range<i32> = 2020..2100;

const ROUTES: &str = "[[route]]\npath = \"/*\"\nrespond = { text = \"here\" }\n";

fn is_open(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// Where an authority is asked, and where it looks for the servers that ask.
struct Ports {
    directory: u16,
    management: u16,
    http: u16,
    tls: u16,
}

/// An authority, for which every name is this machine. It forgets everything when it ends.
struct Pebble {
    ports: Ports,
    folder: Folder,
    running: Option<[Running; 2]>,
}

impl Pebble {
    /// Certificates are good for so many seconds.
    fn start(validity_s: u64) -> Self {
        let ports = Ports {
            directory: free_port(),
            management: free_port(),
            http: free_port(),
            tls: free_port(),
        };
        let local = |port: u16| format!("127.0.0.1:{port}");
        let config = json!({ "pebble": {
            "listenAddress": local(ports.directory),
            "managementListenAddress": local(ports.management),
            "certificate": "directory.pem",
            "privateKey": "directory.key",
            "httpPort": ports.http,
            "tlsPort": ports.tls,
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "", "validityPeriod": validity_s } },
        } });
        let (folder, authority) = (Folder::new(), issuer("directory"));
        let (certificate, key) = for_name(&authority, "127.0.0.1", GOOD);
        folder.write("config.json", config.to_string());
        folder.write("directory-ca.pem", authority.pem());
        folder.write("directory.pem", certificate.pem());
        folder.write("directory.key", key.serialize_pem());
        let mut pebble = Self {
            ports,
            folder,
            running: None,
        };
        pebble.resume();
        pebble
    }

    /// Starts it again, with new keys.
    fn resume(&mut self) {
        let dns = free_port();
        let run = |program: &str, arguments: &[&str]| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pebble");
            let mut command = Command::new(folder.join(program));
            command.args(arguments).current_dir(self.folder.path());
            command
                .env("PEBBLE_VA_NOSLEEP", "1")
                .env("PEBBLE_WFE_NONCEREJECT", "0");
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            Running(child.expect("Pebble is there: `make deps` builds it"))
        };
        let off = ["-http01=", "-https01=", "-tlsalpn01=", "-doh=", "-defaultIPv6="];
        let own = [
            format!("-dnsserver=127.0.0.1:{dns}"),
            format!("-management=127.0.0.1:{}", free_port()),
        ];
        let names = run("pebble-challtestsrv", &[&off[..], &[&own[0], &own[1]]].concat());
        wait_until("the server of names", || is_open(dns));
        let authority = run("pebble", &["-config=config.json", &own[0]]);
        wait_until("Pebble", || {
            is_open(self.ports.directory) && is_open(self.ports.management)
        });
        self.running = Some([authority, names]);
        let root = curl([
            "--fail",
            "--cacert",
            &self.folder.path().join("directory-ca.pem").to_string_lossy(),
            &format!("https://127.0.0.1:{}/roots/0", self.ports.management),
        ]);
        assert!(root.status.success(), "{}", String::from_utf8_lossy(&root.stderr));
        self.folder.write("root.pem", root.stdout);
    }

    fn stop(&mut self) {
        self.running = None;
    }

    fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.ports.directory)
    }

    /// A section that obtains a certificate from here, kept in this folder.
    fn section(&self, folder: &Path, more: &str) -> String {
        let ca = self.folder.path().join("directory-ca.pem");
        section("shop", &self.directory(), &ca, folder, more)
    }

    /// A server where the authority looks for it.
    fn setup(&self, config: &str) -> Setup {
        let Ports { http, tls, .. } = self.ports;
        Setup::new(&format!("{config}\n{ROUTES}"))
            .listen(&format!("\"127.0.0.1:{http}\", \"https://127.0.0.1:{tls}\""))
            .admin()
    }

    /// Asks for a name as a client that trusts this authority and no other.
    fn client(&self, name: &str) -> Output {
        self.ask("https", self.ports.tls, name, "--no-include")
    }

    /// Asks for a name at a port.
    fn ask(&self, scheme: &str, port: u16, name: &str, option: &str) -> Output {
        curl([
            option,
            "--cacert",
            &self.folder.path().join("root.pem").to_string_lossy(),
            "--resolve",
            &format!("{name}:{port}:127.0.0.1"),
            &format!("{scheme}://{name}:{port}/"),
        ])
    }

    fn wait_for_certificate(&self, name: &str) {
        wait_until(&format!("a certificate for {name}"), || {
            self.client(name).stdout == b"here"
        });
    }

    /// The certificate that a client gets, as PEM.
    fn served(&self) -> Option<String> {
        served(SocketAddr::from(([127, 0, 0, 1], self.ports.tls)), NAMES[0])
    }
}

fn section(name: &str, directory: &str, ca: &Path, folder: &Path, more: &str) -> String {
    format!(
        "[tls.{name}.acme]\ndomains = [\"{}\", \"{}\"]\nagree_to_terms = true\ndirectory = \"{directory}\"\n\
         directory_ca = \"{}\"\nfolder = \"{}\"\n{more}\n",
        NAMES[0],
        NAMES[1],
        ca.display(),
        folder.display()
    )
}

fn served(address: SocketAddr, name: &str) -> Option<String> {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-servername", name])
        .stdin(Stdio::null())
        .output()
        .expect("openssl can be started");
    first_certificate(&String::from_utf8_lossy(&output.stdout))
}

fn first_certificate(text: &str) -> Option<String> {
    let begin = text.find("-----BEGIN CERTIFICATE-----")?;
    let end = text.find("-----END CERTIFICATE-----")?;
    Some(text[begin..end].to_owned())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// When an order that has failed is tried again, as a line of the log says.
fn retry_in_s(line: &str) -> u64 {
    let line: Value = serde_json::from_str(line).expect("JSON");
    line["retry_in_s"].as_u64().expect("a number")
}

fn certificate_status(server: &Server) -> Value {
    let status: Value = serde_json::from_str(server.admin().get("/status").text()).expect("JSON");
    status["certificates"][0].clone()
}

#[test]
fn names_are_proven_by_a_handshake_and_the_certificate_is_kept_for_the_next_start() {
    let (mut pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    let kept = folder.path().join("kept");
    let contact = "contact = \"mailto:ops@shop.example\"";
    let server = pebble.setup(&pebble.section(&kept, contact)).start();
    for name in NAMES {
        pebble.wait_for_certificate(name);
    }
    assert_eq!(mode(&kept), 0o700);
    for file in ["shop.pem", "accounts.json", "lock"] {
        assert_eq!(mode(&kept.join(file)), 0o600, "{file}");
    }
    assert_eq!(fs::read_dir(&kept).expect("it is there").count(), 3);
    let expires = metric(
        &server,
        "forebay_tls_certificate_expiry_timestamp_seconds{certificate=\"shop\"}",
    );
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970");
    assert!(
        (89..=90).contains(&((expires - now.as_secs()) / 86_400)),
        "{expires}"
    );
    let (status, next) = wait_for("the next order", || {
        let status = certificate_status(&server);
        let next = status["next_order_at_s"].as_u64()?;
        Some((status, next))
    });
    assert_eq!(
        (&status["expires_at_s"], &status["failure"]),
        (&expires.into(), &Value::Null)
    );
    // After two thirds of its life.
    assert_eq!((expires - next).div_ceil(86_400), 30);
    let first = pebble.served();
    drop(server);
    pebble.stop();
    let server = pebble.setup(&pebble.section(&kept, contact)).start();
    assert_eq!(pebble.served(), first);
    assert!(!server.log().contains("ordering"), "{}", server.log());
}

#[test]
fn an_authority_needs_no_client_certificate_where_clients_do() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    let server = pebble
        .setup(&pebble.section(folder.path(), ""))
        .server("client_ca = \"clients.pem\"")
        .file("clients.pem", issuer("clients").pem())
        .start();
    server.wait_for_log(&["obtained a certificate"]);
    assert!(!pebble.client(NAMES[0]).status.success());
}

#[test]
fn names_are_proven_by_a_request_whatever_the_routes_are() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    let http = "challenge = \"http-01\"";
    let server = pebble
        .setup(&pebble.section(folder.path(), http))
        .server("https_only = true")
        .start();
    for name in NAMES {
        pebble.wait_for_certificate(name);
    }
    assert_eq!(server.get("/").status, 308);
    for forged in ["forged", "", "../../certificates/shop.pem"] {
        let path = format!("/.well-known/acme-challenge/{forged}");
        assert_eq!(server.get(&path).status, 404, "{path}");
    }
    // Without such a section the path is like any other.
    let other = Setup::new(ROUTES).start();
    assert_eq!(other.get("/.well-known/acme-challenge/forged").text(), "here");
}

#[test]
fn a_certificate_is_renewed_early_and_stays_in_use_while_that_fails() {
    let (mut pebble, folder) = (Pebble::start(6), Folder::new());
    let server = pebble.setup(&pebble.section(folder.path(), "")).start();
    pebble.wait_for_certificate(NAMES[0]);
    let first = pebble.served().expect("a certificate");
    let mut last = wait_for("another certificate", || {
        let served = pebble.served().expect("each is in use until there is another");
        (served != first).then_some(served)
    });
    pebble.stop();
    // It may have been renewed once more.
    let line = server.wait_for_log(&["no certificate was obtained", "stays", "cannot be asked"]);
    assert!(retry_in_s(&line) <= 1, "{line}");
    let file = folder.read("shop.pem").and_then(|text| first_certificate(&text));
    last = file.unwrap_or(last);
    assert_eq!(pebble.served().as_ref(), Some(&last));
    let failure = certificate_status(&server)["failure"].to_string();
    assert!(failure.contains("cannot be asked"), "{failure}");
    // The account is unknown to the new authority.
    pebble.resume();
    wait_until("a certificate of the new authority", || {
        pebble.served().is_some_and(|served| served != last)
    });
    pebble.wait_for_certificate(NAMES[0]);
    wait_until("the end of the failure", || {
        certificate_status(&server)["failure"].is_null()
    });
}

#[test]
fn an_upgrade_keeps_the_certificate_and_the_new_process_renews_it() {
    let (pebble, folder) = (Pebble::start(6), Folder::new());
    let server = pebble.setup(&pebble.section(folder.path(), "")).start();
    pebble.wait_for_certificate(NAMES[0]);
    let _after = upgrade(&server);
    assert_eq!(pebble.client(NAMES[0]).stdout, b"here");
    let kept = pebble.served().expect("a certificate");
    wait_until("a certificate of the new process", || {
        pebble.served().is_some_and(|served| served != kept)
    });
    pebble.wait_for_certificate(NAMES[0]);
}

#[test]
fn a_certificate_that_is_due_at_once_is_not_ordered_over_and_over() {
    let (pebble, folder) = (Pebble::start(1), Folder::new());
    let server = pebble.setup(&pebble.section(folder.path(), "")).start();
    let line = server.wait_for_log(&["WARN", "is due for renewal already"]);
    let wait = retry_in_s(&line);
    assert!((45..=60).contains(&wait), "{line}");
}

#[test]
fn stored_garbage_is_reported_and_replaced() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    folder.write(
        "shop.pem",
        "-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n",
    );
    folder.write("accounts.json", "{ \"no\"");
    let server = pebble.setup(&pebble.section(folder.path(), "")).start();
    pebble.wait_for_certificate(NAMES[0]);
    server.wait_for_log(&[
        "WARN",
        "the stored certificate cannot be used",
        "shop.pem cannot be read as PEM",
    ]);
    server.wait_for_log(&["WARN", "the stored accounts cannot be used", "accounts.json"]);
    let stored = folder.read("shop.pem").and_then(|text| first_certificate(&text));
    assert_eq!(pebble.served(), stored);
}

#[test]
fn another_name_is_added_by_the_same_account() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    let section = pebble.section(folder.path(), "");
    let both = format!("\"{}\", \"{}\"", NAMES[0], NAMES[1]);
    let one = section.replace(&both, &format!("\"{}\"", NAMES[0]));
    let server = pebble.setup(&one).start();
    pebble.wait_for_certificate(NAMES[0]);
    let account = || {
        let accounts = folder.read("accounts.json").expect("it is there");
        let accounts: Value = serde_json::from_str(&accounts).expect("JSON");
        accounts[pebble.directory()].clone()
    };
    let first = account();
    assert_eq!(first["contact"], Value::Null);
    server.reconfigure(&format!(
        "{section}contact = \"mailto:ops@shop.example\"\n{ROUTES}"
    ));
    assert_eq!(reload(&server).status, 200);
    // The certificate in use stays until there is another.
    assert_eq!(pebble.client(NAMES[0]).stdout, b"here");
    pebble.wait_for_certificate(NAMES[1]);
    assert_eq!(account()["credentials"], first["credentials"]);
    assert_eq!(account()["contact"], "mailto:ops@shop.example");
}

#[test]
fn a_directory_that_is_none_is_reported_and_asked_again_later() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    let wrong = pebble.section(folder.path(), "").replace("/dir\"", "/wrong\"");
    let server = pebble
        .setup(&format!(
            "{wrong}\n[log]\nlevel = \"info,forebay::front=debug\"\n"
        ))
        .start();
    let line = server.wait_for_log(&[
        "WARN",
        "no certificate was obtained",
        "/wrong answers with status 404",
    ]);
    assert!(line.contains("connections for its names are refused"), "{line}");
    assert_eq!(server.get("/").text(), "here");
    assert!(!pebble.client(NAMES[0]).status.success());
    server.wait_for_log(&[
        "the certificate of [tls.shop] has not been obtained yet",
        NAMES[0],
    ]);
    wait_until("a second attempt", || {
        server.log().matches("/wrong answers").count() > 1
    });
    server.folder().write(
        "forebay.toml",
        server
            .folder()
            .read("forebay.toml")
            .expect("it is there")
            .replace("/wrong\"", "/dir\""),
    );
    assert_eq!(reload(&server).status, 200);
    pebble.wait_for_certificate(NAMES[0]);
}

#[test]
fn an_authority_that_cannot_see_the_server_says_why_and_one_that_is_too_busy_says_when() {
    let (pebble, folder) = (Pebble::start(7_776_000), Folder::new());
    // The server is not where Pebble looks for it.
    let server = Setup::new(&pebble.section(folder.path(), ""))
        .listen("\"https://127.0.0.1:0\"")
        .start();
    server.wait_for_log(&[
        "WARN",
        "the authority has not seen by tls-alpn-01 that this server has",
        "Failed to connect",
    ]);
    let authority = issuer("busy");
    let (cert, key) = for_name(&authority, "127.0.0.1", GOOD);
    let busy = Setup::new(
        "[tls.busy]\ncert = \"busy.pem\"\nkey = \"busy.pem\"\n[[route]]\npath = \"/dir\"\n\
         respond = { status = 429, text = \"later\", headers = { retry-after = \"7200\" } }\n",
    )
    .file("busy.pem", cert.pem() + &key.serialize_pem())
    .file("ca.pem", authority.pem())
    .listen("\"https://127.0.0.1:0\"")
    .start();
    let ca = busy.folder().path().join("ca.pem");
    let directory = format!("{}/dir", busy.urls()[0]);
    let server = Setup::new(&section("shop", &directory, &ca, folder.path(), ""))
        .listen("\"https://127.0.0.1:0\"")
        .start();
    let line = server.wait_for_log(&["no certificate was obtained", "answers with status 429"]);
    let wait = retry_in_s(&line);
    assert!((7_100..=7_200).contains(&wait), "{line}");
}

/// A directory that is connected to and says nothing.
struct Silent {
    listener: TcpListener,
    folder: Folder,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let folder = Folder::new();
        folder.write("ca.pem", issuer("silent").pem());
        Self { listener, folder }
    }

    /// A section with a folder of its own.
    fn section(&self, name: &str) -> String {
        let directory = format!("https://{}/dir", self.listener.local_addr().expect("it is bound"));
        let path = self.folder.path();
        section(name, &directory, &path.join("ca.pem"), &path.join(name), "")
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.listener.accept().expect("the server connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    }

    fn setup(&self, name: &str) -> Setup {
        Setup::new(&self.section(name))
            .listen("\"https://127.0.0.1:0\"")
            .admin()
    }
}

/// Waits until the other side has closed a connection.
fn wait_for_end(mut stream: TcpStream) {
    let ended = stream.read_to_end(&mut Vec::new());
    // A connection may also end by a reset.
    assert!(
        ended.as_ref().is_ok()
            || ended
                .as_ref()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "{ended:?}"
    );
}

#[test]
fn a_reload_lets_an_order_go_on_and_ends_that_of_a_section_that_is_gone() {
    let silent = Silent::start();
    let mut server = silent.setup("a").start();
    let first = silent.accept();
    server.reconfigure(&(silent.section("a") + &silent.section("b")));
    assert_eq!(reload(&server).status, 200);
    let second = silent.accept();
    // An order of `a` would have begun before that of `b`.
    server.wait_for_log(&["ordering a certificate", "\"certificate\":\"b\""]);
    assert_eq!(
        server.log().matches("ordering a certificate").count(),
        2,
        "{}",
        server.log()
    );
    server.reconfigure(&silent.section("b"));
    assert_eq!(reload(&server).status, 200);
    wait_for_end(first);
    // The server ends while the other order is under way.
    server.terminate();
    assert!(server.wait().success());
    wait_for_end(second);
    // Neither has ended by the time that an authority has.
    assert!(
        !server.log().contains("no certificate was obtained"),
        "{}",
        server.log()
    );
}

#[test]
fn a_certificate_that_another_process_has_obtained_is_used() {
    let silent = Silent::start();
    let folder = silent.folder.path().join("a");
    fs::create_dir(&folder).expect("it is new");
    let lock = fs::File::create(folder.join("lock")).expect("it is new");
    lock.lock().expect("nobody else holds it");
    let server = silent.setup("a").start();
    let address = server.urls()[0]
        .strip_prefix("https://")
        .and_then(|text| text.parse().ok());
    let address = address.expect("an address");
    assert_eq!(served(address, NAMES[0]), None);
    let authority = issuer("another process");
    let mut params = rcgen::CertificateParams::new(NAMES.map(str::to_owned)).expect("names");
    params.not_after = rcgen::date_time_ymd(2100, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key is made");
    let cert = params.signed_by(&key, &authority).expect("it is signed").pem();
    silent
        .folder
        .write("a/a.pem", cert.clone() + &key.serialize_pem());
    lock.unlock().expect("it was locked");
    wait_until("the certificate", || served(address, NAMES[0]).is_some());
    assert_eq!(
        served(address, NAMES[0]),
        first_certificate(&cert.replace("\r\n", "\n"))
    );
    assert!(!server.log().contains("ordering"), "{}", server.log());
}

#[test]
fn clients_that_ask_for_a_name_without_its_certificate_get_no_other() {
    let silent = Silent::start();
    let (cert, key) = for_name(&issuer("other"), "other.example", GOOD);
    let other = cert.pem();
    let server = Setup::new(&(silent.section("a") + "[tls.b]\ncert = \"b.pem\"\nkey = \"b.pem\"\n"))
        .listen("\"https://127.0.0.1:0\"")
        .file("b.pem", other.clone() + &key.serialize_pem())
        .start();
    let address = server.urls()[0]
        .strip_prefix("https://")
        .and_then(|text| text.parse().ok());
    let address = address.expect("an address");
    assert_eq!(served(address, NAMES[0]), None);
    // Those that ask for a name that nobody has get the first that is there.
    for name in ["other.example", "none.example"] {
        assert_eq!(
            served(address, name),
            first_certificate(&other.replace("\r\n", "\n")),
            "{name}"
        );
    }
}

#[test]
fn check_orders_nothing() {
    let silent = Silent::start();
    let folder = Folder::new();
    let section = silent.section("a") + "contact = \"mailto:ops@shop.example\"\n";
    let config = format!("[server]\nlisten = \"https://127.0.0.1:0\"\n{section}");
    folder.write("forebay.toml", config);
    let output = forebay_testkit::command(&["check"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && printed.contains("agree_to_terms = true"),
        "{output:?}"
    );
    // What it prints means the same.
    folder.write("forebay.toml", &printed);
    let again = forebay_testkit::command(&["check"])
        .current_dir(folder.path())
        .output();
    assert_eq!(String::from_utf8_lossy(&again.expect("it runs").stdout), printed);
    silent.listener.set_nonblocking(true).expect("it is open");
    assert!(silent.listener.accept().is_err(), "nothing has connected");
    assert!(!silent.folder.path().join("a").exists());
}

#[test]
fn the_guide_leads_from_an_empty_folder_to_https() {
    const GUIDE: &str = include_str!("../../../../docs/guide/internet.md");
    let pebble = Pebble::start(7_776_000);
    let Ports { http, tls, .. } = pebble.ports;
    let folder = Folder::new();
    let forebay = |arguments: &[&str], cwd: &Path| {
        let mut command = command(arguments);
        command.current_dir(cwd);
        command
    };
    let made = forebay(&["new", "shop"], folder.path())
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{made:?}");
    let shop = folder.path().join("shop");
    let [config] = blocks(GUIDE, "toml")[..] else {
        panic!("the guide has one configuration");
    };
    // The authority, its ports and the admin listener are those of the test.
    let authority = format!(
        "agree_to_terms = true, directory = \"{}\", directory_ca = \"{}\"",
        pebble.directory(),
        pebble.folder.path().join("directory-ca.pem").display()
    );
    let mut config = config.to_owned();
    for (guide, test) in [
        ("0.0.0.0:80", format!("127.0.0.1:{http}")),
        ("0.0.0.0:443", format!("127.0.0.1:{tls}")),
        ("agree_to_terms = true", authority),
        ("[admin]\n", "[admin]\nlisten = \"off\"\n".to_owned()),
    ] {
        assert!(config.contains(guide), "{guide}");
        config = config.replace(guide, &test);
    }
    fs::write(shop.join("forebay.toml"), config).expect("it can be written");
    let checked = forebay(&["check"], &shop).output().expect("it runs");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    assert!(!shop.join("certificates").exists(), "a check orders nothing");
    let serving = forebay(&["serve"], &shop)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _serving = Running(serving.expect("it can be started"));
    let ask = |scheme: &str, port: u16| {
        let output = pebble.ask(scheme, port, "shop.example", "--include");
        String::from_utf8_lossy(&output.stdout).to_lowercase()
    };
    let answer = wait_for("the handler to answer over TLS", || {
        Some(ask("https", tls)).filter(|answer| answer.starts_with("http/2 200"))
    });
    assert!(
        answer.contains("strict-transport-security: max-age=31536000"),
        "{answer}"
    );
    let answer = ask("http", http);
    assert!(answer.starts_with("http/1.1 308"), "{answer}");
    assert!(
        answer.contains(&format!("location: https://shop.example:{tls}/")),
        "{answer}"
    );
}
