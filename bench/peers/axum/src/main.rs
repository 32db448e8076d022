//! The routes of the TechEmpower benchmarks in axum. Each thread has its own runtime, socket and pipelined connection of tokio-postgres, as
//! in axum's entry there.
//!
//! Usage: `forebay-bench-axum URL` with `postgres://user:password@host:port/database`; it prints `listening on http://127.0.0.1:PORT`.

use std::{env, error::Error, net::SocketAddr, sync::Arc, thread};

use askama::Template;
use axum::{
    Json, Router,
    extract::{Path, Query, State},
    response::Html,
    routing::get,
};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio_postgres::{Client, NoTls, Statement};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORLDS: i32 = 10_000;
const QUERIES_MAX: i32 = 500;
const BACKLOG: i32 = 4096;

type Shared = State<Arc<Database>>;

struct Database {
    client: Client,
    world: Statement,
    fortune: Statement,
    update: Statement,
}

#[derive(Serialize)]
struct World {
    id: i32,
    #[serde(rename = "randomNumber")]
    random_number: i32,
}

struct Fortune {
    id: i32,
    message: String,
}

#[derive(Template)]
#[template(path = "fortunes.html")]
struct Page {
    fortunes: Vec<Fortune>,
}

#[derive(Deserialize)]
struct Parameters {
    queries: Option<String>,
}

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

impl Parameters {
    fn count(&self) -> i32 {
        let asked = self.queries.as_deref().and_then(|text| text.parse().ok());
        asked.unwrap_or(1).clamp(1, QUERIES_MAX)
    }
}

impl Database {
    async fn connect(url: &str) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self {
            world: client.prepare("select id, randomnumber from world where id = $1").await?,
            fortune: client.prepare("select id, message from fortune").await?,
            update: client
                .prepare("update world as w set randomnumber = v.number from unnest($1::int4[], $2::int4[]) as v (id, number) where w.id = v.id")
                .await?,
            client,
        })
    }

    async fn world(&self, id: i32) -> Result<World, tokio_postgres::Error> {
        let row = self.client.query_one(&self.world, &[&id]).await?;
        Ok(World {
            id: row.get(0),
            random_number: row.get(1),
        })
    }
}

fn lot() -> i32 {
    fastrand::i32(1..=WORLDS)
}

/// Distinct ids in ascending order, so that two updates lock rows in the same order.
fn different_lots(count: i32) -> Vec<i32> {
    let mut ids = std::collections::BTreeSet::new();
    while (ids.len() as i32) < count {
        ids.insert(lot());
    }
    ids.into_iter().collect()
}

async fn json() -> Json<Message> {
    Json(Message {
        message: "Hello, World!",
    })
}

async fn plaintext() -> &'static str {
    "Hello, World!"
}

async fn db(State(database): Shared) -> Json<World> {
    Json(database.world(lot()).await.expect("a row"))
}

async fn one(State(database): Shared, Path(id): Path<i32>) -> Json<World> {
    Json(database.world(id).await.expect("a row"))
}

async fn queries(State(database): Shared, Query(asked): Query<Parameters>) -> Json<Vec<World>> {
    let worlds = (0..asked.count()).map(|_| database.world(lot()));
    Json(try_join_all(worlds).await.expect("rows"))
}

async fn updates(State(database): Shared, Query(asked): Query<Parameters>) -> Json<Vec<World>> {
    let ids = different_lots(asked.count());
    let mut worlds = try_join_all(ids.iter().map(|id| database.world(*id))).await.expect("rows");
    for world in &mut worlds {
        world.random_number = lot();
    }
    let numbers: Vec<i32> = worlds.iter().map(|world| world.random_number).collect();
    let written = database.client.execute(&database.update, &[&ids, &numbers]).await;
    written.expect("an update");
    Json(worlds)
}

async fn fortunes(State(database): Shared) -> Html<String> {
    let rows = database.client.query(&database.fortune, &[]).await.expect("rows");
    let mut fortunes: Vec<Fortune> = rows
        .iter()
        .map(|row| Fortune {
            id: row.get(0),
            message: row.get(1),
        })
        .collect();
    fortunes.push(Fortune {
        id: 0,
        message: "Additional fortune added at request time.".into(),
    });
    fortunes.sort_by(|one, other| one.message.cmp(&other.message));
    Html(Page { fortunes }.render().expect("a page"))
}

/// A listening socket with `SO_REUSEPORT`: each thread accepts from its own socket on the same port.
fn listener(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

async fn serve(url: &str, socket: Socket) -> Result<(), Box<dyn Error>> {
    let database = Arc::new(Database::connect(url).await?);
    let routes = Router::new()
        .route("/json", get(json))
        .route("/plaintext", get(plaintext))
        .route("/db", get(db))
        .route("/worlds/{id}", get(one))
        .route("/queries", get(queries))
        .route("/updates", get(updates))
        .route("/fortunes", get(fortunes))
        .with_state(database);
    Ok(axum::serve(TcpListener::from_std(socket.into())?, routes).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::args().nth(1).ok_or("usage: forebay-bench-axum postgres://...")?;
    let first = listener(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = first.local_addr()?.as_socket().ok_or("no address")?;
    let mut sockets = vec![first];
    for _ in 1..thread::available_parallelism()?.get() {
        sockets.push(listener(address)?);
    }
    println!("listening on http://{address}");
    let threads: Vec<_> = sockets
        .into_iter()
        .map(|socket| {
            let url = url.clone();
            thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(serve(&url, socket)).expect("a server");
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread");
    }
    Ok(())
}
