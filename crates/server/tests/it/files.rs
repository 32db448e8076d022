//! A static folder through its public API.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use forebay_server::files::{FileAnswer, FileBody, Folder, Found, METHODS, Version};

/// A folder `public` with files to serve, and a secret next to it; removed at the end.
struct Site {
    root: PathBuf,
    folder: Folder,
}

impl Site {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("fbf-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("public/docs/empty")).unwrap();
        fs::create_dir_all(root.join("public/.git")).unwrap();
        for (path, text) in [
            ("secret.txt", "secret"),
            ("public/index.html", "<h1>home</h1>"),
            ("public/a.txt", "0123456789"),
            ("public/zero", ""),
            ("public/docs/index.html", "docs"),
            ("public/docs/höhe 50%.css", "css"),
            ("public/.env", "hidden"),
            ("public/.git/config", "hidden"),
        ] {
            fs::write(root.join(path), text).unwrap();
        }
        fs::write(root.join("public/big.bin"), vec![7; 100_000]).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
        File::options()
            .write(true)
            .open(root.join("public/a.txt"))
            .unwrap()
            .set_modified(modified)
            .unwrap();
        let folder = Folder::open(&root.join("public"), true).unwrap();
        Self { root, folder }
    }

    fn ask(&self, method: &str, rest: &str, headers: &[(&str, &str)]) -> FileAnswer {
        let header = |name: &'static str| {
            headers
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| Cow::Borrowed(*value))
        };
        self.folder.answer(method, rest, &header).unwrap()
    }

    fn get(&self, rest: &str) -> FileAnswer {
        self.ask("GET", rest, &[])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

/// The file of an answer, and whether the whole file is sent; `None` for answers without a file.
fn found(answer: FileAnswer) -> Option<(Found, bool)> {
    match answer {
        FileAnswer::Whole(found) => Some((found, true)),
        FileAnswer::Part { found, .. } => Some((found, false)),
        _ => None,
    }
}

fn body(answer: FileAnswer) -> Vec<u8> {
    match found(answer).expect("a file answers").0.body {
        FileBody::Bytes(bytes) => bytes,
        FileBody::File { file, offset, len } => {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, offset).unwrap();
            bytes
        }
    }
}

fn version(answer: FileAnswer) -> Version {
    match answer {
        FileAnswer::NotModified(version) => version,
        answer => found(answer).expect("a file answers").0.version,
    }
}

fn is_absent(answer: &FileAnswer) -> bool {
    matches!(answer, FileAnswer::Absent)
}

#[test]
fn a_file_is_answered_with_its_type_and_validators() {
    let site = Site::new("file");
    let (file, true) = found(site.get("a.txt")).unwrap() else {
        panic!("not whole")
    };
    assert_eq!(file.media_type, "text/plain; charset=utf-8");
    assert_eq!(
        file.version.modified,
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
    );
    assert!(file.version.etag.starts_with('"'));
    assert_eq!(body(site.get("a.txt")), b"0123456789");
}

#[test]
fn clients_that_accept_it_get_the_compressed_file_beside_the_one_they_ask_for() {
    let site = Site::new("compressed");
    for (name, text) in [
        ("a.txt.gz", "gz"),
        ("a.txt.br", "br"),
        ("docs/index.html.gz", "docs gz"),
        ("b.txt.gz", "b"),
    ] {
        fs::write(site.root.join("public").join(name), text).unwrap();
    }
    fs::create_dir(site.root.join("public/a.txt.zst")).unwrap();
    for (path, accepted, coding, text) in [
        ("a.txt", "gzip, deflate, br, zstd", Some("br"), "br"),
        ("a.txt", "zstd;q=1, GZIP ; q=0.5, br;q=0", Some("gzip"), "gz"),
        ("a.txt", "gzip;q=0.0", None, "0123456789"),
        ("a.txt", "*", Some("br"), "br"),
        ("a.txt", "br;q=0.5, gzip", Some("gzip"), "gz"),
        ("docs/", "gzip", Some("gzip"), "docs gz"),
        ("docs/h%C3%B6he%2050%25.css", "gzip", None, "css"),
        ("a.txt.gz", "gzip", None, "gz"),
    ] {
        let answer = || site.ask("GET", path, &[("accept-encoding", accepted)]);
        assert_eq!(found(answer()).unwrap().0.coding, coding, "{path} {accepted}");
        assert_eq!(body(answer()), text.as_bytes(), "{path} {accepted}");
    }
    let (file, _) = found(site.ask("GET", "a.txt", &[("accept-encoding", "br")])).unwrap();
    assert_eq!(file.media_type, "text/plain; charset=utf-8");
    assert_ne!(file.version, version(site.get("a.txt")));
    assert!(is_absent(&site.ask(
        "GET",
        "b.txt",
        &[("accept-encoding", "gzip")]
    )));
    let off = Folder::open(&site.root.join("public"), false).unwrap();
    let answer = off
        .answer("GET", "a.txt", &|name| {
            (name == "accept-encoding").then_some(Cow::Borrowed("br"))
        })
        .unwrap();
    assert_eq!(found(answer).unwrap().0.coding, None);
}

#[test]
fn names_are_percent_decoded() {
    let site = Site::new("decoded");
    let path = "docs/h%C3%B6he%2050%25.css";
    let (file, _) = found(site.get(path)).unwrap();
    assert_eq!(file.media_type, "text/css; charset=utf-8");
    assert_eq!(body(site.get(path)), b"css");
}

#[test]
fn large_files_are_handed_on_open_and_small_ones_as_bytes() {
    let site = Site::new("large");
    let FileBody::File {
        mut file,
        offset: 0,
        len: 100_000,
    } = found(site.get("big.bin")).unwrap().0.body
    else {
        panic!("not the open file")
    };
    assert_eq!(file.read(&mut [0; 10]).unwrap(), 10);
    let part = site.ask("GET", "big.bin", &[("range", "bytes=10-90000")]);
    assert!(matches!(
        found(part).unwrap().0.body,
        FileBody::File {
            offset: 10,
            len: 89_991,
            ..
        }
    ));
    assert!(matches!(found(site.get("zero")).unwrap().0.body, FileBody::Bytes(bytes) if bytes.is_empty()));
}

#[test]
fn a_folder_answers_with_its_index_and_sends_those_who_forget_the_slash() {
    let site = Site::new("index");
    assert_eq!(body(site.get("")), b"<h1>home</h1>");
    assert_eq!(body(site.get("docs/")), b"docs");
    fs::create_dir(site.root.join("public/docs/a:b é")).unwrap();
    for (rest, expected) in [
        ("docs", "./docs/"),
        ("d%6Fcs", "./docs/"),
        ("docs/a%3Ab%20%C3%A9", "./a%3Ab%20%C3%A9/"),
    ] {
        let FileAnswer::Redirect { location } = site.get(rest) else {
            panic!("{rest} is a folder")
        };
        assert_eq!(location, expected, "{rest}");
    }
    assert!(is_absent(&site.get("docs/empty/")));
    fs::create_dir(site.root.join("public/docs/empty/index.html")).unwrap();
    assert!(is_absent(&site.get("docs/empty/")));
    assert!(is_absent(&site.get("a.txt/")));
}

#[test]
fn nothing_outside_the_folder_and_nothing_hidden_is_found() {
    let site = Site::new("outside");
    let public = site.root.join("public");
    symlink("../secret.txt", public.join("link.txt")).unwrap();
    symlink(site.root.join("secret.txt"), public.join("absolute.txt")).unwrap();
    symlink("..", public.join("up")).unwrap();
    symlink("a.txt", public.join("near.txt")).unwrap();
    for rest in [
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "..%5csecret.txt",
        "docs/../../secret.txt",
        "docs%2f..%2f..%2fsecret.txt",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "docs%2Findex.html",
        "docs%2F..%2F.env",
        "docs//index.html",
        "./a.txt",
        "a.txt%00",
        "a.txt%00.html",
        "%zz",
        "%ff",
        "%",
        ".env",
        "%2eenv",
        ".git/config",
        "link.txt",
        "absolute.txt",
        "up/secret.txt",
        "up/",
        "absent",
        "a.txt/more",
        &"x".repeat(5000),
        &"x/".repeat(5000),
    ] {
        assert!(is_absent(&site.get(rest)), "{rest}");
    }
    assert_eq!(body(site.get("near.txt")), b"0123456789");
}

#[test]
fn only_regular_files_are_answered_and_a_pipe_does_not_block() {
    let site = Site::new("pipe");
    let pipe = site.root.join("public/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.root.join("public/socket")).unwrap();
    assert!(is_absent(&site.get("pipe")) && is_absent(&site.get("socket")));
}

#[test]
fn only_get_and_head_are_answered() {
    let site = Site::new("methods");
    for (method, asked) in [
        ("POST", false),
        ("DELETE", false),
        ("get", false),
        ("OPTIONS", true),
    ] {
        let FileAnswer::Methods { are_asked_for } = site.ask(method, "a.txt", &[]) else {
            panic!("{method} is none of {METHODS}")
        };
        assert_eq!(are_asked_for, asked, "{method}");
    }
}

#[test]
fn head_is_answered_like_get_without_reading() {
    let site = Site::new("head");
    let (get, _) = found(site.get("a.txt")).unwrap();
    let head = site.ask("HEAD", "a.txt", &[("range", "bytes=0-1")]);
    let (head, true) = found(head).unwrap() else {
        panic!("a range is for GET alone")
    };
    assert_eq!((head.version, head.media_type), (get.version, get.media_type));
    assert!(matches!(head.body, FileBody::File { len: 10, .. }));
}

#[test]
fn a_client_that_has_the_file_gets_304() {
    let site = Site::new("fresh");
    let etag = version(site.get("a.txt")).etag;
    let weak = format!("W/{etag}");
    let among = format!("\"other\", {etag}");
    let (same, earlier) = ("Tue, 14 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:19 GMT");
    for (headers, status) in [
        (vec![("if-none-match", etag.as_str())], 304),
        (vec![("if-none-match", weak.as_str())], 304),
        (vec![("if-none-match", among.as_str())], 304),
        (vec![("if-none-match", "*")], 304),
        (vec![("if-none-match", "\"other\"")], 200),
        (
            vec![("if-none-match", "\"other\""), ("if-modified-since", same)],
            200,
        ),
        (vec![("if-modified-since", same)], 304),
        (vec![("if-modified-since", earlier)], 200),
        (vec![("if-modified-since", "yesterday")], 200),
        (vec![("if-match", among.as_str())], 200),
        (vec![("if-match", "*"), ("if-modified-since", same)], 304),
        (vec![("if-match", weak.as_str())], 412),
        (vec![("if-match", "\"other\""), ("if-none-match", "*")], 412),
    ] {
        let answer = site.ask("GET", "a.txt", &headers);
        let said = match &answer {
            FileAnswer::Whole(_) => 200,
            FileAnswer::NotModified(_) => 304,
            FileAnswer::Precondition => 412,
            other => panic!("{headers:?}: {other:?}"),
        };
        assert_eq!(said, status, "{headers:?}");
        if said != 412 {
            assert_eq!(version(answer).etag, etag, "{headers:?}");
        }
    }
}

#[test]
fn a_changed_file_has_another_etag() {
    let site = Site::new("changed");
    let before = version(site.get("a.txt"));
    let file = File::options()
        .write(true)
        .open(site.root.join("public/a.txt"))
        .unwrap();
    file.write_all_at(b"X", 0).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_501))
        .unwrap();
    assert_ne!(version(site.get("a.txt")).etag, before.etag);
}

#[test]
fn a_range_is_answered_with_that_part() {
    let site = Site::new("range");
    for (range, at, expected) in [
        ("bytes=2-4", Some((2, 4)), "234"),
        ("bytes=8-", Some((8, 9)), "89"),
        ("bytes=-1", Some((9, 9)), "9"),
        ("bytes=0-1,3-4", None, "0123456789"),
        ("nonsense", None, "0123456789"),
    ] {
        let answer = site.ask("GET", "a.txt", &[("range", range)]);
        let part = match &answer {
            FileAnswer::Part {
                first,
                last,
                size: 10,
                ..
            } => Some((*first, *last)),
            FileAnswer::Whole(_) => None,
            other => panic!("{range}: {other:?}"),
        };
        assert_eq!(part, at, "{range}");
        assert_eq!(body(answer), expected.as_bytes(), "{range}");
    }
    let beyond = site.ask("GET", "a.txt", &[("range", "bytes=10-")]);
    assert!(matches!(beyond, FileAnswer::Unsatisfiable { size: 10 }));
}

#[test]
fn a_range_of_another_version_gets_the_whole_file() {
    let site = Site::new("if-range");
    let etag = version(site.get("a.txt")).etag;
    let weak = format!("W/{etag}");
    for (if_range, is_whole) in [
        (etag.as_str(), false),
        ("\"other\"", true),
        (weak.as_str(), true),
        ("Tue, 14 Nov 2023 22:13:20 GMT", false),
        ("Tue, 14 Nov 2023 22:13:21 GMT", true),
        ("nonsense", true),
    ] {
        let answer = site.ask("GET", "a.txt", &[("range", "bytes=0-1"), ("if-range", if_range)]);
        assert_eq!(found(answer).unwrap().1, is_whole, "{if_range}");
    }
}
