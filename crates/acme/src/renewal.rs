//! Keeps one certificate up to date: orders it when it is due, and again, ever less often, when that fails.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
    time::{Duration, SystemTime},
};

use forebay_http_client::with_causes;
use forebay_tls::{CertificateSlot, ServerCertificate, Validity};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};

use crate::{
    Challenges, ORDER_TIME_MAX, Progress, Settings,
    error::OrderError,
    folder::{Folder, write},
    http::RetryAfter,
    order,
};

/// The pause after an order has failed for the first time.
const FIRST_PAUSE: Duration = Duration::from_mins(1);
/// The same if the authority could not be reached.
const CHEAP_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause is so many of the first.
const PAUSES_MAX: u32 = 240;
/// The longest that an authority may have itself not be asked.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(24);
/// The clock is looked at this often, because it may be set, and a machine may sleep.
const CLOCK_POLL: Duration = Duration::from_mins(10);

pub(crate) struct Renewal {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) slot: Arc<CertificateSlot>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

impl Renewal {
    pub(crate) async fn run(self) {
        let mut failures = 0;
        loop {
            let now = SystemTime::now();
            self.wait_until(self.slot.current().map_or(now, |current| self.due(&current)))
                .await;
            self.progress.lock().next_order = None;
            let retry_after = RetryAfter::default();
            let Err(error) = self.order(&retry_after).await else {
                failures = 0;
                self.progress.lock().failure = None;
                continue;
            };
            let asked_for = retry_after.lock().take();
            let asked_for = asked_for.and_then(|moment| moment.duration_since(SystemTime::now()).ok());
            let pause = pause(failures, error.is_cheap(), asked_for, random());
            failures += 1;
            self.report(&error, pause);
            self.wait_until(SystemTime::now() + pause).await;
        }
    }

    /// When a certificate is to be replaced: after two thirds of its life, or at once if it lacks one of the names.
    fn due(&self, certificate: &ServerCertificate) -> SystemTime {
        let is_whole = self.settings.domains.iter().all(|name| certificate.is_for(name));
        if is_whole {
            renewal_time(certificate.validity())
        } else {
            SystemTime::UNIX_EPOCH
        }
    }

    async fn wait_until(&self, moment: SystemTime) {
        self.progress.lock().next_order = Some(moment);
        while let Ok(left) = moment.duration_since(SystemTime::now()) {
            sleep(left.min(CLOCK_POLL)).await;
        }
    }

    /// Replaces the certificate, by one that another process has obtained meanwhile, or by a new one.
    async fn order(&self, retry_after: &RetryAfter) -> Result<(), OrderError> {
        let folder = Folder::new(&self.settings.folder);
        let _lock = folder.lock().await?;
        if let Ok(Some(stored)) = folder.certificate(&self.name)
            && self.due(&stored) > SystemTime::now()
        {
            self.slot.replace(stored);
            return Ok(());
        }
        tracing::info!(target: "forebay::acme", certificate = self.name, domains = self.settings.domains.join(" "), "ordering a certificate from {}", self.settings.directory);
        let order = order::obtain(&self.settings, folder, &self.challenges, retry_after);
        let pem = timeout(ORDER_TIME_MAX, order)
            .await
            .unwrap_or(Err(OrderError::Time))?;
        let file = folder.certificate_file(&self.name);
        let certificate = ServerCertificate::parse(&file, pem.as_bytes())?;
        let missing = self
            .settings
            .domains
            .iter()
            .find(|name| !certificate.is_for(name));
        if let Some(domain) = missing.cloned() {
            return Err(OrderError::OtherNames { domain });
        }
        write(file, &pem)?;
        let until = httpdate::fmt_http_date(certificate.validity().until);
        tracing::info!(target: "forebay::acme", certificate = self.name, "obtained a certificate that is good until {until}");
        let due = self.due(&certificate);
        self.slot.replace(certificate);
        if due <= SystemTime::now() {
            return Err(OrderError::Due { until });
        }
        Ok(())
    }

    fn report(&self, error: &OrderError, pause: Duration) {
        let reason = with_causes(&error);
        let consequence = match self.slot.current() {
            Some(current) => format!(
                "the one in use stays, which is good until {}",
                httpdate::fmt_http_date(current.validity().until)
            ),
            None => "connections for its names are refused until one is".to_owned(),
        };
        tracing::warn!(target: "forebay::acme", certificate = self.name, retry_in_s = pause.as_secs(), "no certificate was obtained; {consequence}: {reason}");
        self.progress.lock().failure = Some(reason);
    }
}

fn renewal_time(validity: Validity) -> SystemTime {
    let life = validity.until.duration_since(validity.from).unwrap_or_default();
    validity.from + life * 2 / 3
}

/// How long to wait after an order that has failed, with `failures` others right before it. `random`, from 0 to 1, keeps servers from coming back at
/// the same moment.
fn pause(failures: u32, is_cheap: bool, asked_for: Option<Duration>, random: f64) -> Duration {
    let first = if is_cheap { CHEAP_PAUSE } else { FIRST_PAUSE };
    let growth = 2_u32.saturating_pow(failures).min(PAUSES_MAX);
    let pause = (first * growth).mul_f64(0.75 + random / 4.0);
    pause.max(asked_for.unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// A number from 0 to 1. The standard library seeds each `RandomState` from the system's randomness.
fn random() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_hours_and_authorities_can_ask_for_more() {
        let refused = |failures| pause(failures, false, None, 1.0);
        assert_eq!(
            [refused(0), refused(1), refused(3)],
            [1, 2, 8].map(Duration::from_mins)
        );
        assert_eq!([refused(8), refused(u32::MAX)], [4, 4].map(Duration::from_hours));
        assert_eq!(pause(2, true, None, 0.0), Duration::from_secs(3));
        assert_eq!(pause(40, true, None, 1.0), Duration::from_mins(4));
        let asked = |hours| pause(0, false, Some(Duration::from_hours(hours)), 1.0);
        assert_eq!(
            [asked(0), asked(7), asked(1000)],
            [
                Duration::from_mins(1),
                Duration::from_hours(7),
                Duration::from_hours(24)
            ]
        );
        assert!((0.0..=1.0).contains(&random()));
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_hours(24 * days);
        let (from, until) = (day(30), day(120));
        assert_eq!(renewal_time(Validity { from, until }), day(90));
        // Nonsense is due at once, not an error.
        assert_eq!(
            renewal_time(Validity {
                from: until,
                until: from
            }),
            until
        );
    }
}
