//! One user of a scenario: which step comes next, when, and with which values. A connection has one user for the whole run; the user
//! outlives the connection's sockets.

use std::sync::Arc;

use super::{Scenario, Step, cookies::Jar};
use crate::{
    expect::{Expect, Seen, Unexpected},
    request::{
        source::{Put, Random},
        template::Draw,
    },
};

/// A user that goes through a scenario again and again.
#[derive(Debug)]
pub(crate) struct User {
    scenario: Arc<Scenario>,
    step: usize,
    /// The number of this pass; `None` before its first request.
    number: Option<u64>,
    variables: Vec<Vec<u8>>,
    jar: Jar,
    random: Random,
    /// When it has thought enough.
    ready_at: u64,
    /// Whether somebody will look at it then.
    alarm_is_set: bool,
    /// Whether a step of this pass was wrong.
    is_wrong: bool,
    /// How the last pass ended, until somebody asks.
    ended: Option<Pass>,
}

/// How a pass through a scenario has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Every step was right.
    Whole,
    Failed,
}

/// What a user does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Sends its next request.
    Send,
    /// Thinks; it is to be asked again at this time.
    Think(u64),
    /// Waits for an answer, or for a time that it has named already.
    Wait,
}

impl User {
    pub(in crate::request) fn new(scenario: Arc<Scenario>, random: Random) -> Self {
        Self {
            variables: scenario.start_values().cloned().collect(),
            scenario,
            step: 0,
            number: None,
            jar: Jar::default(),
            random,
            ready_at: 0,
            alarm_is_set: false,
            is_wrong: false,
            ended: None,
        }
    }

    /// What it does now; `waits`: an answer is due to it.
    pub(crate) fn turn(&mut self, now: u64, waits: bool) -> Turn {
        if waits {
            return Turn::Wait;
        }
        if now >= self.ready_at {
            self.alarm_is_set = false;
            return Turn::Send;
        }
        if std::mem::replace(&mut self.alarm_is_set, true) {
            Turn::Wait
        } else {
            Turn::Think(self.ready_at)
        }
    }

    /// Takes a number if a pass begins.
    pub(in crate::request) fn begin(&mut self, number: impl FnOnce() -> u64) {
        self.number.get_or_insert_with(number);
    }

    /// Appends its next request.
    pub(in crate::request) fn send(&mut self, seed: u64, body: &mut Vec<u8>, out: &mut Vec<u8>) -> Put {
        let mut draw = Draw {
            number: self.number.unwrap_or_default(),
            seed,
            random: &mut self.random,
            variables: &self.variables,
            jar: Some(&self.jar),
            body,
        };
        self.scenario.steps[self.step].template.render(&mut draw, out)
    }

    /// Takes the cookies of an answer that leads on; what follows is to have those that this returns, unless the step has its own.
    pub(crate) fn redirected(&mut self, seen: &Seen<'_>) -> Option<&Jar> {
        seen.fields("set-cookie").for_each(|field| self.jar.store(field));
        let template = &self.scenario.steps[self.step].template;
        template.has_cookies().then_some(&self.jar)
    }

    /// How a pass has ended, if one has since this was asked.
    pub(crate) fn pass(&mut self) -> Option<Pass> {
        self.ended.take()
    }

    /// Takes the answer to what it has sent; `expect` is for steps that say nothing of their own.
    pub(crate) fn answered(&mut self, seen: &Seen<'_>, expect: &Expect, now: u64) -> Result<(), Unexpected> {
        seen.fields("set-cookie").for_each(|field| self.jar.store(field));
        let step = &self.scenario.steps[self.step];
        let right = step
            .expect
            .as_ref()
            .unwrap_or(expect)
            .check(seen)
            .and_then(|()| extract(step, seen, &mut self.variables));
        self.ready_at = now + step.think.draw(&mut self.random);
        self.alarm_is_set = false;
        let right = right.map_err(|unexpected| Unexpected {
            text: format!("step {}: {}", step.name, unexpected.text),
            ..unexpected
        });
        self.go_on(right.is_ok());
        right
    }

    /// No answer will come to what it has sent.
    pub(crate) fn lost(&mut self) {
        self.go_on(false);
    }

    fn go_on(&mut self, right: bool) {
        self.step += 1;
        self.is_wrong |= !right;
        if (!right && self.scenario.restarts) || self.step == self.scenario.steps.len() {
            self.step = 0;
            self.number = None;
            let wrong = std::mem::take(&mut self.is_wrong);
            self.ended = Some(if wrong { Pass::Failed } else { Pass::Whole });
            if !self.scenario.keeps_cookies {
                self.jar.clear();
            }
            for (variable, start) in self.variables.iter_mut().zip(self.scenario.start_values()) {
                variable.clone_from(start);
            }
        }
    }
}

/// Takes values out of an answer.
fn extract(step: &Step, seen: &Seen<'_>, variables: &mut [Vec<u8>]) -> Result<(), Unexpected> {
    for extract in &step.extracts {
        match extract.find(seen) {
            Ok(value) => variables[extract.variable] = value,
            Err(what) => return Err(Unexpected::mismatch(&what, seen)),
        }
    }
    Ok(())
}
