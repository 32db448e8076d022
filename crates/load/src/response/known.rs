//! Recognises heads that were seen before without parsing them.

use super::Framing;

/// The head that a server sends repeatedly. One that differs from it only in values that do not matter, such as the date, need not be
/// parsed.
#[derive(Debug, Default)]
pub(crate) struct KnownHead {
    pub(super) bytes: Vec<u8>,
    /// Values that were seen to change, in order.
    gaps: Vec<Gap>,
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    /// Number of heads that did not match and could not be made to.
    misses: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gap {
    start: usize,
    end: usize,
}

/// Most values that may change.
const GAPS_MAX: usize = 8;
/// After this many heads of other shapes recognition is switched off: the server's responses differ too much.
const MISSES_MAX: u32 = 64;

impl KnownHead {
    pub(super) fn is_at(&self, bytes: &[u8]) -> bool {
        let length = self.bytes.len();
        if length == 0 || bytes.len() < length {
            return false;
        }
        let mut at = 0;
        for gap in &self.gaps {
            if bytes[at..gap.start] != self.bytes[at..gap.start] || has_control(&bytes[gap.start..gap.end]) {
                return false;
            }
            at = gap.end;
        }
        bytes[at..length] == self.bytes[at..]
    }

    pub(super) fn learn(
        &mut self,
        head: &[u8],
        response: &httparse::Response<'_, '_>,
        framing: Framing,
        keep_alive: bool,
    ) {
        let status = response.code.unwrap_or_default();
        if self.misses >= MISSES_MAX || status < 200 {
            return;
        }
        let same_shape = head.len() == self.bytes.len()
            && (self.status, self.framing, self.keep_alive) == (status, framing, keep_alive);
        if same_shape && let Some(gaps) = self.gaps_with(head, response) {
            self.gaps = gaps;
            return;
        }
        self.misses += 1;
        self.bytes.clear();
        self.gaps.clear();
        if self.misses < MISSES_MAX {
            self.bytes.extend_from_slice(head);
            (self.status, self.framing, self.keep_alive) = (status, framing, keep_alive);
        }
    }

    /// The gaps that make this head match too.
    fn gaps_with(&self, head: &[u8], response: &httparse::Response<'_, '_>) -> Option<Vec<Gap>> {
        let mut gaps = self.gaps.clone();
        for field in response.headers.iter() {
            let start = field.value.as_ptr() as usize - head.as_ptr() as usize;
            let gap = Gap {
                start,
                end: start + field.value.len(),
            };
            let steers = ["content-length", "transfer-encoding", "connection"]
                .iter()
                .any(|name| field.name.eq_ignore_ascii_case(name));
            if !steers && !gaps.contains(&gap) && head[gap.start..gap.end] != self.bytes[gap.start..gap.end] {
                gaps.push(gap);
            }
        }
        gaps.sort_unstable_by_key(|gap| gap.start);
        let apart = gaps.windows(2).all(|pair| pair[0].end <= pair[1].start);
        let mut wider = Self {
            bytes: self.bytes.clone(),
            gaps,
            ..Self::default()
        };
        (apart && wider.gaps.len() <= GAPS_MAX && wider.is_at(head)).then(|| std::mem::take(&mut wider.gaps))
    }
}

/// Whether the value contains a byte that field values cannot have. Looks at all bytes, which is faster than stopping at the first.
fn has_control(value: &[u8]) -> bool {
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    value.iter().fold(false, |found, &byte| found | is_control(byte))
}
