//! Handles the session's commands: a new load, a new stretch, the end.

use super::{Class, Command, Connection, Load, Notice, Pace, Pacer, Phase, Thread};

impl Thread {
    /// Executes a command of the session. True: the thread must end.
    pub(super) fn execute(&mut self, command: Command, now: u64) -> bool {
        match command {
            Command::Load(load) => self.set_load(load, now),
            Command::Epoch {
                number,
                requests,
                load,
            } => {
                self.give_up_due(load, now);
                self.context.publish(now);
                self.context.epoch = number;
                self.context.window.epoch = number;
                let open = self.connections.iter().filter(|known| known.phase == Phase::Open);
                self.context.window.held = open.count() as u64;
                self.context.window.under_way = self.context.in_flight as u64;
                self.context.budget = requests;
                self.context.idle_reported = false;
                self.context.examples_reported = 0;
                self.context.notices.tell(Notice::Began(number));
                self.set_load(load, now);
            }
            Command::End => {
                for sent in self
                    .connections
                    .iter()
                    .flat_map(|connection| &connection.in_flight)
                {
                    self.context
                        .window
                        .latency
                        .saturating_record(now.saturating_sub(sent.due));
                }
                let unanswered = self.context.in_flight as u64;
                self.context.window.failures.add(Class::Unanswered, unanswered);
                self.context.publish(now);
                return true;
            }
        }
        false
    }

    /// Counts requests that are due and wait for a connection when an open load ends: they are never sent. Each has waited at least this
    /// long; leaving them out would keep the latencies of the lucky ones only.
    fn give_up_due(&mut self, next: Load, now: u64) {
        if matches!(next.pace, Pace::Open { .. }) {
            return;
        }
        self.send_due(now);
        self.run_timers(now);
        let pacer = self.context.pacer.as_mut();
        let due: Vec<u64> = pacer.map_or_else(Vec::new, |pacer| pacer.backlog.drain(..).collect());
        self.context.pacer = None;
        for due in &due {
            self.context
                .window
                .latency
                .saturating_record(now.saturating_sub(*due));
        }
        let waiting = due.len() as u64;
        if waiting > 0 {
            self.context.window.failures.add(Class::Unanswered, waiting);
            self.context.example(Class::Unanswered, || {
                "requests that were due waited for a connection when the run ended".into()
            });
        }
    }

    fn set_load(&mut self, load: Load, now: u64) {
        self.give_up_due(load, now);
        let threads = self.context.plan.threads;
        self.context.load = load;
        self.context.active = self.context.share(load.connections);
        self.context.idle_reported = false;
        let pacer = Pacer::new(load.pace, self.context.index, threads, now);
        match (&mut self.context.pacer, pacer) {
            (Some(going), Some(next)) => going.resume(&next, now),
            (pacer, next) => *pacer = next,
        }
        let paced = load.pace != Pace::Closed;
        if paced && self.context.window.service.is_none() {
            self.context.publish(now);
        }
        while self.connections.len() < self.context.active {
            let index = self.connections.len();
            let lane = (index * threads + self.context.index) % self.context.plan.lanes.len();
            let keeps = self.context.keeps();
            self.connections.push(Connection::new(index, lane, keeps));
        }
        for index in 0..self.context.active {
            let connection = &mut self.connections[index];
            if connection.phase == Phase::Closed {
                self.open(index, now);
            } else {
                self.pump(index, now);
            }
        }
    }
}
