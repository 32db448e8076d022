//! What a session asks of a thread: another load, another stretch, an end.

use super::{After, BACKLOG_MAX, Budget, Class, Command, Load, Notice, Pace, Pacer, Phase, Reverse, Thread};

impl Thread {
    /// Does what the session asks. True: the thread shall end.
    pub(super) fn obey(&mut self, command: Command, now: u64) -> bool {
        match command {
            Command::Load(load) => self.set_load(load, now),
            Command::Found(found) => {
                let index = found.index;
                match self.context.resolved(&mut self.connections[index], found) {
                    After::Goes => self.pump(index, now),
                    After::Reopen => self.go_on(index, After::Reopen, now),
                }
            }
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
                self.context.budget = match self.context.plan.requests_each {
                    Some(each) => {
                        let users = self.context.share(load.connections) as u64;
                        Budget::new(Some(each.saturating_mul(users)), 1)
                    }
                    None => requests,
                };
                self.context.idle_told = false;
                self.context.examples_told = 0;
                self.context.notices.tell(Notice::Began(number));
                self.set_load(load, now);
            }
            Command::End => {
                if !self.context.plan.notes.exclude_errors {
                    for sent in self
                        .connections
                        .iter()
                        .flat_map(|connection| &connection.in_flight)
                    {
                        self.context
                            .window
                            .record_split(now.saturating_sub(sent.due), None);
                    }
                }
                let unanswered = self.context.in_flight as u64;
                self.context.window.failures.add(Class::Unanswered, unanswered);
                self.context.publish(now);
                return true;
            }
        }
        false
    }

    /// Counts what is due and waits for a connection when an open load ends: nobody will send it any more. It has waited so long at
    /// least, and a latency that left it out would be of those alone that were lucky.
    fn give_up_due(&mut self, next: Load, now: u64) {
        if matches!(next.pace, Pace::Open { .. }) {
            return;
        }
        self.send_due(now);
        self.run_timers(now);
        let due: Vec<u64> = match (&mut self.context.pacer, self.context.load.pace) {
            (Some(pacer), _) => pacer.backlog.drain(..).collect(),
            (None, Pace::PerConnection { per_second }) if next.pace != self.context.load.pace => {
                self.due_on_connections(per_second, now)
            }
            _ => Vec::new(),
        };
        self.context.pacer = None;
        let left_out = self.context.plan.notes.exclude_errors;
        for due in due.iter().filter(|_| !left_out) {
            self.context.window.record_split(now.saturating_sub(*due), None);
        }
        let waiting = due.len() as u64;
        if waiting > 0 {
            self.context.window.failures.add(Class::Unanswered, waiting);
            self.context.example(Class::Unanswered, || {
                "requests that were due waited for a connection when the run ended".into()
            });
        }
    }

    /// What was due on connections and was not sent, because each waits for its answer or is not open.
    fn due_on_connections(&mut self, per_second: f64, now: u64) -> Vec<u64> {
        let mut due = Vec::new();
        if self.context.budget.is_spent() {
            return due;
        }
        for connection in &mut self.connections[..self.context.active] {
            while connection.next_due <= now && due.len() < BACKLOG_MAX {
                due.push(connection.next_due);
                connection.next_due += (1e9 / per_second).max(1.0) as u64;
            }
        }
        due
    }

    fn set_load(&mut self, load: Load, now: u64) {
        self.give_up_due(load, now);
        let threads = self.context.plan.threads;
        let before = std::mem::replace(&mut self.context.load, load);
        self.context.active = self.context.share(load.connections);
        self.context.idle_told = false;
        let pacer = Pacer::new(load.pace, self.context.index, &self.context.plan, now);
        match (&mut self.context.pacer, pacer) {
            (Some(going), Some(next)) => going.resume(next, now),
            (pacer, next) => *pacer = next,
        }
        let paced = load.pace != Pace::Closed;
        if paced && self.context.window.service.is_none() {
            self.context.publish(now);
        }
        let known = self.connections.len();
        while self.connections.len() < self.context.active {
            let index = self.connections.len();
            let lane = (index * threads + self.context.index) % self.context.plan.lanes.len();
            let mut connection = self.context.connection(index, lane);
            if let Some(ramp) = &mut self.context.ramp {
                connection.not_before = ramp.next(now);
                self.context.timers.push(Reverse((connection.not_before, index)));
            }
            self.connections.push(connection);
        }
        if let Pace::PerConnection { per_second } = load.pace {
            let first = if before.pace == load.pace { known } else { 0 };
            // Spread over the first interval, or all of them would send at once.
            let interval = 1e9 / per_second;
            let active = self.context.active.max(1) as f64;
            for connection in self.connections[..self.context.active].iter_mut().skip(first) {
                let spread = now + (interval * connection.index as f64 / active) as u64;
                connection.next_due = spread.max(connection.not_before);
            }
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
