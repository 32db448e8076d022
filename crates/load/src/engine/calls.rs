//! Counts the system calls that a thread makes while it sends requests and reads responses, so that a test can hold it to their number.
//! Outside of tests nothing is counted.

/// System calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Wait,
    Receive,
    Send,
    /// Submits operations to a ring, or waits for them.
    Enter,
}

#[cfg(not(test))]
#[inline(always)]
pub(super) fn count(_: Call) {}

#[cfg(test)]
pub(super) use self::tests::count;

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, sync::mpsc::channel};

    use super::{
        super::{Clock, Command, Inbox, Notice, budget::Budget, ring::granted::granted, thread::Thread},
        Call,
    };
    use forebay_testkit::http_target::Server;

    use crate::{
        plan::{Engine, Lane, Load, Pace, Plan},
        request::{Parts, Requests},
        target::Url,
    };

    thread_local! {
        static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn count(call: Call) {
        CALLS.with_borrow_mut(|calls| calls.push(call));
    }

    fn requests_alike() -> Requests {
        let parts = Parts::get(&Url::parse("http://a/").unwrap());
        Requests::Same(parts.message().unwrap())
    }

    /// Sends so many requests from this very thread: all its calls, up to the last answer.
    fn calls(engine: Engine, connections: usize, pipeline: usize, requests: u64) -> Vec<Call> {
        let server = Server::start(1);
        let mut plan = Plan::new(vec![Lane::new(server.address(), requests_alike())]);
        plan.pipeline = pipeline;
        plan.engine = engine;
        let (sender, notices) = channel();
        let inbox = Inbox::new().unwrap();
        let thread = Thread::new(plan.shared(), 0, Clock::start(), inbox.clone(), sender).unwrap();
        inbox.put(Command::Epoch {
            number: 1,
            requests: Budget::new(Some(requests), 1),
            load: Load {
                connections,
                pace: Pace::Closed,
            },
        });
        let end = std::thread::spawn(move || {
            let answers = notices
                .iter()
                .take_while(|notice| !matches!(notice, Notice::Idle(_)));
            let answers: u64 = answers
                .map(|notice| match notice {
                    Notice::Window { window, .. } => window.answers,
                    _ => 0,
                })
                .sum();
            inbox.put(Command::End);
            answers
        });
        CALLS.take();
        thread.run();
        assert_eq!(end.join().unwrap(), requests);
        assert_eq!(server.stop().total.answered, requests);
        CALLS.take()
    }

    fn number(calls: &[Call], of: Call) -> u64 {
        calls.iter().filter(|call| **call == of).count() as u64
    }

    #[test]
    fn a_request_costs_one_send_one_receive_and_its_share_of_a_wait() {
        let (connections, requests) = (32, 20_000);
        let calls = calls(Engine::Epoll, connections, 1, requests);
        let (sends, receives, waits) = (
            number(&calls, Call::Send),
            number(&calls, Call::Receive),
            number(&calls, Call::Wait),
        );
        assert_eq!(sends, requests, "one for each request");
        assert_eq!(
            receives, requests,
            "one for each answer, and none to find that there is no more"
        );
        // A wait that brings nothing is one for a timer: they come every 100 ms.
        assert!(waits <= requests + requests / 10, "{waits} waits");
    }

    #[test]
    fn a_request_on_io_uring_costs_its_share_of_one_call() {
        if !has_io_uring() {
            return;
        }
        let (connections, requests) = (32, 20_000);
        let calls = calls(Engine::IoUring, connections, 1, requests);
        assert_eq!(number(&calls, Call::Send) + number(&calls, Call::Receive), 0);
        // Epoll tells of new connections and of the bell only.
        let waits = number(&calls, Call::Wait);
        assert!(waits <= connections as u64 + 10, "{waits} waits");
        let enters = number(&calls, Call::Enter);
        assert!(enters <= requests + requests / 10, "{enters} enters");
    }

    fn has_io_uring() -> bool {
        let server = Server::start(1);
        let mut plan = Plan::new(vec![Lane::new(server.address(), requests_alike())]);
        plan.engine = Engine::IoUring;
        granted(crate::Session::start(plan).map(drop))
    }

    #[test]
    fn io_uring_is_chosen_where_many_answers_come_at_once() {
        let server = Server::start(1);
        let chosen = |connections, pace, keep_alive| {
            let mut plan = Plan::new(vec![Lane::new(server.address(), requests_alike())]);
            (plan.threads, plan.keep_alive) = (2, keep_alive);
            plan.settle_engine(Load { connections, pace }).unwrap();
            plan.engine
        };
        let open = Pace::Open {
            per_second: 1.0,
            arrivals: crate::plan::Arrivals::Uniform,
        };
        for (connections, pace, keep_alive) in [
            (31, Pace::Closed, true),
            (64, open, true),
            (64, Pace::Closed, false),
        ] {
            assert_eq!(chosen(connections, pace, keep_alive), Engine::Epoll);
        }
        let many = if has_io_uring() {
            Engine::IoUring
        } else {
            Engine::Epoll
        };
        assert_eq!(chosen(32, Pace::Closed, true), many);
    }

    #[test]
    fn requests_that_are_pipelined_share_their_calls() {
        let requests = 20_000;
        let calls = calls(Engine::Epoll, 4, 16, requests);
        let sends = number(&calls, Call::Send);
        assert!(sends <= requests / 4, "{sends} sends");
        let receives = number(&calls, Call::Receive);
        assert!(receives <= requests / 4, "{receives} receives");
    }
}
