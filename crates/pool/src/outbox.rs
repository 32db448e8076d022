//! The server's side of the shared page: claim words and the outbox (PROTOCOL.md, section 6).

use std::{
    io,
    os::fd::OwnedFd,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

use forebay_wire::{
    BELL_OFFSET, CLAIMS_OFFSET, COMMIT_OFFSET, ClaimWord, FORMAT_OFFSET, OUTBOX_BYTES, OUTBOX_HEAD_OFFSET,
    OUTBOX_OFFSET, OUTBOX_TAIL_OFFSET, PAGE_FORMAT, SLOTS_MAX,
};

use rustix::{
    fs::{FlockOperation, fcntl_lock},
    io::Errno,
};

use crate::sys::SharedPage;

/// Attempts to take a lock that the worker holds for a microsecond at a time.
const LOCK_TRIES: usize = 64;

#[derive(Debug)]
pub(crate) struct Page {
    shared: SharedPage,
}

/// The worker has set the outbox's tail to an invalid position.
#[derive(Debug, thiserror::Error)]
#[error("outbox tail {tail} is more than {OUTBOX_BYTES} bytes after its head {head}")]
pub(crate) struct TailOutOfRange {
    head: u32,
    tail: u32,
}

impl Page {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = SharedPage::new()?;
        shared.word(FORMAT_OFFSET).store(PAGE_FORMAT, Ordering::Release);
        shared.word(BELL_OFFSET).store(1, Ordering::Release);
        Ok(Self { shared })
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        self.shared.file()
    }

    fn claim_word(&self, slot: u32) -> &AtomicU32 {
        assert!(slot < SLOTS_MAX, "slots are given out by the pool");
        self.shared.word(CLAIMS_OFFSET + 4 * slot as usize)
    }

    pub(crate) fn offer(&self, slot: u32, number: u32) {
        self.claim_word(slot)
            .store(ClaimWord::of(number).offered(), Ordering::Release);
    }

    pub(crate) fn revoke(&self, slot: u32, number: u32) -> bool {
        let word = ClaimWord::of(number);
        self.claim_word(slot)
            .compare_exchange(
                word.offered(),
                word.revoked(),
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// Like [`revoke`](Self::revoke), for a worker that claims under a lock on the page. If the lock stays taken, the worker is assumed to
    /// be claiming this very job: then the job cannot go to another worker, but its answer is never lost.
    pub(crate) fn revoke_locked(&self, slot: u32, number: u32) -> bool {
        for _ in 0..LOCK_TRIES {
            match fcntl_lock(self.file(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    let revoked = self.revoke(slot, number);
                    let unlocked = fcntl_lock(self.file(), FlockOperation::NonBlockingUnlock);
                    assert_eq!(unlocked, Ok(()), "a lock that is held can be given back");
                    return revoked;
                }
                Err(Errno::AGAIN | Errno::ACCESS) => thread::yield_now(),
                Err(_) => return false,
            }
        }
        false
    }

    pub(crate) fn is_claimed(&self, slot: u32, number: u32) -> bool {
        self.claim_word(slot).load(Ordering::Acquire) == ClaimWord::of(number).claimed()
    }

    /// The last commit to the store that the worker has made; 0 before the first.
    pub(crate) fn last_commit(&self) -> u64 {
        self.shared.long_word(COMMIT_OFFSET).load(Ordering::Acquire)
    }

    /// Asks the worker to ring the doorbell. Check the outbox once more afterwards.
    pub(crate) fn arm_bell(&self) {
        self.shared.word(BELL_OFFSET).store(1, Ordering::SeqCst);
    }

    /// Whether the outbox has unread answers.
    pub(crate) fn has_answers(&self) -> bool {
        let taken = self.shared.word(OUTBOX_HEAD_OFFSET).load(Ordering::Relaxed);
        self.shared.word(OUTBOX_TAIL_OFFSET).load(Ordering::Acquire) != taken
    }

    /// Moves the content of the outbox to the end of `into`; returns false if it was empty. Copies every byte up to the ring's end or the
    /// tail, including PAD frames.
    pub(crate) fn take(&self, into: &mut Vec<u8>) -> Result<bool, TailOutOfRange> {
        let head_word = self.shared.word(OUTBOX_HEAD_OFFSET);
        let head = head_word.load(Ordering::Relaxed);
        let tail = self.shared.word(OUTBOX_TAIL_OFFSET).load(Ordering::SeqCst);
        let length = tail.wrapping_sub(head);
        if length == 0 {
            return Ok(false);
        }
        if length > OUTBOX_BYTES {
            return Err(TailOutOfRange { head, tail });
        }
        let at = head % OUTBOX_BYTES;
        let first = length.min(OUTBOX_BYTES - at);
        self.shared
            .copy_to(OUTBOX_OFFSET + at as usize, first as usize, into);
        self.shared
            .copy_to(OUTBOX_OFFSET, (length - first) as usize, into);
        head_word.store(tail, Ordering::Release);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::{
        Frame, FrameType, HEADER_BYTES, Header, OUTBOX_FRAME_ALIGN, Split, flag, put_frame, split_frame,
    };

    use std::os::fd::AsRawFd;

    use super::*;

    /// The worker's side, written from PROTOCOL.md, section 6.
    struct Writer<'p> {
        page: &'p Page,
        tail: u32,
    }

    impl Writer<'_> {
        fn write(&self, at: u32, bytes: &[u8]) {
            let offset = OUTBOX_OFFSET as u64 + u64::from(at);
            assert_eq!(
                rustix::io::pwrite(self.page.file(), bytes, offset),
                Ok(bytes.len())
            );
        }

        fn room(&self) -> u32 {
            let head = self.page.shared.word(OUTBOX_HEAD_OFFSET).load(Ordering::Acquire);
            OUTBOX_BYTES - self.tail.wrapping_sub(head)
        }

        /// Writes an answer; false if there is no room.
        fn put(&mut self, job: u32, length: usize) -> bool {
            let mut frame = Vec::new();
            let header = Header {
                kind: FrameType::Response,
                flags: flag::END,
                generation: 1,
                job,
                slot: 0,
            };
            put_frame(&mut frame, &header, &vec![job as u8; length]);
            let size = (frame.len() as u32).next_multiple_of(OUTBOX_FRAME_ALIGN);
            let rest = OUTBOX_BYTES - self.tail % OUTBOX_BYTES;
            let pad = if rest < size { rest } else { 0 };
            if self.room() < pad + size {
                return false;
            }
            if pad > 0 {
                let header = Header::link(FrameType::Pad, 1).to_bytes(pad - HEADER_BYTES as u32);
                self.write(self.tail % OUTBOX_BYTES, &header);
                self.tail = self.tail.wrapping_add(pad);
            }
            self.write(self.tail % OUTBOX_BYTES, &frame);
            self.publish(self.tail.wrapping_add(size));
            true
        }

        fn publish(&mut self, tail: u32) {
            self.tail = tail;
            self.page
                .shared
                .word(OUTBOX_TAIL_OFFSET)
                .store(tail, Ordering::SeqCst);
        }
    }

    /// Takes everything from the outbox, and returns the job and length of each answer.
    fn take(page: &Page) -> Vec<(u32, usize)> {
        let mut bytes = Vec::new();
        page.take(&mut bytes).unwrap();
        let mut jobs = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let Ok(Split::Whole {
                frame: Frame { header, payload },
                used,
            }) = split_frame(&bytes[at..])
            else {
                panic!("whole frames lie in the outbox");
            };
            if header.kind == FrameType::Response {
                assert!(
                    payload.iter().all(|&byte| byte == header.job as u8),
                    "payloads are not mixed up"
                );
                jobs.push((header.job, payload.len()));
            }
            at += used.next_multiple_of(OUTBOX_FRAME_ALIGN as usize);
        }
        jobs
    }

    #[test]
    fn answers_come_out_as_they_were_put_through_many_turns_of_the_ring() {
        let page = Page::new().unwrap();
        let mut writer = Writer { page: &page, tail: 0 };
        let (mut job, mut taken) = (0, Vec::new());
        let mut put = Vec::new();
        // A little more than 4 GiB, so that the counters wrap around as well.
        let start = u32::MAX - 3 * OUTBOX_BYTES + 1;
        page.shared
            .word(OUTBOX_HEAD_OFFSET)
            .store(start, Ordering::Release);
        writer.publish(start);
        while job < 3000 {
            let length = (job as usize * 7919) % 32_752;
            if writer.put(job + 1, length) {
                job += 1;
                put.push((job, length));
            } else {
                taken.extend(take(&page));
            }
        }
        taken.extend(take(&page));
        assert_eq!(taken, put);
        assert!(!page.has_answers());
    }

    #[test]
    fn an_empty_ring_has_nothing_and_a_full_one_everything() {
        let page = Page::new().unwrap();
        assert_eq!(take(&page), []);
        let mut writer = Writer { page: &page, tail: 0 };
        let mut count = 0;
        while writer.put(count + 1, 1024 - HEADER_BYTES) {
            count += 1;
        }
        assert_eq!(count, OUTBOX_BYTES / 1024);
        assert_eq!(take(&page).len() as u32, count);
        assert_eq!(take(&page), []);
    }

    #[test]
    fn a_tail_where_it_cannot_be_is_an_error_and_takes_nothing() {
        let page = Page::new().unwrap();
        let mut writer = Writer { page: &page, tail: 0 };
        for tail in [OUTBOX_BYTES + 1, u32::MAX, u32::MAX / 2] {
            writer.publish(tail);
            let error = page.take(&mut Vec::new()).unwrap_err();
            assert_eq!((error.head, error.tail), (0, tail));
        }
        writer.publish(OUTBOX_BYTES);
        assert!(page.take(&mut Vec::new()).unwrap());
    }

    #[test]
    fn of_claiming_and_revoking_one_wins() {
        let page = Page::new().unwrap();
        page.offer(5, 9);
        assert!(!page.is_claimed(5, 9));
        assert!(!page.revoke(5, 8), "another job's name");
        assert!(!page.revoke(4, 9), "another slot");
        assert!(page.revoke(5, 9));
        assert!(!page.revoke(5, 9), "once");
        page.offer(5, 10);
        let word = ClaimWord::of(10);
        let claimed = page.claim_word(5).compare_exchange(
            word.offered(),
            word.claimed(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        assert!(claimed.is_ok() && page.is_claimed(5, 10));
        assert!(!page.revoke(5, 10));
    }

    #[test]
    fn a_revocation_under_the_lock_waits_for_who_holds_it_and_then_takes_the_job_for_claimed() {
        let page = Page::new().unwrap();
        page.offer(5, 9);
        assert!(page.revoke_locked(5, 9));
        assert!(!page.revoke_locked(5, 9), "once");
        page.offer(5, 10);
        // A process does not conflict with its own lock, so another process has to hold it.
        let file = format!("/proc/{}/fd/{}", std::process::id(), page.file().as_raw_fd());
        let script = format!(
            "import fcntl, sys\npage = open('{file}', 'r+b')\nfcntl.lockf(page, fcntl.LOCK_EX)\nprint('locked', flush=True)\nsys.stdin.read()"
        );
        let mut holder = std::process::Command::new("python3")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let printed = holder.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(printed), &mut line).unwrap();
        assert_eq!(line, "locked\n");
        assert!(!page.revoke_locked(5, 10));
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(page.revoke_locked(5, 10), "its lock has ended with it");
    }

    #[test]
    fn a_worker_cannot_change_the_size_of_the_file() {
        let page = Page::new().unwrap();
        for size in [0, forebay_wire::PAGE_BYTES as u64 * 2] {
            assert_eq!(
                rustix::fs::ftruncate(page.file(), size),
                Err(rustix::io::Errno::PERM)
            );
        }
    }
}
