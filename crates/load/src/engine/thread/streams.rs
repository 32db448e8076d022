//! HTTP/2 in the event loop: the same connections, loads and counts, with answers in any order.

use rustix::io::Errno;

use super::{After, Context, patience::late};
use crate::{
    engine::connection::{Connection, Phase, SHUT, Sent},
    failure::Class,
    h2::{Client, Event},
};

impl Context {
    /// Begins to speak HTTP/2 on a connection that can carry it. It is open when the server has sent its settings: what it allows is
    /// known then, and no request is refused that need not have been sent.
    pub(super) fn greet(&mut self, connection: &mut Connection) -> After {
        connection.phase = Phase::Greeting;
        connection.carried = 0;
        connection.h2 = Some(Box::new(Client::new(self.keeps_on(connection.index))));
        self.send_frames(connection)
    }

    /// Sends so many requests.
    pub(super) fn send_streams(&mut self, connection: &mut Connection, count: usize, now: u64) -> After {
        for _ in 0..count {
            let due = self.next_due(connection, now);
            self.window.lag_max_ns = self.window.lag_max_ns.max(now.saturating_sub(due));
            connection.asked += 1;
            self.rendered.clear();
            let put = self.render(connection);
            let h2 = connection
                .h2
                .as_mut()
                .expect("only a connection with HTTP/2 has streams");
            match self.coders[connection.lane].code(&self.rendered) {
                Ok(coded) => {
                    h2.request(coded, put.head_only);
                    connection.in_flight.push_back(Sent {
                        due,
                        at: now,
                        which: self.sources[connection.lane].which(),
                        head_only: put.head_only,
                    });
                    connection.carried += 1;
                    self.in_flight += 1;
                    self.window.sent += 1;
                }
                Err(why) => {
                    connection.lose(&mut self.window);
                    self.window.fail(Class::Write);
                    self.example(Class::Write, || {
                        format!("a request cannot be sent with HTTP/2: {why}")
                    });
                }
            }
        }
        self.send_frames(connection)
    }

    /// Writes the frames that are ready, as far as the socket takes them.
    pub(super) fn send_frames(&mut self, connection: &mut Connection) -> After {
        let (Some(h2), Some(transport)) = (&mut connection.h2, &mut connection.transport) else {
            return After::Goes;
        };
        while connection.unsent.is_empty() {
            h2.upload();
            if h2.out.is_empty() {
                break;
            }
            let sent = match transport.send(&h2.out) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => 0,
                Err(error) => return self.write_failed(connection, error),
            };
            self.window.bytes_out += h2.out.len() as u64;
            connection.unsent.push(&h2.out[sent..]);
            h2.out.clear();
        }
        After::Goes
    }

    /// Takes what was received into the scratch buffer.
    pub(super) fn take_frames(&mut self, connection: &mut Connection, received: usize) -> After {
        connection.heard = self.woke;
        if let Some(h2) = &mut connection.h2 {
            h2.now = self.woke;
        }
        let mut at = 0;
        while at < received {
            let h2 = connection
                .h2
                .as_mut()
                .expect("only a connection with HTTP/2 has frames");
            let event = match h2.read(&self.scratch[at..received]) {
                Ok((used, event)) => {
                    at += used;
                    event
                }
                Err(broken) => return self.close(connection, broken.class, broken.what),
            };
            match event {
                None => {}
                Some(Event::Settled) => {
                    let now = self.clock.now();
                    self.opened(connection, now);
                }
                Some(Event::Answer { place, answer, began }) => {
                    connection.reader.kept = h2.kept.take();
                    if let Some(sent) = connection.in_flight.remove(place) {
                        self.count_answer(connection, sent, answer, Some(began));
                    }
                }
                Some(Event::Lost { place, class, what }) => {
                    let lost = connection.in_flight.remove(place);
                    self.note_lost(connection.lane, lost.into_iter(), class);
                    connection.lose(&mut self.window);
                    self.in_flight -= 1;
                    self.window.fail(class);
                    self.example(class, || what);
                }
                Some(Event::GoesAway { place, what }) => {
                    if connection.carried == 0 {
                        return self.connect_failed(connection, Class::ClosedEarly, &what);
                    }
                    let lost = connection.in_flight.len() - place;
                    let gone = connection.in_flight.split_off(place);
                    self.note_lost(connection.lane, gone.into_iter(), Class::ClosedEarly);
                    connection.ending = true;
                    if lost as u64 == connection.carried {
                        connection.carried = 0;
                    }
                    self.in_flight -= lost;
                    self.window.failures.add(Class::ClosedEarly, lost as u64);
                    if lost > 0 {
                        connection.lose(&mut self.window);
                        self.example(Class::ClosedEarly, || what);
                    }
                }
            }
        }
        if self.is_over(connection) {
            return self.part(connection);
        }
        if connection.phase == Phase::Greeting {
            return self.send_frames(connection);
        }
        // Replies to the server's frames go with the next requests.
        self.answered.push(connection.index);
        After::Goes
    }

    /// Whether a connection has done its part.
    fn is_over(&self, connection: &Connection) -> bool {
        let spent = connection.h2.as_ref().is_some_and(|h2| h2.takes_no_more());
        let most = self.plan.carried_max();
        connection.in_flight.is_empty() && (spent || connection.ending || connection.carried >= most)
    }

    fn part(&mut self, connection: &mut Connection) -> After {
        // What is due to be said, a reset for example, is said before the end.
        let _ = self.send_frames(connection);
        self.reopen(connection)
    }

    /// Gives up the requests that have waited too long; the others on the connection go on.
    pub(super) fn cancel_late(&mut self, connection: &mut Connection, now: u64) -> After {
        let mut from = 0;
        while let Some((place, class)) = self.patience.first_late(connection, from, now) {
            self.count_late(connection, place, now);
            if let Some(h2) = &mut connection.h2 {
                h2.cancel(place);
            }
            let lost = connection.in_flight.remove(place);
            connection.lose(&mut self.window);
            self.in_flight -= 1;
            self.note_lost(connection.lane, lost.into_iter(), class);
            self.window.fail(class);
            self.example(class, || late(class).into());
            from = place;
        }
        if self.is_over(connection) {
            return self.part(connection);
        }
        match self.fill(connection, now) {
            After::Goes => self.send_frames(connection),
            After::Reopen => After::Reopen,
        }
    }

    /// The other side sends nothing more.
    pub(super) fn frames_ended(&mut self, connection: &mut Connection) -> After {
        if connection.phase == Phase::Greeting {
            let shut = connection.h2.as_ref().and_then(|h2| h2.shut_since());
            let what = shut.map_or("the connection was closed before HTTP/2's settings came", |_| {
                SHUT
            });
            return self.close(connection, Class::ClosedEarly, what);
        }
        let Some(h2) = &connection.h2 else {
            return After::Goes;
        };
        let lost = connection.in_flight.len();
        let begun = (0..lost).filter(|&place| h2.progress(place).is_some()).count();
        if lost as u64 == connection.carried {
            connection.carried = 0;
        }
        if lost > 0 {
            connection.lose(&mut self.window);
        }
        self.in_flight -= lost;
        let gone = std::mem::take(&mut connection.in_flight);
        self.note_lost(connection.lane, gone.into_iter(), Class::ClosedEarly);
        for (class, count, what) in [
            (
                Class::Truncated,
                begun,
                "the connection was closed in the middle of an answer",
            ),
            (
                Class::ClosedEarly,
                lost - begun,
                "the connection was closed before an answer began",
            ),
        ] {
            self.window.failures.add(class, count as u64);
            if count > 0 {
                self.example(class, || what.into());
            }
        }
        self.reopen(connection)
    }
}
