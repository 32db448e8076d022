//! Threads for requests about releases, which block.

use std::{sync::Arc, thread};

use tokio::sync::{Semaphore, oneshot};

use super::{ReleaseEnvironment, ReleaseRequest, ReleaseResponse, ReleaseService, error::ReleaseApiError};

/// Most requests about releases at a time; further ones get 503.
const REQUESTS_MAX: usize = 4;

/// Serves releases on threads, of which there are few.
#[derive(Debug)]
pub struct ReleaseThreads<C> {
    service: Arc<ReleaseService<C>>,
    places: Arc<Semaphore>,
}

impl<C: ReleaseEnvironment> ReleaseThreads<C> {
    /// Threads for this service.
    pub fn new(service: ReleaseService<C>) -> Self {
        Self {
            service: Arc::new(service),
            places: Arc::new(Semaphore::new(REQUESTS_MAX)),
        }
    }

    /// Answers a request on a thread. Dropping the future ends running tests, and then nothing is published.
    pub async fn answer(&self, request: ReleaseRequest) -> ReleaseResponse {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return ReleaseApiError::Busy { max: REQUESTS_MAX }.response();
        };
        let service = Arc::clone(&self.service);
        let (mut sender, receiver) = oneshot::channel();
        let work = move || {
            let response = service.answer(&request, sender.closed());
            drop(place);
            // The client may have left.
            let _ = sender.send(response);
        };
        let thread = thread::Builder::new().name("releases".into()).spawn(work);
        let response = match thread {
            Ok(_) => receiver.await.map_err(|_| ReleaseApiError::Lost),
            Err(error) => Err(ReleaseApiError::Thread(error)),
        };
        let response = response.unwrap_or_else(ReleaseApiError::response);
        if let (500, Some(problem)) = (response.status, &response.body) {
            tracing::error!(target: "forebay::workflow", "a request about releases failed: {}", problem["detail"]);
        }
        response
    }
}
