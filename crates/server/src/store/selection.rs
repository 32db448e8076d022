//! Read-only TQL statements, executed in slices short enough that other requests get their turn in between.

use std::{sync::Arc, time::Instant};

use forebay_records::{
    Permission, Settings,
    tql::{Budget, Execution, Progress, Statement},
};
use forebay_store::{Read as _, Snapshot};

use super::{OpenStore, PIECE_TIME, Pieces, StreamPermit, lifetime::now_ms};
use crate::failure::Refusal;

/// Records processed in one slice at most.
const PART_RECORDS: u64 = 4096;

/// A statement executed over one snapshot of the store.
#[derive(Debug)]
pub(crate) struct Selection {
    open: Arc<OpenStore>,
    snapshot: Snapshot,
    execution: Execution,
    /// Target number of bytes produced by a slice.
    part_bytes: usize,
    place: Option<StreamPermit>,
}

impl Selection {
    pub(crate) fn new(
        open: &Arc<OpenStore>,
        statement: Statement,
        settings: &Arc<Settings>,
        leave: &impl Permission,
        part_bytes: usize,
    ) -> Result<Self, Refusal> {
        let snapshot = open.store().snapshot()?;
        let execution = Execution::new(&Arc::new(statement), settings, &snapshot, leave, now_ms())?;
        Ok(Self {
            open: Arc::clone(open),
            snapshot,
            execution,
            part_bytes,
            place: None,
        })
    }

    /// Ends the results at this point with an explanation. Returns false if the format has no room for one here.
    pub(crate) fn cut(&mut self, why: &'static str, out: &mut Vec<u8>) -> bool {
        self.execution.cut(why, out)
    }
}

impl Pieces for Selection {
    /// Executes the next slice. A statement that needs more than one keeps its snapshot, for which it needs one of few permits.
    fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.snapshot.forget_read();
        let part = Budget {
            records: PART_RECORDS,
            bytes: self.part_bytes,
            until: Some(Instant::now() + PIECE_TIME),
        };
        let progress = self.execution.step(&self.snapshot, part, out)?;
        let more = progress == Progress::More;
        if more && self.place.is_none() {
            self.place = Some(self.open.stream()?);
        }
        Ok(more)
    }
}
