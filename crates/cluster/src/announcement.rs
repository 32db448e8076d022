//! The announcements of hosts.

use std::time::Duration;

use forebay_pool::Readiness;
use forebay_wire::{PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use serde::{Deserialize, Serialize};

/// The version of how messages carry frames.
const LINK_VERSION: u32 = 1;
/// The interval between announcements of a host that does not change.
pub(crate) const INTERVAL: Duration = Duration::from_millis(200);
/// A host that has not been heard for so long gets no more jobs.
pub(crate) const SILENCE_MAX: Duration = Duration::from_millis(900);
/// A host that is silent for so much longer is gone, even if the server of NATS does not know. Machines stand still for a moment without being
/// dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
/// How often a link without other messages is tried, to notice that the other side is gone, or has not got the latest message.
pub(crate) const TRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest text in an announcement, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// Longest reason why workers do not start.
const REASON_CHARS_MAX: usize = 200;
/// Length of a random name.
const ID_BYTES: usize = 16;

/// An announcement of a host. Unknown members are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// The random name of the process, a part of subjects.
    pub(crate) id: String,
    /// The name of the machine.
    pub(crate) name: String,
    /// The version of Forebay.
    pub(crate) version: String,
    /// The version of how messages carry frames.
    pub(crate) link: u32,
    /// The version of the worker protocol.
    pub(crate) protocol: u32,
    /// Number of jobs that the host takes at once now.
    pub(crate) room: usize,
    /// Whether it finishes what it has and then leaves.
    pub(crate) draining: bool,
    /// Why its workers do not start, if so.
    #[serde(default)]
    pub(crate) failing: Option<String>,
}

impl Announcement {
    pub(crate) fn new(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            link: LINK_VERSION,
            protocol: PROTOCOL_VERSION,
            room: 0,
            draining: false,
            failing: None,
        }
    }

    /// Records whether the workers start. Of the reason, the first line.
    pub(crate) fn set_failing(&mut self, readiness: &Readiness) {
        self.failing = match readiness {
            Readiness::Failing(reason) => {
                let line = reason.lines().next().unwrap_or_default();
                let plain = line.chars().filter(|letter| !letter.is_control());
                Some(plain.take(REASON_CHARS_MAX).collect())
            }
            Readiness::Starting | Readiness::Ready | Readiness::Stopped => None,
        };
    }

    /// Reads an announcement; `None` if it is none. Its id is safe as a part of a subject.
    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(payload).ok()?;
        let is_id = read.id.len() == ID_BYTES && read.id.bytes().all(|byte| byte.is_ascii_hexdigit());
        // They are shown on terminals.
        let is_plain = |text: &str| text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
        let are_plain =
            is_plain(&read.name) && is_plain(&read.version) && read.failing.as_deref().is_none_or(is_plain);
        (is_id && are_plain).then_some(read)
    }

    /// Whether the host gets no more jobs.
    pub(crate) fn takes_no_jobs(&self) -> bool {
        self.draining || self.failing.is_some()
    }

    /// Why this process cannot use the host, if so.
    pub(crate) fn incompatibility(&self) -> Option<String> {
        let Self {
            name,
            version,
            link,
            protocol,
            ..
        } = self;
        let is_known = *link == LINK_VERSION && (PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(protocol);
        (!is_known).then(|| {
            format!(
                "host {name} of version {version} speaks protocol {protocol} over links of version {link}, this server {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION} over {LINK_VERSION}"
            )
        })
    }
}

/// A random name that can be part of a subject.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; ID_BYTES / 2];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "few random bytes come at once");
    format!("{:016x}", u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_fit_into_a_subject_are_taken() {
        let announced = Announcement::new(&random_id(), "a machine");
        let read =
            |announcement: &Announcement| Announcement::read(&serde_json::to_vec(announcement).unwrap());
        assert_eq!(read(&announced), Some(announced.clone()));
        for id in [
            "",
            "*",
            ">",
            "0123456789abcde",
            "01234567.9abcdef",
            "0123456789abcdef0",
            "01234567 9abcdef",
        ] {
            let other = Announcement {
                id: id.to_owned(),
                ..announced.clone()
            };
            assert_eq!(read(&other), None, "{id}");
        }
        let other = Announcement {
            name: "a\u{1b}[2J".to_owned(),
            ..announced.clone()
        };
        assert_eq!(read(&other), None, "it would clear the screen");
        assert_eq!(Announcement::read(b"{}"), None);
        assert_eq!(announced.incompatibility(), None);
    }

    #[test]
    fn members_of_later_versions_are_ignored() {
        let mut announced = serde_json::to_value(Announcement::new(&random_id(), "a")).unwrap();
        announced["later"] = true.into();
        let read = Announcement::read(&serde_json::to_vec(&announced).unwrap()).unwrap();
        assert_eq!(read.incompatibility(), None);
        announced["protocol"] = 99.into();
        let read = Announcement::read(&serde_json::to_vec(&announced).unwrap()).unwrap();
        assert!(read.incompatibility().unwrap().contains("speaks protocol 99"));
    }
}
