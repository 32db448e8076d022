//! A simulated link: frames that the worker will read, and its claim words.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
};

use forebay_wire::{AbortReason, FrameType};

use super::super::LinkPort;

/// A message to a worker. The payloads of requests and bodies contain the job's serial number.
#[derive(Clone, Copy, Debug)]
pub(super) enum ToWorker {
    Request(Offer),
    Body { slot: u32, number: u32, serial: u64 },
    Window,
    Abort { slot: u32, number: u32 },
}

/// A REQUEST frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) slot: u32,
    pub(super) number: u32,
    pub(super) serial: u64,
    /// Whether it contains the whole body.
    pub(super) end: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Unused,
    Offered(u32),
    Claimed(u32),
    Revoked(u32),
}

#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Whether the worker claims its jobs.
    pub(super) claims: Cell<bool>,
    words: RefCell<Vec<Word>>,
    appended: RefCell<Vec<ToWorker>>,
    sent: RefCell<VecDeque<ToWorker>>,
}

impl Wire {
    /// Sends the appended frames, and calls `offered` for each job in them.
    pub(super) fn flush(&self, mut offered: impl FnMut(Offer)) {
        for frame in self.appended.borrow_mut().drain(..) {
            if let ToWorker::Request(offer) = frame {
                offered(offer);
            }
            self.sent.borrow_mut().push_back(frame);
        }
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.appended.borrow().is_empty()
    }

    pub(super) fn has_mail(&self) -> bool {
        !self.sent.borrow().is_empty()
    }

    /// Number of frames that the worker has not read. They pile up if the server sends needlessly.
    pub(super) fn unread(&self) -> usize {
        self.sent.borrow().len()
    }

    /// Jobs in frames that the worker has not read.
    pub(super) fn unread_offers(&self) -> Vec<u64> {
        let sent = self.sent.borrow();
        let offers = sent.iter().filter_map(|frame| match frame {
            ToWorker::Request(offer) => Some(offer.serial),
            _ => None,
        });
        offers.collect()
    }

    pub(super) fn receive(&self) -> VecDeque<ToWorker> {
        self.sent.take()
    }

    /// The worker's side of a claim word.
    pub(super) fn claim(&self, slot: u32, number: u32) -> bool {
        self.exchange(slot, Word::Offered(number), Word::Claimed(number))
    }

    fn exchange(&self, slot: u32, from: Word, to: Word) -> bool {
        let mut words = self.words.borrow_mut();
        let word = &mut words[slot as usize];
        let won = *word == from;
        if won {
            *word = to;
        }
        won
    }

    fn append(&self, frame: ToWorker) {
        self.appended.borrow_mut().push(frame);
    }
}

/// The serial number in a payload, behind the four bytes that the state fills in.
pub(super) fn serial_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(
        payload[4..12]
            .try_into()
            .expect("payloads are made with a serial number"),
    )
}

impl LinkPort for Rc<Wire> {
    fn offer(&self, slot: u32, number: u32, end: bool, payload: &[u8]) {
        if self.claims.get() {
            let mut words = self.words.borrow_mut();
            let length = words.len().max(slot as usize + 1);
            words.resize(length, Word::Unused);
            words[slot as usize] = Word::Offered(number);
        }
        let serial = serial_of(payload);
        self.append(ToWorker::Request(Offer {
            slot,
            number,
            serial,
            end,
        }));
    }

    fn revoke(&self, slot: u32, number: u32) -> bool {
        self.claims.get() && self.exchange(slot, Word::Offered(number), Word::Revoked(number))
    }

    fn last_commit(&self) -> u64 {
        0
    }

    fn is_claimed(&self, slot: u32, number: u32) -> bool {
        !self.claims.get() || self.words.borrow()[slot as usize] == Word::Claimed(number)
    }

    fn abort(&self, slot: u32, number: u32, _reason: AbortReason) {
        self.append(ToWorker::Abort { slot, number });
    }

    fn body(&self, slot: u32, number: u32, bytes: &[u8], _end: bool) {
        let serial = u64::from_le_bytes(bytes.try_into().expect("bodies are serial numbers"));
        self.append(ToWorker::Body { slot, number, serial });
    }

    fn trailers(&self, _slot: u32, _number: u32, _block: &[u8]) {
        unreachable!("no simulated client sends any")
    }

    fn websocket(&self, _kind: FrameType, _flags: u8, _number: u32, _payload: &[u8]) {
        unreachable!("no simulated client asks for one")
    }

    fn window(&self, _slot: u32, _number: u32, _bytes: u32) {
        self.append(ToWorker::Window);
    }
}
