//! A browser that keeps cookies and follows redirects.

use std::{fs, process::Command};

use forebay_testkit::Folder;
use serde_json::Value;

/// What a browser that opens a page says of that.
pub(super) const NAVIGATION: [&str; 2] = ["accept: text/html,*/*;q=0.8", "sec-fetch-mode: navigate"];

/// A browser: curl with a folder for its cookies. Its name is that under which the provider lets it in.
pub(super) struct Browser {
    name: &'static str,
    pub(super) folder: Folder,
    /// A file with the authority that it trusts.
    pub(super) authority: Option<String>,
}

impl Browser {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            folder: Folder::new(),
            authority: None,
        }
    }

    fn jar(&self) -> String {
        self.folder.path().join("cookies").display().to_string()
    }

    /// Status, address and body in the end, however often it is sent elsewhere.
    pub(super) fn open(&self, url: &str, options: &[&str]) -> (u16, String, String) {
        let jar = self.jar();
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--location",
            "--path-as-is",
            "--cookie",
            &jar,
            "--cookie-jar",
            &jar,
        ])
        .args([
            "--user-agent",
            self.name,
            "--write-out",
            "\n%{http_code} %{url_effective}",
        ])
        .args(NAVIGATION.iter().flat_map(|line| ["--header", line]))
        .args(options);
        if let Some(authority) = &self.authority {
            curl.args(["--cacert", authority]);
        }
        let output = curl.arg(url).output().expect("curl runs");
        assert!(output.status.success(), "{url}: {output:?}");
        let text = String::from_utf8(output.stdout).expect("it is text");
        let (body, last) = text.rsplit_once('\n').expect("a last line");
        let (status, address) = last.split_once(' ').expect("status and address");
        (
            status.parse().expect("a status"),
            address.to_owned(),
            body.to_owned(),
        )
    }

    pub(super) fn json(&self, url: &str, options: &[&str]) -> Value {
        let (status, _, body) = self.open(url, options);
        assert_eq!(status, 200, "{url}: {body}");
        serde_json::from_str(&body).expect("it is JSON")
    }

    /// The field with its session, without TLS.
    pub(super) fn header(&self) -> String {
        let line = self.cookies().pop().expect("it is logged in");
        let (_, value) = line.rsplit_once('\t').expect("its value");
        format!("cookie: forebay.people={value}")
    }

    /// The lines of its cookies of this server.
    pub(super) fn cookies(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.jar()).unwrap_or_default();
        let lines = lines.lines().filter(|line| line.contains("forebay."));
        lines.map(str::to_owned).collect()
    }
}
