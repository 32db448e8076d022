//! A minimal worker: blocking, one job at a time, without the shared page. The path of a job selects what it does.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    os::unix::net::UnixStream,
    process::exit,
    time::Duration,
};

use forebay_wire::{
    CALL_NUMBER_BYTES, ContentKind, FrameType, HEADER_BYTES, Header, RequestView, ResponseHead, Split, flag,
    put_call, put_frame, split_frame,
};

/// Environment variable that selects how a worker misbehaves from its start on.
pub(crate) const MODE: &str = "TEST_WORKER_MODE";
/// The name of the test that becomes a worker.
pub(crate) const TEST: &str = "worker::becomes_a_worker_when_it_is_started_as_one";
/// Number of response body bytes per frame.
const BODY_BYTES: usize = 64 * 1024;
/// Number of bytes of a call per frame.
const CALL_PIECE_BYTES: usize = 1_000_000;
/// Number of request body bytes granted in advance.
const READ_WINDOW: u32 = 4 << 20;

#[test]
fn becomes_a_worker_when_it_is_started_as_one() {
    if let Some(link) = crate::sys::link() {
        let generation = std::env::var("FOREBAY_GENERATION").unwrap().parse().unwrap();
        let worker = Worker {
            link,
            generation,
            received: Vec::new(),
            backlog: VecDeque::new(),
            calls: crate::sys::call_socket(),
            told: Vec::new(),
        };
        worker.live(&std::env::var(MODE).unwrap_or_default());
    }
}

struct Worker {
    link: UnixStream,
    generation: u16,
    received: Vec<u8>,
    /// Frames that arrived while another one was expected.
    backlog: VecDeque<(Header, Vec<u8>)>,
    /// The call socket, if there is one.
    calls: Option<UnixStream>,
    /// The answer to a call whose job was over.
    told: Vec<u8>,
}

impl Worker {
    fn live(mut self, mode: &str) -> ! {
        match mode {
            "dies at start" => {
                eprintln!("the first line\nno such table: users");
                exit(3);
            }
            "hangs at start" => hang(),
            _ => {}
        }
        let protocol = if mode == "old protocol" { 99 } else { 1 };
        let hello = format!(
            r#"{{"protocol":{protocol},"sdk":"test","runtime":"test","pid":{},"page":false}}"#,
            std::process::id()
        );
        self.send(FrameType::Hello, 0, (0, 0), hello.as_bytes());
        let (init, _) = self.next();
        assert_eq!(init.kind, FrameType::Init);
        if mode == "refuses" {
            self.send(
                FrameType::Failed,
                0,
                (0, 0),
                br#"{"message":"the handler has no default export"}"#,
            );
            hang();
        }
        if mode == "calls at start" {
            assert_eq!(self.ask((0, 0), b"at start"), b"at start");
            assert_eq!(self.on_call_socket().ask((0, 0), b"again"), b"again");
        }
        self.send(FrameType::Ready, 0, (0, 0), &[]);
        if mode == "dies when ready" {
            exit(4);
        }
        loop {
            let (header, payload) = self.next();
            match header.kind {
                FrameType::Request => self.run(&header, &payload),
                FrameType::Drain if mode != "ignores drain" => exit(0),
                _ => {}
            }
        }
    }

    fn run(&mut self, header: &Header, payload: &[u8]) {
        let request = RequestView::decode(payload).unwrap();
        let job = (header.slot, header.job);
        let query = std::str::from_utf8(request.query).unwrap();
        match std::str::from_utf8(request.path).unwrap() {
            "/echo" if header.has(flag::END) => self.answer(job, flag::END, request.body),
            "/echo" => self.echo(job, request.body),
            "/pid" => self.answer(job, flag::END, std::process::id().to_string().as_bytes()),
            "/work" => {
                std::thread::sleep(Duration::from_millis(query.parse().unwrap()));
                self.answer(job, flag::END, request.body);
            }
            "/fault" => self.answer(job, flag::END | flag::FAULT, b"it threw"),
            "/reset" => self.send(FrameType::Reset, 0, job, &[]),
            "/spin" => loop {
                std::hint::spin_loop();
            },
            "/crash" => {
                note_run(query);
                exit(5);
            }
            "/crash-later" => {
                self.answer(job, flag::END, request.body);
                exit(6);
            }
            "/stream" => {
                self.answer(job, 0, b"head ");
                for piece in 0..query.parse::<u32>().unwrap() {
                    self.send(FrameType::Body, 0, job, format!("{piece} ").as_bytes());
                }
                self.send(FrameType::Body, flag::END, job, b"end");
            }
            "/endless" => self.stream_until_aborted(job),
            "/half" => {
                self.answer(job, 0, b"half");
                exit(7);
            }
            "/garbage" => {
                self.answer(job, flag::END, request.body);
                self.link.write_all(&[0xff; 100]).unwrap();
                hang();
            }
            "/body-first" => self.send(FrameType::Body, flag::END, job, b"what is this"),
            "/foreign" => {
                self.send(FrameType::Reset, 0, (job.0, job.1 + 100), &[]);
                self.generation += 1;
                self.answer(job, flag::END, b"of another generation");
                self.generation -= 1;
                self.send(FrameType::Unknown(0x77), 0, job, b"from the future");
                self.answer(job, flag::END, request.body);
            }
            "/print" => {
                println!("\0not a frame");
                eprintln!("nor is this");
                self.answer(job, flag::END, request.body);
            }
            "/hangs-up" => {
                self.link.shutdown(std::net::Shutdown::Both).unwrap();
                hang();
            }
            #[expect(
                clippy::zombie_processes,
                reason = "whether the pool ends it is what is tested"
            )]
            "/child" => {
                // The child inherits the link and the outputs, and would keep them open.
                let child = std::process::Command::new("/bin/sleep")
                    .arg("600")
                    .spawn()
                    .unwrap();
                self.answer(job, flag::END, child.id().to_string().as_bytes());
            }
            "/call" => {
                let told = self.ask(job, &request.body.repeat(query.parse().unwrap_or(1)));
                self.answer_long(job, &told);
            }
            "/call-late" => {
                self.put_call(job, 1, request.body);
                self.answer(job, 0, b"");
                // The end of the stream ends its job and with it the call.
                self.send(FrameType::Body, flag::END, job, b"");
                let (header, told) = self.next_return();
                assert!(header.has(flag::FAULT));
                self.told = told[CALL_NUMBER_BYTES..].to_vec();
            }
            "/told" => {
                let told = std::mem::take(&mut self.told);
                self.answer(job, flag::END, &told);
            }
            "/call-many" => {
                for number in 0..=1024 {
                    self.put_call(job, number, request.body);
                }
                let (header, told) = self.next();
                assert_eq!(header.kind, FrameType::Return);
                self.answer(job, flag::END, &told[CALL_NUMBER_BYTES..]);
                // The other calls end with the job.
                for _ in 0..1024 {
                    let (header, _) = self.next_return();
                    assert_eq!((header.slot, header.job), job);
                }
            }
            "/call-socket" => {
                let mut other = self.on_call_socket();
                let told = other.ask(job, &request.body.repeat(query.parse().unwrap_or(1)));
                self.answer_long(job, &told);
            }
            "/call-garbage" => {
                self.on_call_socket().link.write_all(&[0xff; 100]).unwrap();
                hang();
            }
            other => panic!("no job is called {other}"),
        }
    }

    /// The same worker on its other socket.
    fn on_call_socket(&self) -> Self {
        Self {
            link: self.calls.as_ref().unwrap().try_clone().unwrap(),
            generation: self.generation,
            received: Vec::new(),
            backlog: VecDeque::new(),
            calls: None,
            told: Vec::new(),
        }
    }

    fn put_call(&mut self, (slot, job): (u32, u32), number: u32, body: &[u8]) {
        let mut rest = body;
        loop {
            let (piece, more) = rest.split_at(rest.len().min(CALL_PIECE_BYTES));
            let header = Header {
                kind: FrameType::Call,
                flags: if more.is_empty() { flag::END } else { 0 },
                generation: self.generation,
                job,
                slot,
            };
            let mut frame = Vec::new();
            put_call(&mut frame, &header, number, piece);
            if self.link.write_all(&frame).is_err() {
                exit(0);
            }
            if more.is_empty() {
                return;
            }
            rest = more;
        }
    }

    /// Makes a call and waits for its answer.
    fn ask(&mut self, job: (u32, u32), body: &[u8]) -> Vec<u8> {
        self.put_call(job, 7, body);
        let mut told = Vec::new();
        loop {
            let (header, payload) = self.next_return();
            assert_eq!((header.slot, header.job), job);
            assert_eq!(payload[..CALL_NUMBER_BYTES], 7u32.to_le_bytes());
            told.extend_from_slice(&payload[CALL_NUMBER_BYTES..]);
            if header.has(flag::END) {
                return told;
            }
        }
    }

    /// Receives the next answer to a call, or a piece of one. Answers take turns, so other frames overtake them; those are kept for later.
    /// Aborts are ignored.
    fn next_return(&mut self) -> (Header, Vec<u8>) {
        let mut others = VecDeque::new();
        loop {
            match self.next() {
                (header, payload) if header.kind == FrameType::Return => {
                    others.append(&mut self.backlog);
                    self.backlog = others;
                    return (header, payload);
                }
                (header, _) if header.kind == FrameType::Abort => {}
                other => others.push_back(other),
            }
        }
    }

    /// Answers with a body of any length.
    fn answer_long(&mut self, job: (u32, u32), body: &[u8]) {
        self.answer(job, 0, b"");
        let mut window = 256 * 1024;
        for piece in body.chunks(BODY_BYTES) {
            while window < piece.len() {
                match self.next() {
                    (header, grant) if header.kind == FrameType::Window => {
                        window += u32::from_le_bytes(grant.try_into().unwrap()) as usize;
                    }
                    (header, _) => panic!("{header:?} is no window"),
                }
            }
            window -= piece.len();
            self.send(FrameType::Body, 0, job, piece);
        }
        self.send(FrameType::Body, flag::END, job, &[]);
    }

    /// Echoes the request body while it still arrives.
    fn echo(&mut self, job: (u32, u32), first: &[u8]) {
        self.send(FrameType::Window, 0, job, &READ_WINDOW.to_le_bytes());
        self.answer(job, 0, first);
        let mut window = 256 * 1024;
        let mut waiting = VecDeque::new();
        let mut ended = false;
        loop {
            match self.next() {
                (header, body) if header.kind == FrameType::Body => {
                    self.send(FrameType::Window, 0, job, &(body.len() as u32).to_le_bytes());
                    ended |= header.has(flag::END);
                    waiting.extend(body.chunks(BODY_BYTES).map(<[u8]>::to_vec));
                }
                (header, grant) if header.kind == FrameType::Window => {
                    window += u32::from_le_bytes(grant.try_into().unwrap()) as usize;
                }
                (header, _) => panic!("{header:?} is neither body nor window"),
            }
            while waiting.front().is_some_and(|body| body.len() <= window) {
                let body = waiting.pop_front().unwrap();
                window -= body.len();
                self.send(FrameType::Body, 0, job, &body);
            }
            if ended && waiting.is_empty() {
                return self.send(FrameType::Body, flag::END, job, &[]);
            }
        }
    }

    fn stream_until_aborted(&mut self, job: (u32, u32)) {
        self.answer(job, 0, &[]);
        let mut window = 256 * 1024;
        loop {
            while window >= 1000 {
                window -= 1000;
                self.send(FrameType::Body, 0, job, &[7; 1000]);
            }
            match self.next() {
                (header, grant) if header.kind == FrameType::Window => {
                    window += u32::from_le_bytes(grant.try_into().unwrap()) as usize;
                }
                (header, _) if header.kind == FrameType::Abort => {
                    return self.send(FrameType::Reset, 0, job, &[]);
                }
                other => self.backlog.push_back(other),
            }
        }
    }

    fn answer(&mut self, job: (u32, u32), flags: u8, body: &[u8]) {
        let mut payload = Vec::new();
        let head = ResponseHead {
            status: 200,
            content: ContentKind::Bytes,
            run_us: 10,
        };
        head.put(&mut payload, &[], body);
        self.send(FrameType::Response, flags, job, &payload);
    }

    fn send(&mut self, kind: FrameType, flags: u8, (slot, job): (u32, u32), payload: &[u8]) {
        let mut frame = Vec::new();
        put_frame(
            &mut frame,
            &Header {
                kind,
                flags,
                generation: self.generation,
                job,
                slot,
            },
            payload,
        );
        if self.link.write_all(&frame).is_err() {
            exit(0);
        }
    }

    /// Waits for a frame; exits when the server is gone.
    fn next(&mut self) -> (Header, Vec<u8>) {
        if let Some(frame) = self.backlog.pop_front() {
            return frame;
        }
        loop {
            if let Split::Whole { frame, used } = split_frame(&self.received).unwrap() {
                let taken = (frame.header, frame.payload.to_vec());
                self.received.drain(..used);
                return taken;
            }
            let mut bytes = vec![0; HEADER_BYTES + 64 * 1024];
            match self.link.read(&mut bytes) {
                Ok(0) | Err(_) => exit(0),
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
            }
        }
    }
}

/// Appends a line to a file, so that the test can count how often a job has run.
fn note_run(file: &str) {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .unwrap();
    file.write_all(b"run\n").unwrap();
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}
