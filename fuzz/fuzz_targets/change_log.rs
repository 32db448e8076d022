//! A segment of the change log: the bytes themselves, and the bytes as valid records with arbitrary operations.

#![no_main]

use forebay_store::changes::{ChangeWalk, Step};

fn read(segment: &[u8]) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    std::fs::create_dir(folder.path().join("changes")).expect("there is room for a folder");
    std::fs::write(folder.path().join("changes/00000000000000000001.log"), segment).expect("there is room for a file");
    let Ok(Some(mut walk)) = ChangeWalk::of_log(folder.path(), 0) else {
        return;
    };
    let mut since = 0;
    while let Some(Ok(step)) = walk.next_within(u64::MAX, |_| true) {
        since += 1;
        assert_eq!(step.sequence(), since, "each change follows the one before");
        if let Step::Change(change) = step {
            assert!(change.to_json().starts_with(b"{\"sequence\":"));
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut log = b"FBCHG001".to_vec();
    for (before, operations) in bytes.split(|byte| *byte == 0xff).enumerate() {
        let mut body = (before as u64 + 1).to_le_bytes().to_vec();
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(operations);
        log.extend_from_slice(&(body.len() as u32).to_le_bytes());
        log.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        log.extend_from_slice(&body);
    }
    read(&log);
});
