//! Records of single responses that options ask for. Without such an option, only the first response of a run is recorded.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::{Context, Looks};
use crate::{
    engine::{
        Notice,
        connection::{Connection, Sent},
        notes::{FirstAnswer, HEAD_MAX, URLS_MAX},
    },
    response::{Answer, KEPT_BODY_BYTES_MAX},
};

/// Most characters of a Server field.
const SERVER_MAX: usize = 100;

impl Context {
    /// Whether heads and bodies of the answers on a connection are kept.
    pub(super) fn keeps_on(&self, index: usize) -> bool {
        self.keeps() || self.wants_first && index == 0
    }

    /// Records a response; `failed`: it is not as expected.
    pub(super) fn note(&mut self, connection: &mut Connection, sent: Sent, answer: Answer, failed: bool) {
        if self.plan.notes.urls {
            let latency = self.woke.saturating_sub(sent.due);
            self.note_url(connection.lane, sent, Some(latency), failed);
        }
        if self.wants_first && connection.index == 0 {
            self.look_at_first(connection, answer);
        }
    }

    /// Counts requests that were lost without a response.
    pub(super) fn note_lost(&mut self, lane: usize, lost: impl Iterator<Item = Sent>) {
        if self.plan.notes.urls {
            for sent in lost {
                self.note_url(lane, sent, None, true);
            }
        }
    }

    fn note_url(&mut self, lane: usize, sent: Sent, latency: Option<u64>, failed: bool) {
        let at = self.first_urls[lane] + sent.which as usize;
        if at >= URLS_MAX {
            return;
        }
        let urls = &mut self.window.urls;
        if urls.len() <= at {
            urls.resize_with(at + 1, || None);
        }
        let url = urls[at].get_or_insert_default();
        url.answers += u64::from(latency.is_some());
        url.failures += u64::from(failed);
        if let Some(latency) = latency {
            url.latency.saturating_record(latency);
        }
    }

    fn look_at_first(&mut self, connection: &mut Connection, answer: Answer) {
        self.wants_first = false;
        self.looks = self.looks_later;
        let Some(kept) = &connection.reader.kept else {
            return;
        };
        let whole = kept.body.len() as u64 == answer.body_bytes && kept.body.len() < KEPT_BODY_BYTES_MAX;
        let hash = || HEXLOWER.encode(&Sha256::digest(&kept.body));
        let head = String::from_utf8_lossy(&kept.head);
        let server = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("server")
                .then(|| value.trim().chars().take(SERVER_MAX).collect())
        });
        let first = FirstAnswer {
            status: answer.status,
            body_bytes: answer.body_bytes,
            sha256: whole.then(hash),
            server,
            head: head.trim_end().chars().take(HEAD_MAX).collect(),
        };
        self.notices.tell(Notice::First(first));
        if self.looks != Looks::All {
            connection.reader.kept = None;
        }
    }
}
