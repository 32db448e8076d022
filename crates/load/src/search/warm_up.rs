//! Warms a server up before it is measured: for a fixed time, or until it has stopped changing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    engine::{Control, Session, Stretch, Until},
    plan::Load,
    stats::is_steady,
};

/// How long a server is warmed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// For a fixed time.
    For(Duration),
    /// Until its throughput and latency are steady.
    UntilSteady {
        /// Shortest time.
        least: Duration,
        /// Longest time.
        most: Duration,
    },
}

impl WarmUp {
    /// No warm-up.
    pub const NONE: Self = Self::For(Duration::ZERO);
    /// Until it is steady, within the default bounds.
    pub const AUTO: Self = Self::UntilSteady {
        least: Duration::from_millis(500),
        most: Duration::from_secs(5),
    };

    /// Longest time that it may take.
    pub fn most(self) -> Duration {
        match self {
            Self::For(time) | Self::UntilSteady { most: time, .. } => time,
        }
    }

    /// The end of the warm-up in any case. The load continues.
    pub fn until(self) -> Until {
        Until::passed(self.most()).and_on()
    }
}

/// Result of a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// How long it took.
    pub seconds: f64,
    /// Responses that arrived meanwhile; they count nowhere else.
    pub requests: u64,
    /// Whether the server was steady at its end; `None` when that was not examined, or it was interrupted.
    pub steady: Option<bool>,
}

/// Warms up; the load continues on the session's connections. `watch` is called while it lasts.
pub fn warm_up(session: &mut Session, load: Load, how: WarmUp, watch: &mut dyn FnMut(&Stretch)) -> WarmedUp {
    if how.most() == Duration::ZERO {
        return WarmedUp::default();
    }
    let mut steady = match how {
        WarmUp::For(_) => None,
        WarmUp::UntilSteady { .. } => Some(false),
    };
    let stretch = session.steer(load, how.until(), &mut |stretch| {
        watch(stretch);
        match how {
            WarmUp::UntilSteady { least, .. }
                if stretch.seconds() >= least.as_secs_f64() && is_steady(&stretch.timeline) =>
            {
                steady = Some(true);
                Control::Stop
            }
            _ => Control::Continue,
        }
    });
    WarmedUp {
        seconds: stretch.seconds(),
        requests: stretch.total.answers,
        steady: steady.filter(|_| !stretch.interrupted),
    }
}
