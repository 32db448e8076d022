//! Sends before anything is measured, so that what is measured later is a server that has warmed up: for a fixed time, or until it has
//! stopped changing.

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
    /// So long, whatever it does.
    For(Duration),
    /// Until its throughput and latency are steady.
    UntilSteady {
        /// Not before so long.
        least: Duration,
        /// At most so long.
        most: Duration,
    },
}

impl WarmUp {
    /// None at all.
    pub const NONE: Self = Self::For(Duration::ZERO);
    /// Until it is steady, within the usual bounds.
    pub const AUTO: Self = Self::UntilSteady {
        least: Duration::from_millis(500),
        most: Duration::from_secs(5),
    };

    /// The longest that it may take.
    pub fn most(self) -> Duration {
        match self {
            Self::For(time) | Self::UntilSteady { most: time, .. } => time,
        }
    }

    /// What ends it in any case. The load stays.
    pub fn until(self) -> Until {
        Until::passed(self.most()).and_on()
    }
}

/// What a warm-up was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmedUp {
    /// How long it took.
    pub seconds: f64,
    /// Answers that came meanwhile; they count nowhere else.
    pub requests: u64,
    /// Whether the server was steady at its end; `None` when that was not looked at, or it was interrupted.
    pub steady: Option<bool>,
}

/// Warms up; the load stays on the session's connections. `watch` is called while it lasts.
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
