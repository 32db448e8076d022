//! Classes of failures of single requests and connections under load.

use serde::{Deserialize, Serialize};

/// Defines the classes with their names in reports, in the order in which reports show them.
macro_rules! classes {
    ($($(#[$doc:meta])* $class:ident $name:literal,)+) => {
        /// The class of a failure. Each is counted separately.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Class {
            $($(#[$doc])* $class,)+
        }

        impl Class {
            /// All classes, in the order in which reports show them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$class),+];

            /// The name in reports, such as `connect_refused`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$class => $name,)+
                }
            }
        }
    };
}

classes! {
    /// Nothing listens on the address.
    ConnectRefused "connect_refused",
    /// No connection within `connect_timeout`.
    ConnectTimeout "connect_timeout",
    /// Any other failure of an attempt to connect.
    Connect "connect",
    /// No local port or descriptor was free.
    Resources "resources",
    /// The TLS handshake failed.
    Tls "tls",
    /// The request could not be written.
    Write "write",
    /// The connection was reset while responses were due.
    Reset "reset",
    /// The connection was closed in an orderly way before a response began.
    ClosedEarly "closed_early",
    /// The connection was closed in the middle of a response.
    Truncated "truncated",
    /// The received bytes are not an HTTP response.
    Malformed "malformed",
    /// The response does not say clearly where it ends.
    Framing "framing",
    /// A head, chunk line or trailer exceeds its limit.
    OverLong "over_long",
    /// Bytes that no request asked for.
    Unsolicited "unsolicited",
    /// No complete response within `timeout`.
    Timeout "timeout",
    /// The status of the response is not among those expected.
    Status "status",
    /// The body of the response is not as expected.
    Mismatch "mismatch",
    /// A request was due while the backlog was full.
    Dropped "dropped",
    /// A request was due, sent or not, and had no response when the run ended.
    Unanswered "unanswered",
}

impl Class {
    /// Whether there was a whole answer, which is counted as one too.
    pub const fn has_answer(self) -> bool {
        matches!(self, Self::Status | Self::Mismatch)
    }
}

/// A count for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Class::ALL.len()]);

impl Counts {
    /// Adds to a class.
    pub fn add(&mut self, class: Class, count: u64) {
        self.0[class as usize] += count;
    }

    /// How often a class has happened.
    pub fn get(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Of all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those without an answer: the others are answers, too.
    pub fn without_answer(&self) -> u64 {
        let without = self.iter().filter(|(class, _)| !class.has_answer());
        without.map(|(_, count)| count).sum()
    }

    /// The classes that have happened.
    pub fn iter(&self) -> impl Iterator<Item = (Class, u64)> {
        Class::ALL
            .into_iter()
            .map(|class| (class, self.get(class)))
            .filter(|(_, count)| *count > 0)
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
