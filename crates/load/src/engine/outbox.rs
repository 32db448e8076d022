//! Notices from a thread to its session. The session reads them only while it measures. Between measurements, windows beyond a small number
//! are merged here instead of piling up.

use std::sync::{Arc, mpsc::Sender};

use super::{Notice, window::Window};

/// Windows of one thread that may wait in the session's channel.
const WAITING_MAX: usize = 16;

/// Sends one thread's notices to its session. A window that is still held is sent on drop.
pub(super) struct Outbox {
    session: Sender<Notice>,
    /// Each waiting window holds one more reference.
    place: Arc<Place>,
    /// Windows beyond [`WAITING_MAX`], merged.
    held: Option<Box<Window>>,
}

/// A slot among the windows that may wait; free again when dropped.
#[derive(Debug)]
pub(super) struct Place;

impl Outbox {
    pub(super) fn new(session: Sender<Notice>) -> Self {
        Self {
            session,
            place: Arc::new(Place),
            held: None,
        }
    }

    /// Sends a window, now or merged with the next one.
    pub(super) fn measured(&mut self, window: Window) {
        let window = match self.held.take() {
            Some(mut held) if held.epoch == window.epoch => {
                held.merge(&window);
                held
            }
            held => {
                self.send(held);
                Box::new(window)
            }
        };
        if Arc::strong_count(&self.place) > WAITING_MAX {
            self.held = Some(window);
        } else {
            self.send(Some(window));
        }
    }

    /// Sends any other notice, after every window measured before it. There are few of these in a stretch.
    pub(super) fn tell(&mut self, notice: Notice) {
        let held = self.held.take();
        self.send(held);
        let _ = self.session.send(notice);
    }

    fn send(&self, window: Option<Box<Window>>) {
        if let Some(window) = window {
            // Fails only once the session is gone.
            let _ = self.session.send(Notice::Window {
                window,
                _place: self.place.clone(),
            });
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let held = self.held.take();
        self.send(held);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    fn window(epoch: u64) -> Window {
        let mut window = Window::new(epoch, 0, false);
        window.answers = 1;
        window
    }

    /// Answers of the windows that wait, stretch by stretch, and how many windows there are.
    fn waiting(notices: &Receiver<Notice>) -> (Vec<(u64, u64)>, usize) {
        let (mut answers, mut windows): (Vec<(u64, u64)>, _) = (Vec::new(), 0);
        while let Ok(Notice::Window { window, .. }) = notices.try_recv() {
            windows += 1;
            match answers.last_mut() {
                Some((epoch, sum)) if *epoch == window.epoch => *sum += window.answers,
                _ => answers.push((window.epoch, window.answers)),
            }
        }
        (answers, windows)
    }

    #[test]
    fn windows_that_nobody_takes_do_not_pile_up_and_lose_nothing() {
        let (sender, notices) = channel();
        let mut outbox = Outbox::new(sender);
        for _ in 0..1000 {
            outbox.measured(window(1));
        }
        let (answers, windows) = waiting(&notices);
        assert_eq!((answers, windows), (vec![(1, WAITING_MAX as u64)], WAITING_MAX));
        // There is room again, and what was merged goes out with the next.
        outbox.measured(window(1));
        assert_eq!(waiting(&notices), (vec![(1, 1001 - WAITING_MAX as u64)], 1));
    }

    #[test]
    fn what_is_held_comes_before_what_is_told_and_does_not_mix_stretches() {
        let (sender, notices) = channel();
        let mut outbox = Outbox::new(sender);
        for _ in 0..WAITING_MAX + 5 {
            outbox.measured(window(1));
        }
        outbox.measured(window(2));
        outbox.tell(Notice::Began(3));
        outbox.measured(window(3));
        drop(outbox);
        let (answers, _) = waiting(&notices);
        assert_eq!(answers, [(1, WAITING_MAX as u64 + 5), (2, 1)]);
        assert_eq!(waiting(&notices).0, [(3, 1)], "and `Began` was between them");
    }
}
