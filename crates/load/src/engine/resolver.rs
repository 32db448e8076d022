//! Names that are resolved anew for each connection, on threads of their own: the system's resolver may take seconds, and an event loop
//! has other connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
};

use super::{Command, Inbox};
use crate::plan::Names;

/// Names that are resolved at the same time. What comes beyond waits, and its wait is part of its connection's.
const THREADS: usize = 8;

/// A connection that wants to know where its server is.
pub(super) struct Question {
    pub(super) names: Names,
    /// Where the answer goes.
    pub(super) inbox: Arc<Inbox>,
    /// The connection's place in its thread.
    pub(super) index: usize,
    /// When its attempt to connect began; no other attempt of the connection began then.
    pub(super) since: u64,
}

/// What a name leads to now, or why that is not known.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) index: usize,
    pub(super) since: u64,
    pub(super) address: Result<SocketAddr, String>,
}

/// Threads that resolve names. They end with the last handle, each after the name it is at.
#[derive(Clone)]
pub(super) struct Resolver(Sender<Question>);

impl Resolver {
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, questions) = channel();
        let questions = Arc::new(Mutex::new(questions));
        for _ in 0..THREADS {
            let questions = questions.clone();
            std::thread::Builder::new()
                .name("load-names".into())
                .spawn(move || answer(&questions))?;
        }
        Ok(Self(sender))
    }

    /// The answer comes as a [`Command::Found`].
    pub(super) fn ask(&self, question: Question) {
        // Its threads wait for questions as long as there is a handle.
        let _ = self.0.send(question);
    }
}

fn answer(questions: &Mutex<Receiver<Question>>) {
    loop {
        let next = questions
            .lock()
            .expect("no thread panics with the questions locked")
            .recv();
        let Ok(Question {
            names,
            inbox,
            index,
            since,
        }) = next
        else {
            return;
        };
        let address = names.resolve().map_err(|error| error.to_string());
        inbox.put(Command::Found(Found {
            index,
            since,
            address,
        }));
    }
}
