//! Makes a tree's file look as if the system had been restarted: unflushed pages are trusted only until then, which the
//! engine and the store detect by the boot id.

use std::{fs, ops::Range};

use memchr::memmem;

const PAGE: usize = 4096;
/// Offset of the boot id in a header page of the engine: after 20 bytes of any page and 192 of the header.
const BOOT_ID: Range<usize> = 212..228;
const HEADERS: usize = 3;

/// Makes a tree's file, or what a power cut has left of it, belong to another boot.
pub(crate) fn restart(tree: &mut [u8]) {
    for page in tree.chunks_mut(PAGE).take(HEADERS) {
        if let Some(id) = page.get_mut(BOOT_ID) {
            id.fill(0x5A);
        }
    }
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap();
    let id = id.trim_ascii();
    let mut from = 0;
    while let Some(found) = memmem::find(&tree[from..], id) {
        from += found;
        tree[from] = if tree[from] == b'0' { b'1' } else { b'0' };
    }
}
