//! A store's file as a system finds it that was started anew: unflushed pages are trusted only until then, which the engine and the store
//! know by the system's boot id.

use std::{fs, ops::Range};

const PAGE: usize = 4096;
/// Where a header page of the engine holds the boot id: after 20 bytes for any page and 192 of the header.
const BOOT_ID: Range<usize> = 212..228;
const HEADERS: usize = 3;

/// Gives the file another boot id.
pub(crate) fn restart(file: &mut [u8]) {
    for page in file.chunks_mut(PAGE).take(HEADERS) {
        for byte in &mut page[BOOT_ID] {
            *byte ^= 0x5A;
        }
    }
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap();
    let id = id.trim_ascii();
    while let Some(at) = file.windows(id.len()).position(|window| window == id) {
        file[at] = if file[at] == b'0' { b'1' } else { b'0' };
    }
}
