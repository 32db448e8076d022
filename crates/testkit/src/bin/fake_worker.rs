//! A worker that speaks the protocol correctly, or breaks it on purpose. Its argument says how it starts; the path of each request says how
//! it responds. Started by a pool with `command = [".../fake-worker", "START"]`.

#![expect(clippy::print_stderr, reason = "what a worker prints is what the pool quotes")]

use std::{
    fs::File,
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{fd::AsFd, unix::net::UnixStream},
    thread,
    time::Duration,
};

use forebay_testkit::sys;
use forebay_wire::{
    ContentKind, FrameType, HEADER_BYTES, Header, RequestView, ResponseHead, Split, flag, put_frame,
    split_frame,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

fn main() {
    let start = std::env::args().nth(1).unwrap_or_else(|| "well".to_owned());
    let generation = std::env::var("FOREBAY_GENERATION")
        .ok()
        .and_then(|text| text.parse().ok());
    let generation = generation.expect("a worker is started with FOREBAY_GENERATION");
    let mut worker = Worker {
        link: sys::take_link(),
        generation,
        received: Vec::new(),
    };
    if worker.start(&start) {
        worker.serve();
    }
}

struct Worker {
    link: UnixStream,
    generation: u16,
    received: Vec<u8>,
}

/// A frame that has arrived.
struct Frame {
    header: Header,
    payload: Vec<u8>,
}

impl Worker {
    /// Performs the handshake, or spoils it. False: there is nothing to serve.
    fn start(&mut self, how: &str) -> bool {
        match how {
            "well" => {}
            "ends" => {
                eprintln!("no licence for this machine");
                std::process::exit(3);
            }
            "garbage" => {
                self.send(b"HELLO, IS ANYBODY THERE? THIS IS NOT A FRAME AT ALL.");
                return self.wait_for_end();
            }
            "silent" => return self.wait_for_end(),
            "version" => {
                self.control(FrameType::Hello, br#"{"protocol":99,"page":false}"#);
                return self.wait_for_end();
            }
            "failed" => {
                self.control(FrameType::Hello, br#"{"protocol":1}"#);
                self.control(FrameType::Failed, br#"{"message":"the database is not there"}"#);
                return self.wait_for_end();
            }
            "never-ready" => {
                self.control(FrameType::Hello, br#"{"protocol":1}"#);
                return self.wait_for_end();
            }
            other => panic!("unknown way to start: {other}"),
        }
        // A page that was never assigned cannot be claimed on, whatever a worker says.
        self.control(
            FrameType::Hello,
            br#"{"protocol":1,"page":true,"unheard":["of"]}"#,
        );
        let init = self.next().expect("INIT follows HELLO");
        assert_eq!(init.header.kind, FrameType::Init, "INIT follows HELLO");
        self.control(
            FrameType::Unknown(0x7e),
            b"frames of unknown types are passed over",
        );
        self.control(FrameType::Ready, &[]);
        true
    }

    fn wait_for_end(&mut self) -> bool {
        while self.next().is_some() {}
        false
    }

    fn serve(&mut self) {
        while let Some(frame) = self.next() {
            match frame.header.kind {
                FrameType::Request => self.request(frame.header, &frame.payload),
                FrameType::Abort => {
                    eprintln!(
                        "aborted job {} with reason {}",
                        frame.header.job, frame.payload[0]
                    );
                    self.answer(frame.header, b"too late");
                }
                FrameType::Drain => return,
                _ => {}
            }
        }
    }

    fn request(&mut self, job: Header, payload: &[u8]) {
        let view = RequestView::decode(payload).expect("the server sends valid requests");
        let path = std::str::from_utf8(view.path).expect("the server checks paths");
        let body = view.body;
        match path {
            "/echo" => self.answer(job, body),
            "/generation" => {
                self.answer(
                    Header {
                        generation: self.generation.wrapping_add(1),
                        ..job
                    },
                    b"from another life",
                );
                self.answer(job, body);
            }
            "/twice" => {
                self.answer(job, body);
                self.answer(job, b"said twice");
            }
            "/others" => {
                for number in [0, job.job.wrapping_add(1), job.job.wrapping_add(1000), u32::MAX] {
                    self.answer(Header { job: number, ..job }, b"meant for another job");
                }
                self.answer(
                    Header {
                        slot: job.slot + 1,
                        ..job
                    },
                    b"meant for another slot",
                );
                self.answer(
                    Header {
                        slot: forebay_wire::SLOTS_MAX - 1,
                        ..job
                    },
                    b"meant for the last slot",
                );
                self.answer(job, body);
            }
            "/unknown" => {
                self.frame(of_kind(job, FrameType::Unknown(0x55)), b"what is this?");
                self.answer(job, body);
            }
            "/garbage" => self.send(&[0xfe; 4 * HEADER_BYTES]),
            "/length" => {
                let mut bytes = job.to_bytes(u32::MAX);
                bytes[4] = FrameType::Response.code();
                self.send(&bytes);
            }
            "/slot" => self.answer(
                Header {
                    slot: u32::MAX,
                    ..job
                },
                body,
            ),
            "/status" => self.response(job, flag::END, 99, &[], body),
            "/cut" => {
                let frame = response_frame(job, flag::END, 200, &[], body);
                self.send(&frame[..frame.len() - 1]);
                std::process::exit(1);
            }
            "/short" => self.frame(
                Header {
                    kind: FrameType::Response,
                    flags: flag::END,
                    ..job
                },
                &[200, 0, 1],
            ),
            "/header" => self.response(job, flag::END, 200, &pairs(&[("x-a", "1\r\nx-b: 2")]), body),
            "/name" => self.response(job, flag::END, 200, &pairs(&[("x a", "1")]), body),
            "/pairs" => self.response(job, flag::END, 200, &[9, 0, 0, 0, 9, 0, 0, 0, b'x'], body),
            "/announces" => self.response(job, flag::END, 200, &pairs(&[("content-length", "5")]), b""),
            "/hops" => {
                let hops = [
                    ("connection", "close"),
                    ("transfer-encoding", "chunked"),
                    ("keep-alive", "9"),
                    ("date", "never"),
                ];
                self.response(job, flag::END, 200, &pairs(&hops), body);
            }
            "/bytewise" => {
                for byte in response_frame(job, flag::END, 200, &[], body) {
                    self.send(&[byte]);
                }
            }
            "/stops" => {
                self.response(job, 0, 200, &[], b"the beginning, ");
                std::process::exit(1);
            }
            "/resets" => {
                self.response(job, 0, 200, &[], b"the beginning, ");
                self.frame(of_kind(job, FrameType::Reset), &[]);
            }
            "/long" => {
                self.response(job, 0, 200, &pairs(&[("content-length", "3")]), b"four");
                self.body(job, flag::END, b"more");
            }
            "/after" => {
                self.response(job, 0, 200, &[], b"the beginning, ");
                self.body(job, flag::END, b"the end");
                self.body(job, flag::END, b"and more");
            }
            // The first 5 bytes of a file that is longer, of a pipe, and of a file that is shorter.
            "/file" => self.file(job, flag::END, &temporary(b"12345678"), 0, 5),
            "/file-tail" => self.file(job, flag::END, &temporary(b"12345678"), 6, 2),
            "/file-of-a-pipe" => self.file(
                job,
                flag::END,
                &rustix::pipe::pipe().expect("there are pipes").0,
                0,
                5,
            ),
            "/file-too-short" => self.file(job, flag::END, &temporary(b"1234"), 0, 5),
            "/file-beyond" => self.file(job, flag::END, &temporary(b"1234"), u64::MAX, 5),
            "/file-and-more" => self.file(job, 0, &temporary(b"12345"), 0, 5),
            "/file-without" => self.response(job, flag::END | flag::FILE, 200, &[], &[0; 16]),
            "/files-for-nothing" => {
                for _ in 0..4 {
                    let frame = Header::link(FrameType::Log, self.generation).to_bytes(0);
                    self.send_with(&frame, &temporary(b""));
                }
            }
            "/body-first" => self.body(job, flag::END, b"where does this belong?"),
            "/answers-again" => {
                self.response(job, 0, 200, &[], b"the beginning, ");
                self.response(job, flag::END, 201, &[], b"a second answer");
                self.body(job, flag::END, b"the end");
            }
            "/window" => {
                // A body of any length may follow now; the response must not wait for it.
                for _ in 0..3 {
                    self.frame(of_kind(job, FrameType::Window), &u32::MAX.to_le_bytes());
                }
                self.answer(job, body);
            }
            "/empty-window" => {
                self.frame(of_kind(job, FrameType::Window), &[]);
                self.answer(job, body);
            }
            "/log" => {
                self.frame(of_kind(job, FrameType::Log), b"not even JSON \xff");
                self.answer(job, body);
            }
            "/flood" => {
                // Exceeds every window that was granted, and never ends.
                self.response(job, 0, 200, &[], &[]);
                loop {
                    self.body(job, 0, &vec![b'.'; 65536]);
                }
            }
            "/slow" => {
                let query = std::str::from_utf8(view.query).unwrap_or_default();
                let ms = query
                    .strip_prefix("ms=")
                    .and_then(|ms| ms.parse().ok())
                    .unwrap_or(100);
                thread::sleep(Duration::from_millis(ms));
                self.answer(job, body);
            }
            "/never" => {}
            "/deaf" => loop {
                thread::park();
            },
            "/ends" => std::process::exit(0),
            other => self.response(job, flag::END, 404, &[], other.as_bytes()),
        }
    }

    fn answer(&mut self, job: Header, body: &[u8]) {
        self.response(job, flag::END, 200, &[], body);
    }

    fn response(&mut self, job: Header, flags: u8, status: u16, headers: &[u8], body: &[u8]) {
        let frame = response_frame(job, flags, status, headers, body);
        self.send(&frame);
    }

    fn file(&mut self, job: Header, flags: u8, file: &impl AsFd, offset: u64, length: u64) {
        let part = [offset.to_le_bytes(), length.to_le_bytes()].concat();
        let frame = response_frame(job, flags | flag::FILE, 200, &[], &part);
        self.send_with(&frame, file);
    }

    fn send_with(&self, bytes: &[u8], file: &impl AsFd) {
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(
            &self.link,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::empty(),
        );
        assert_eq!(sent, Ok(bytes.len()), "the link has room");
    }

    fn body(&mut self, job: Header, flags: u8, bytes: &[u8]) {
        self.frame(
            Header {
                kind: FrameType::Body,
                flags,
                ..job
            },
            bytes,
        );
    }

    fn control(&mut self, kind: FrameType, payload: &[u8]) {
        self.frame(Header::link(kind, self.generation), payload);
    }

    fn frame(&mut self, header: Header, payload: &[u8]) {
        let mut frame = Vec::new();
        put_frame(&mut frame, &header, payload);
        self.send(&frame);
    }

    /// Writes to the link; exits when the server has closed it.
    fn send(&mut self, bytes: &[u8]) {
        if self.link.write_all(bytes).is_err() {
            std::process::exit(0);
        }
    }

    /// The next frame; `None` at the link's end.
    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Split::Whole { frame, used } =
                split_frame(&self.received).expect("the server sends valid frames")
            {
                let frame = Frame {
                    header: frame.header,
                    payload: frame.payload.to_vec(),
                };
                self.received.drain(..used);
                return Some(frame);
            }
            let mut piece = vec![0; 64 * 1024];
            match self.link.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => self.received.extend_from_slice(&piece[..bytes]),
            }
        }
    }
}

/// An unnamed file with this content.
fn temporary(content: &[u8]) -> File {
    let file =
        rustix::fs::memfd_create("fake-worker", rustix::fs::MemfdFlags::empty()).expect("there is memory");
    let mut file = File::from(file);
    file.write_all(content).expect("there is memory");
    file
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in pairs {
        forebay_wire::put_pair(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

/// The header of another frame for the same job.
fn of_kind(job: Header, kind: FrameType) -> Header {
    Header { kind, ..job }
}

fn response_frame(job: Header, flags: u8, status: u16, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    ResponseHead {
        status,
        content: ContentKind::Bytes,
        run_us: 1,
    }
    .put(&mut payload, headers, body);
    let mut frame = Vec::new();
    put_frame(
        &mut frame,
        &Header {
            kind: FrameType::Response,
            flags,
            ..job
        },
        &payload,
    );
    frame
}
