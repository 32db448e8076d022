//! Faults from outside: failing starts, killed workers, changes of the pool's size, misplaced frames.

use bytes::Bytes;
use forebay_wire::flag;

use super::{
    dice::Dice,
    process::Boot,
    world::{World, header, response},
};

/// How starts currently behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultPlan {
    Fine,
    SpawnsFail,
    Hang,
    DieAtStart,
    Stillborn,
    Mixed,
}

const WEATHERS: [FaultPlan; 5] = [
    FaultPlan::SpawnsFail,
    FaultPlan::Hang,
    FaultPlan::DieAtStart,
    FaultPlan::Stillborn,
    FaultPlan::Mixed,
];

impl FaultPlan {
    /// Draws the outcome of a start. `None` means that there is not even a process.
    pub(super) fn boot(self, dice: &mut Dice) -> Option<Boot> {
        let now = match self {
            Self::Mixed if dice.chance(500) => WEATHERS[dice.size(0, WEATHERS.len() - 2)],
            Self::Mixed => Self::Fine,
            weather => weather,
        };
        match now {
            Self::Fine | Self::Mixed => Some(Boot::Ready(dice.micros(1_000, 60_000))),
            Self::Hang => Some(Boot::Hangs),
            Self::DieAtStart => Some(Boot::Dies(dice.micros(100, 60_000))),
            Self::Stillborn => Some(Boot::Stillborn(dice.micros(0, 50_000))),
            Self::SpawnsFail => None,
        }
    }
}

impl World {
    /// Injects one random fault.
    pub(super) fn chaos(&mut self) {
        self.next_chaos = Some(self.now + self.dice.pause(200_000));
        let dice = &mut self.dice;
        match dice.between(0, 9) {
            0 => self.arrival_gap_us = self.nature.gaps_us[dice.size(0, 5)],
            1 => {
                let min = dice.size(0, 3);
                let max = (min + dice.size(0, 3)).max(1);
                self.state.resize(min, max);
                self.tell(|| format!("resize to {min}, {max}"));
                self.wake();
            }
            2 => self.weather = WEATHERS[dice.size(0, WEATHERS.len() - 1)],
            3 | 4 => self.weather = FaultPlan::Fine,
            5 | 6 => {
                let ids: Vec<_> = self.processes.keys().copied().collect();
                if let Some(at) = ids.len().checked_sub(1) {
                    let id = ids[dice.size(0, at)];
                    let now = self.now;
                    if let Some(process) = self.processes.get_mut(&id) {
                        process.die(now, dice);
                    }
                    self.tell(|| format!("worker {id} is killed from outside"));
                }
            }
            7 => {
                let sizes: Vec<_> = self
                    .processes
                    .values()
                    .map(|p| (p.key, p.id as u32, dice.between(0, 120)))
                    .collect();
                self.state.set_rss(&sizes);
            }
            _ => self.stray(),
        }
    }

    /// Sends frames for jobs that are over, never existed, or belong to another worker: they are counted and change nothing.
    fn stray(&mut self) {
        let dice = &mut self.dice;
        let talking: Vec<_> = self
            .processes
            .values()
            .filter(|process| process.is_talking())
            .collect();
        let Some(last) = talking.len().checked_sub(1) else {
            return;
        };
        let process = talking[dice.size(0, last)];
        let key = process.key;
        if self
            .state
            .worker(key)
            .is_none_or(|worker| worker.id != process.id)
        {
            return;
        }
        let mut names: Vec<_> = process
            .over
            .iter()
            .copied()
            .filter(|_| process.due().is_none())
            .collect();
        names.extend([(0, 0), (4095, 1), (0, u32::MAX)]);
        names.extend(process.some_run().map(|run| (run.slot + 1, run.number)));
        names.extend(process.some_run().map(|run| (run.slot, run.number + 1000)));
        let name = names[dice.size(0, names.len() - 1)];
        let before = self.state.counters.stray_frames;
        let (now, out) = (self.now, &mut self.outputs);
        match dice.between(0, 3) {
            0 => assert_eq!(
                self.state
                    .answer(key, &header(name, flag::END), response(0, 0), None, now, out),
                Ok(())
            ),
            1 => assert_eq!(
                self.state.chunk(key, name, flag::END, Bytes::new(), now, out),
                Ok(())
            ),
            2 => self.state.reset(key, name, now, out),
            _ => self.state.window(key, name, 1, out),
        }
        assert_eq!(
            self.state.counters.stray_frames,
            before + 1,
            "a stray frame {name:?} is counted"
        );
        assert!(
            self.outputs.deliveries.is_empty(),
            "a stray frame changes nothing"
        );
    }
}
