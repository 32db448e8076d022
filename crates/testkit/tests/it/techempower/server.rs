//! A small server with the routes of the benchmarks, which follows all rules but one.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use forebay_testkit::Postgres;
use postgres::{Client, NoTls, SimpleQueryMessage};
use serde_json::{Value, json};

/// The rule that a server breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    Nothing,
    /// Answers with status 500.
    Status,
    Empty,
    NotJson,
    NoServer,
    NoDate,
    /// The date of an hour ago.
    FalseDate,
    /// The date of its first answer.
    FrozenDate,
    NoLength,
    MediaType,
    Greeting,
    /// `randomnumber` in lower case.
    Keys,
    /// Numbers as texts.
    Texts,
    /// Numbers that the database does not have.
    Invented,
    /// The same row each time.
    OneRow,
    /// No row where fewer than one are asked for.
    NoLeast,
    /// More than 500 rows where more are asked for.
    NoMost,
    /// An object instead of an array of one.
    OneObject,
    NotWritten,
    /// The same new number for all rows.
    OneNumber,
    Unsorted,
    Unescaped,
    /// A byte that is not UTF-8.
    Latin,
    /// Rows that were read before.
    FromMemory,
    /// One statement for all rows.
    AllAtOnce,
    /// An update with a `select` in it.
    ReadsWhileWriting,
    /// An error for each client but some.
    FewClients,
}

/// Number of simultaneous clients that get a response with [`Break::FewClients`].
const FEW: usize = 100;

/// A server that runs until dropped.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    broken: Break,
    database: Mutex<Database>,
    clients: AtomicUsize,
    ended: AtomicUsize,
    begun: SystemTime,
}

/// The database, with the rows that were read from it at the start.
struct Database {
    client: Client,
    worlds: Vec<(i32, i32)>,
    fortunes: Vec<(i32, String)>,
    drawn: u32,
}

impl Server {
    pub(super) fn start(postgres: &Postgres, broken: Break) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let client = Client::connect(&postgres.url(), NoTls).expect("the database answers");
        let shared = Arc::new(Shared {
            broken,
            database: Mutex::new(Database::of(client)),
            clients: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            begun: SystemTime::now(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming() {
                if serving.ended.load(Ordering::Relaxed) > 0 {
                    return;
                }
                let connection = Arc::clone(&serving);
                thread::spawn(move || connection.serve(&socket.expect("a client connects")));
            }
        });
        Self { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(1, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn breaks(&self, rule: Break) -> bool {
        self.broken == rule
    }

    fn serve(&self, socket: &TcpStream) {
        let among = self.clients.fetch_add(1, Ordering::Relaxed);
        let mut lines = BufReader::new(socket).lines().map_while(Result::ok);
        while let Some(line) = lines.next() {
            let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
            // The fields, to the empty line.
            lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
            let refused = self.breaks(Break::FewClients) && among > FEW;
            let (media_type, body) = self.body(&target);
            let answer = self.answer(media_type, body, refused);
            let mut socket = socket;
            if socket.write_all(&answer).is_err() || self.breaks(Break::NoLength) {
                break;
            }
        }
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    fn answer(&self, media_type: &str, mut body: Vec<u8>, refused: bool) -> Vec<u8> {
        let status = if self.breaks(Break::Status) || refused {
            "500 Broken"
        } else {
            "200 OK"
        };
        if self.breaks(Break::Empty) {
            body.clear();
        }
        let now = match self.broken {
            Break::FrozenDate => self.begun,
            Break::FalseDate => SystemTime::now() - Duration::from_hours(1),
            _ => SystemTime::now(),
        };
        let media_type = if self.breaks(Break::MediaType) {
            "application/octet-stream"
        } else {
            media_type
        };
        let fields = [
            (Break::NoServer, "server", "a test".to_owned()),
            (Break::NoDate, "date", httpdate::fmt_http_date(now)),
            (Break::NoLength, "content-length", body.len().to_string()),
            (Break::Nothing, "content-type", media_type.to_owned()),
        ];
        let mut answer = format!("HTTP/1.1 {status}\r\n");
        for (rule, name, value) in fields {
            if rule == Break::Nothing || !self.breaks(rule) {
                answer.extend([name, ": ", &value, "\r\n"]);
            }
        }
        answer.push_str("\r\n");
        let mut answer = answer.into_bytes();
        answer.append(&mut body);
        answer
    }

    fn body(&self, target: &str) -> (&'static str, Vec<u8>) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let asked = query.split_once('=').map_or("", |(_, asked)| asked);
        let mut database = self.database.lock().expect("no thread panics");
        let greeting = if self.breaks(Break::Greeting) {
            "Hello!"
        } else {
            "Hello, World!"
        };
        let value = match path {
            "/plaintext" => return ("text/plain", greeting.into()),
            "/fortunes" => {
                let page = database.page(self.broken);
                return ("text/html; charset=utf-8", page);
            }
            "/json" => json!({ "message": greeting }),
            "/db" => self.shown(database.draw(1, self.broken)[0]),
            "/updates" => {
                let rows = database.update(self.count(asked), self.broken);
                self.all_shown(&rows)
            }
            "/cached-queries" => {
                let rows = database.draw(self.count(asked), Break::FromMemory);
                self.all_shown(&rows)
            }
            _ => {
                let rows = database.draw(self.count(asked), self.broken);
                self.all_shown(&rows)
            }
        };
        let text = value.to_string();
        let text = if self.breaks(Break::NotJson) {
            format!("{text},")
        } else {
            text
        };
        ("application/json", text.into_bytes())
    }

    fn count(&self, asked: &str) -> usize {
        let digits = asked.strip_prefix('-').unwrap_or(asked);
        let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A number with too many digits exceeds the maximum.
        let asked: i64 = if is_integer {
            asked.parse().unwrap_or(501)
        } else {
            1
        };
        let least = i64::from(!self.breaks(Break::NoLeast));
        let most = if self.breaks(Break::NoMost) { 501 } else { 500 };
        asked.clamp(least, most) as usize
    }

    fn shown(&self, (id, number): (i32, i32)) -> Value {
        match self.broken {
            Break::Keys => json!({ "id": id, "randomnumber": number }),
            Break::Texts => json!({ "id": id.to_string(), "randomNumber": number.to_string() }),
            Break::Invented => json!({ "id": id, "randomNumber": number % 10_000 + 1 }),
            _ => json!({ "id": id, "randomNumber": number }),
        }
    }

    fn all_shown(&self, rows: &[(i32, i32)]) -> Value {
        match rows {
            [row] if self.breaks(Break::OneObject) => self.shown(*row),
            rows => rows.iter().map(|row| self.shown(*row)).collect(),
        }
    }
}

fn row(message: &SimpleQueryMessage) -> Option<(i32, i32)> {
    let SimpleQueryMessage::Row(row) = message else {
        return None;
    };
    let number = |column: usize| row.get(column)?.parse().ok();
    Some((number(0)?, number(1)?))
}

impl Database {
    fn of(mut client: Client) -> Self {
        let worlds = client.query("select id, randomNumber from world", &[]);
        let worlds = worlds.expect("the table is there");
        let fortunes = client.query("select id, message from fortune", &[]);
        let fortunes = fortunes.expect("the table is there");
        Self {
            client,
            worlds: worlds.iter().map(|row| (row.get(0), row.get(1))).collect(),
            fortunes: fortunes.iter().map(|row| (row.get(0), row.get(1))).collect(),
            drawn: 0,
        }
    }

    /// A number from 1 to 10000 that is not repeated soon.
    fn lot(&mut self) -> i32 {
        self.drawn = (self.drawn + 3_571) % 10_000;
        self.drawn.cast_signed() + 1
    }

    fn draw(&mut self, count: usize, broken: Break) -> Vec<(i32, i32)> {
        let ids: Vec<i32> = (0..count).map(|_| self.lot()).collect();
        match broken {
            Break::FromMemory => self
                .worlds
                .iter()
                .filter(|(id, _)| ids.contains(id))
                .copied()
                .collect(),
            Break::AllAtOnce => {
                let query = "select id, randomNumber from world where id = any ($1)";
                let rows = self.client.query(query, &[&ids]).expect("the table is there");
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            _ => {
                // One statement each, sent together.
                let ids = ids.iter().map(|id| if broken == Break::OneRow { &1 } else { id });
                let statements: Vec<String> = ids
                    .map(|id| format!("select id, randomNumber from world where id = {id};"))
                    .collect();
                let messages = self.client.simple_query(&statements.concat());
                let messages = messages.expect("the table is there");
                messages.iter().filter_map(row).collect()
            }
        }
    }

    fn update(&mut self, count: usize, broken: Break) -> Vec<(i32, i32)> {
        let mut rows = self.draw(count, Break::Nothing);
        let same = self.lot();
        for (_, number) in &mut rows {
            *number = if broken == Break::OneNumber {
                same
            } else {
                self.lot()
            };
        }
        let (ids, numbers): (Vec<i32>, Vec<i32>) = rows.iter().copied().unzip();
        let from = match broken {
            Break::NotWritten => return rows,
            Break::ReadsWhileWriting => "(select unnest($1::int4[]) as id, unnest($2::int4[]) as r) as v",
            _ => "unnest($1::int4[], $2::int4[]) as v (id, r)",
        };
        let update = format!("update world as w set randomNumber = v.r from {from} where w.id = v.id");
        self.client
            .execute(&update, &[&ids, &numbers])
            .expect("the table is there");
        rows
    }

    fn page(&mut self, broken: Break) -> Vec<u8> {
        let mut fortunes = if broken == Break::FromMemory {
            self.fortunes.clone()
        } else {
            let rows = self.client.query("select id, message from fortune", &[]);
            let rows = rows.expect("the table is there");
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        };
        fortunes.push((0, "Additional fortune added at request time.".to_owned()));
        if broken != Break::Unsorted {
            fortunes.sort_by(|one, other| one.1.cmp(&other.1));
        }
        let mut page = "<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>\
                        <tr><th>id</th><th>message</th></tr>"
            .to_owned();
        for (id, message) in fortunes {
            let message = if broken == Break::Unescaped {
                message
            } else {
                message
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;")
            };
            page.extend(["<tr><td>", &id.to_string(), "</td><td>", &message, "</td></tr>"]);
        }
        page.push_str("</table></body></html>");
        let mut page = page.into_bytes();
        if broken == Break::Latin {
            page.push(0xe9);
        }
        page
    }
}
