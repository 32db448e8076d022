//! Static files over HTTP.

use forebay_testkit::{Server, Setup};

/// A folder at `/files/*`, whose route has these keys too.
fn serve(keys: &str) -> Server {
    Setup::new(&format!(
        "[[route]]\npath = \"/files/*\"\nfiles = \"public\"\n{keys}\n"
    ))
    .file("public/page.html", "<p>hello</p>")
    .file("public/page.html.gz", "compressed")
    .file("public/.secret", "x")
    .start()
}

#[test]
fn static_files_are_served_whole_in_part_or_not_at_all() {
    let server = serve("");
    let mut client = server.connect();
    let page = client.get("/files/page.html");
    assert_eq!((page.status, page.text()), (200, "<p>hello</p>"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let etag = page.header("etag").expect("files have an entity tag").to_owned();
    let mut ask = |field: &str| {
        client.send(format!(
            "GET /files/page.html HTTP/1.1\r\nhost: a\r\n{field}\r\n\r\n"
        ));
        client.response()
    };
    assert_eq!(ask(&format!("if-none-match: {etag}")).status, 304);
    let lines = format!("if-none-match: \"a\"\r\nif-none-match: {etag}, \"b\"");
    assert_eq!(ask(&lines).status, 304);
    assert_eq!(ask(&lines.replace("none-", "")).status, 200);
    assert_eq!(ask("if-match: \"a\"\r\nif-match: \"b\"").status, 412);
    assert_eq!(ask("if-none-match: a").status, 400);
    let part = ask("range: bytes=3-7");
    assert_eq!(
        (part.status, part.text(), part.header("content-range")),
        (206, "hello", Some("bytes 3-7/12"))
    );
    let beyond = ask("range: bytes=100-");
    assert_eq!(
        (beyond.status, beyond.header("content-range")),
        (416, Some("bytes */12"))
    );
    assert_eq!(
        beyond.detail(),
        "the requested range is outside the file of 12 bytes"
    );
    client.request("HEAD", "/files/page.html");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.header("content-length")), (200, Some("12")));
    for (method, status) in [("OPTIONS", 204), ("DELETE", 405)] {
        client.request(method, "/files/page.html");
        let answer = client.response();
        assert_eq!(
            (answer.status, answer.header("allow")),
            (status, Some("GET, HEAD, OPTIONS"))
        );
    }
    for (path, status) in [
        ("/files/.secret", 404),
        ("/files/none", 404),
        ("/files/../forebay.toml", 400),
        ("/files/%2e%2e/forebay.toml", 400),
        ("/files/..%2fforebay.toml", 404),
        ("/files/%00", 400),
        ("/files/%zz", 400),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
}

#[test]
fn files_have_the_cache_control_of_their_route_and_stand_in_compressed() {
    let server = serve("cache_control = \"public, max-age=60\"\nprecompressed = true");
    let mut client = server.connect();
    let mut ask = |fields: &str| {
        client.send(format!(
            "GET /files/page.html HTTP/1.1\r\nhost: a\r\n{fields}\r\n"
        ));
        client.response()
    };
    let plain = ask("");
    let names = ["cache-control", "vary", "content-encoding", "content-type"];
    let html = Some("text/html; charset=utf-8");
    let cached = Some("public, max-age=60");
    assert_eq!(plain.text(), "<p>hello</p>");
    assert_eq!(
        names.map(|name| plain.header(name)),
        [cached, Some("accept-encoding"), None, html]
    );
    let compressed = ask("accept-encoding: gzip, br\r\n");
    assert_eq!(compressed.text(), "compressed");
    let found = names.map(|name| compressed.header(name));
    assert_eq!(found, [cached, Some("accept-encoding"), Some("gzip"), html]);
    let etag = compressed.header("etag").expect("files have an entity tag");
    let known = ask(&format!("accept-encoding: gzip\r\nif-none-match: {etag}\r\n"));
    assert_eq!((known.status, known.header("cache-control")), (304, cached));
    assert_eq!(ask(&format!("if-none-match: {etag}\r\n")).status, 200);
    assert_eq!(server.get("/files/none").header("cache-control"), None);
}
