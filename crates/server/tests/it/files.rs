//! A static folder through its public face.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use forebay_server::files::{FileAnswer, FileBody, Folder};

/// `public` with files to serve, and a secret beside it; removed at the end.
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
        let folder = Folder::open(&root.join("public")).unwrap();
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

fn header<'a>(answer: &'a FileAnswer, name: &str) -> Option<&'a str> {
    answer
        .headers
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value.as_str())
}

fn body(answer: FileAnswer) -> Vec<u8> {
    match answer.body {
        FileBody::Empty => Vec::new(),
        FileBody::Bytes(bytes) => bytes,
        FileBody::File { file, offset, len } => {
            let mut bytes = vec![0; len as usize];
            file.read_exact_at(&mut bytes, offset).unwrap();
            bytes
        }
    }
}

#[test]
fn a_file_is_answered_with_its_type_length_and_validators() {
    let site = Site::new("file");
    let answer = site.get("a.txt");
    assert_eq!(answer.status, 200);
    assert_eq!(header(&answer, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(header(&answer, "content-length"), Some("10"));
    assert_eq!(header(&answer, "accept-ranges"), Some("bytes"));
    assert_eq!(
        header(&answer, "last-modified"),
        Some("Tue, 14 Nov 2023 22:13:20 GMT")
    );
    assert!(header(&answer, "etag").unwrap().starts_with('"'));
    assert_eq!(body(answer), b"0123456789");
}

#[test]
fn names_are_percent_decoded() {
    let site = Site::new("decoded");
    let answer = site.get("docs/h%C3%B6he%2050%25.css");
    assert_eq!(
        (answer.status, header(&answer, "content-type")),
        (200, Some("text/css; charset=utf-8"))
    );
    assert_eq!(body(answer), b"css");
}

#[test]
fn large_files_are_handed_on_open_and_small_ones_as_bytes() {
    let site = Site::new("large");
    let FileBody::File {
        mut file,
        offset: 0,
        len: 100_000,
    } = site.get("big.bin").body
    else {
        panic!("not the open file")
    };
    assert_eq!(file.read(&mut [0; 10]).unwrap(), 10);
    let part = site.ask("GET", "big.bin", &[("range", "bytes=10-90000")]);
    assert!(matches!(
        part.body,
        FileBody::File {
            offset: 10,
            len: 89_991,
            ..
        }
    ));
    assert!(matches!(site.get("zero").body, FileBody::Bytes(bytes) if bytes.is_empty()));
}

#[test]
fn a_folder_answers_with_its_index_and_sends_those_who_forget_the_slash() {
    let site = Site::new("index");
    assert_eq!(body(site.get("")), b"<h1>home</h1>");
    assert_eq!(body(site.get("docs/")), b"docs");
    fs::create_dir(site.root.join("public/docs/a:b é")).unwrap();
    for (rest, location) in [
        ("docs", "./docs/"),
        ("d%6Fcs", "./docs/"),
        ("docs/a%3Ab%20%C3%A9", "./a%3Ab%20%C3%A9/"),
    ] {
        let answer = site.get(rest);
        assert_eq!(
            (answer.status, header(&answer, "location")),
            (301, Some(location)),
            "{rest}"
        );
    }
    assert_eq!(site.get("docs/empty/").status, 404);
    fs::create_dir(site.root.join("public/docs/empty/index.html")).unwrap();
    assert_eq!(site.get("docs/empty/").status, 404);
    assert_eq!(site.get("a.txt/").status, 404);
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
        let answer = site.get(rest);
        assert_eq!(answer.status, 404, "{rest}");
        assert!(body(answer).is_empty());
    }
    assert_eq!(body(site.get("near.txt")), b"0123456789");
}

#[test]
fn only_regular_files_are_answered_and_a_pipe_does_not_block() {
    let site = Site::new("pipe");
    let pipe = site.root.join("public/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.root.join("public/socket")).unwrap();
    assert_eq!((site.get("pipe").status, site.get("socket").status), (404, 404));
}

#[test]
fn only_get_and_head_are_answered() {
    let site = Site::new("methods");
    for (method, status) in [("POST", 405), ("DELETE", 405), ("get", 405), ("OPTIONS", 204)] {
        let answer = site.ask(method, "a.txt", &[]);
        assert_eq!(
            (answer.status, header(&answer, "allow")),
            (status, Some("GET, HEAD, OPTIONS")),
            "{method}"
        );
    }
}

#[test]
fn head_has_the_headers_of_get_and_no_body() {
    let site = Site::new("head");
    let (get, head) = (
        site.get("a.txt"),
        site.ask("HEAD", "a.txt", &[("range", "bytes=0-1")]),
    );
    assert_eq!((head.status, &head.headers), (200, &get.headers));
    assert!(matches!(head.body, FileBody::Empty));
}

#[test]
fn a_client_that_has_the_file_gets_304() {
    let site = Site::new("fresh");
    let etag = header(&site.get("a.txt"), "etag").unwrap().to_owned();
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
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(header(&answer, "etag"), Some(etag.as_str()), "{headers:?}");
        assert_eq!(
            header(&answer, "content-length").is_some(),
            status == 200,
            "{headers:?}"
        );
    }
}

#[test]
fn a_changed_file_has_another_etag() {
    let site = Site::new("changed");
    let before = header(&site.get("a.txt"), "etag").unwrap().to_owned();
    let file = File::options()
        .write(true)
        .open(site.root.join("public/a.txt"))
        .unwrap();
    file.write_all_at(b"X", 0).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_501))
        .unwrap();
    assert_ne!(header(&site.get("a.txt"), "etag").unwrap(), before);
}

#[test]
fn a_range_is_answered_with_that_part() {
    let site = Site::new("range");
    for (range, status, content_range, expected) in [
        ("bytes=2-4", 206, Some("bytes 2-4/10"), "234"),
        ("bytes=8-", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=-1", 206, Some("bytes 9-9/10"), "9"),
        ("bytes=10-", 416, Some("bytes */10"), ""),
        ("bytes=0-1,3-4", 200, None, "0123456789"),
        ("nonsense", 200, None, "0123456789"),
    ] {
        let answer = site.ask("GET", "a.txt", &[("range", range)]);
        assert_eq!(
            (answer.status, header(&answer, "content-range")),
            (status, content_range),
            "{range}"
        );
        if status != 416 {
            assert_eq!(
                header(&answer, "content-length"),
                Some(expected.len().to_string().as_str()),
                "{range}"
            );
        }
        assert_eq!(body(answer), expected.as_bytes(), "{range}");
    }
}

#[test]
fn a_range_of_another_version_gets_the_whole_file() {
    let site = Site::new("if-range");
    let etag = header(&site.get("a.txt"), "etag").unwrap().to_owned();
    let weak = format!("W/{etag}");
    for (if_range, status) in [
        (etag.as_str(), 206),
        ("\"other\"", 200),
        (weak.as_str(), 200),
        ("Tue, 14 Nov 2023 22:13:20 GMT", 206),
        ("Tue, 14 Nov 2023 22:13:21 GMT", 200),
        ("nonsense", 200),
    ] {
        let answer = site.ask("GET", "a.txt", &[("range", "bytes=0-1"), ("if-range", if_range)]);
        assert_eq!(answer.status, status, "{if_range}");
    }
}
