//! Rooms: named sets of WebSockets, across all workers of a pool. A message published to a room goes to all of its members.

use std::collections::{HashMap, HashSet};

/// Most rooms that one WebSocket may be in.
pub(crate) const ROOMS_MAX: usize = 256;
/// Longest name of a room, in bytes.
pub(crate) const ROOM_NAME_MAX: usize = 256;

/// The rooms of a pool, and the jobs of their members.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    members: HashMap<Box<[u8]>, HashSet<usize>>,
    names: HashMap<usize, HashSet<Box<[u8]>>>,
}

impl Rooms {
    /// Puts a job into a room. Returns false if it is in [`ROOMS_MAX`] already.
    pub(super) fn join(&mut self, job: usize, name: &[u8]) -> bool {
        let names = self.names.entry(job).or_default();
        if names.len() >= ROOMS_MAX && !names.contains(name) {
            return false;
        }
        names.insert(name.into());
        self.members.entry(name.into()).or_default().insert(job);
        true
    }

    pub(super) fn leave(&mut self, job: usize, name: &[u8]) {
        if let Some(names) = self.names.get_mut(&job) {
            names.remove(name);
        }
        self.remove(job, name);
    }

    pub(super) fn leave_all(&mut self, job: usize) {
        for name in self.names.remove(&job).unwrap_or_default() {
            self.remove(job, &name);
        }
    }

    fn remove(&mut self, job: usize, name: &[u8]) {
        if let Some(members) = self.members.get_mut(name) {
            members.remove(&job);
            if members.is_empty() {
                self.members.remove(name);
            }
        }
    }

    /// The jobs in a room.
    pub(super) fn members(&self, name: &[u8]) -> impl Iterator<Item = usize> + '_ {
        self.members.get(name).into_iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(rooms: &Rooms, name: &[u8]) -> Vec<usize> {
        let mut members: Vec<_> = rooms.members(name).collect();
        members.sort_unstable();
        members
    }

    #[test]
    fn a_room_has_those_who_joined_and_have_not_left() {
        let mut rooms = Rooms::default();
        for job in [1, 2, 2, 3] {
            assert!(rooms.join(job, b"a"));
        }
        assert!(rooms.join(2, b"b"));
        rooms.leave(3, b"a");
        rooms.leave(3, b"unknown");
        assert_eq!(members(&rooms, b"a"), [1, 2]);
        rooms.leave_all(2);
        assert_eq!(members(&rooms, b"a"), [1]);
        rooms.leave_all(1);
        rooms.leave_all(3);
        assert!(
            rooms.members.is_empty() && rooms.names.is_empty(),
            "nothing is kept of empty rooms"
        );
    }

    #[test]
    fn nobody_is_in_more_rooms_than_the_limit() {
        let mut rooms = Rooms::default();
        for room in 0..ROOMS_MAX as u32 {
            assert!(rooms.join(1, &room.to_le_bytes()));
        }
        assert!(rooms.join(1, &0u32.to_le_bytes()), "it is in that room already");
        assert!(!rooms.join(1, b"one more"));
        assert!(rooms.join(2, b"one more"));
    }
}
