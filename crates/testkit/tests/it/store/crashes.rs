//! `kill -9` of the server, or of its workers, at any point: every acknowledged write is there, and no partial one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_testkit::{Client, Folder, Server, wait_until};
use serde_json::Value;

use super::{send, setup};
use crate::support::soak;

const WRITERS: usize = 4;

/// A pseudo-random generator with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Sends a request and reads its response; `None` once the server is gone.
fn attempt(client: &mut Client, method: &str, target: &str, body: &str) -> Option<u16> {
    let bytes = format!(
        "{method} {target} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.try_send(bytes.as_bytes()).ok()?;
    let answer = client.try_response(method).ok()?;
    answer.whole.then_some(answer.status)
}

/// Writes until the server is gone. Returns the numbers of the acknowledged pairs.
fn write(
    server: &Server,
    round: usize,
    writer: usize,
    acknowledged: Arc<AtomicUsize>,
) -> thread::JoinHandle<Vec<usize>> {
    let mut client = server.connect();
    thread::spawn(move || {
        let mut done = Vec::new();
        for number in 0.. {
            // Documents of very different sizes, and pairs that belong together.
            let filler = "x".repeat(number * 37 % 3000);
            let name = format!("{round}-{writer}-{number}");
            let status = if number % 2 == 0 {
                let batch = format!(
                    r#"[{{"op":"put","path":"Open/{name}","value":"{filler}"}},{{"op":"put","path":"Other/{name}","value":"{filler}"}}]"#
                );
                attempt(&mut client, "POST", "/store:batch", &batch)
            } else {
                attempt(
                    &mut client,
                    "PUT",
                    &format!("/store/Open/{name}"),
                    &format!("\"{filler}\""),
                )
            };
            match status {
                None => return done,
                Some(200 | 201) => {
                    done.push(number);
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                Some(other) => panic!("{name} is answered {other}"),
            }
        }
        unreachable!("numbers do not end")
    })
}

fn global(client: &mut Client, name: &str) -> BTreeMap<String, String> {
    send(
        client,
        "GET",
        &format!("/store/{name}"),
        &[("accept", "application/x-ndjson")],
        b"",
    );
    let answer = client.response();
    if answer.status == 404 {
        return BTreeMap::new();
    }
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).expect("a line is JSON");
        let text = |name: &str| match &entry[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (text("key"), text("value"))
    };
    answer.text().lines().map(entry).collect()
}

#[test]
fn a_killed_server_has_every_write_that_it_acknowledged() {
    let rounds = if soak() { 500 } else { 25 };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let folder = Folder::new();
    let keys = format!("path = \"{}\"", folder.path().display());
    let mut expected: Vec<String> = Vec::new();
    for round in 0..=rounds {
        let mut server = setup(&keys, "").start();
        let mut client = server.connect();
        let (open, other) = (global(&mut client, "Open"), global(&mut client, "Other"));
        for name in &expected {
            let number: usize = name.rsplit_once('-').unwrap().1.parse().unwrap();
            let filler = open
                .get(name)
                .unwrap_or_else(|| panic!("{name} is lost in round {round}"));
            assert_eq!(filler.len(), number * 37 % 3000, "{name}");
        }
        for (name, filler) in &open {
            let number: usize = name.rsplit_once('-').unwrap().1.parse().unwrap();
            let pair = number.is_multiple_of(2).then_some(filler);
            assert_eq!(other.get(name), pair, "{name} is half there");
        }
        for name in other.keys() {
            assert!(open.contains_key(name), "{name} is half there");
        }
        if round == rounds {
            break;
        }
        // Each round checks only its own writes, so that rounds stay short.
        for name in ["Open", "Other"] {
            send(&mut client, "DELETE", &format!("/store/{name}"), &[], b"");
            assert!(matches!(client.response().status, 204 | 404));
        }
        expected.clear();
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| write(&server, round, writer, acknowledged.clone()))
            .collect();
        let enough = dice.below(150) as usize;
        wait_until("writes", || acknowledged.load(Ordering::SeqCst) >= enough);
        for _ in 0..dice.below(200_000) {
            std::hint::spin_loop();
        }
        server.kill();
        for (writer, writing) in writing.into_iter().enumerate() {
            let done = writing.join().unwrap();
            expected.extend(
                done.into_iter()
                    .map(|number| format!("{round}-{writer}-{number}")),
            );
        }
    }
}

/// Records a name and counts it, in one transaction: every third with a commit of its own, every fifth is rolled back half way.
const NOTING: &str = "
import { HttpError, store } from 'forebay';
export default (request) => {
    const name = request.path.slice('/note/'.length);
    const number = Number(name.split('-').at(-1));
    const note = () => {
        const count = store.node('Other', 'count').increment();
        store.set('Open', name, count);
        if (number % 5 === 0) throw new HttpError(409, 'given up');
    };
    store.transaction(note, { commit: number % 3 === 0 ? 'now' : 'answer' });
    return 'noted';
};";

#[test]
fn killed_workers_have_made_every_transaction_that_was_answered() {
    const NOTERS: usize = 12;
    let kills = if soak() { 300 } else { 15 };
    let server = setup(
        "",
        "[pool.api]\nhandler = \"api.mjs\"\nworkers = { min = 2, max = 2 }\n[[route]]\npath = \"/note/*\"\npool = \"api\"\n",
    )
    .file("api.mjs", NOTING)
    .start();
    let (noted, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let noters: Vec<_> = (0..NOTERS)
        .map(|noter| {
            let mut client = server.connect();
            let (noted, ends) = (noted.clone(), ends.clone());
            thread::spawn(move || {
                let mut done = Vec::new();
                for number in 1_usize.. {
                    let name = format!("{noter}-{number}");
                    match attempt(&mut client, "POST", &format!("/note/{name}"), "")
                        .expect("the server lives")
                    {
                        200 => {
                            done.push(name);
                            noted.fetch_add(1, Ordering::SeqCst);
                        }
                        409 => assert!(number.is_multiple_of(5), "{name} is given up"),
                        // Its worker was killed, before or after it had recorded the name.
                        502 | 503 => {}
                        other => panic!("{name} is answered {other}"),
                    }
                    if ends.load(Ordering::SeqCst) {
                        return done;
                    }
                }
                unreachable!("numbers do not end")
            })
        })
        .collect();
    for kill in 1..=kills {
        wait_until("notes", || noted.load(Ordering::SeqCst) >= kill * 50);
        server.wait_for_workers(2)[kill % 2].kill();
    }
    ends.store(true, Ordering::SeqCst);
    let answered: Vec<String> = noters
        .into_iter()
        .flat_map(|noter| noter.join().unwrap())
        .collect();
    let mut client = server.connect();
    let found = global(&mut client, "Open");
    for name in &answered {
        assert!(found.contains_key(name), "{name} is lost");
    }
    for name in found.keys() {
        let number: usize = name.rsplit_once('-').unwrap().1.parse().unwrap();
        assert!(!number.is_multiple_of(5), "{name} was given up");
    }
    let mut counts: Vec<usize> = found.values().map(|count| count.parse().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        (1..=found.len()).collect::<Vec<_>>(),
        "each was counted once"
    );
}
