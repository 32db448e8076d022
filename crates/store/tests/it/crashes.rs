//! Writers killed at any point: every write reported as durable is there, no transaction is partly there, and other
//! processes continue.

use std::{
    env,
    io::{BufRead, BufReader, Write, stdout},
    path::Path,
    process::{Child, Command, Stdio},
};

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError,
    index::{Definition, Query},
};

const FOLDER: &str = "FOREBAY_TEST_STORE";
const WRITER: &str = "FOREBAY_TEST_WRITER";

fn key(global: &str, path: &[&str]) -> Key {
    let mut key = Key::global(global).unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

fn options() -> Options {
    Options {
        lead: false,
        pack_bytes_max: 64,
        ..Options::default()
    }
}

/// Subprocess: writes forever, in each transaction a record, a second copy of it in another global, and a count. Prints
/// a number once it is durable.
#[test]
fn a_writer() {
    let (Some(folder), Ok(writer)) = (env::var_os(FOLDER), env::var(WRITER)) else {
        return;
    };
    let store = Store::open(Path::new(&folder), &options()).unwrap();
    let mut locks = store.locks().unwrap();
    for number in 1.. {
        let number = format!("{number}");
        let durability = if number.ends_with('7') {
            Durability::Sync
        } else {
            Durability::Group
        };
        locks.lock(&key("L", &[&writer, &number]), None).unwrap();
        let mut transaction = store.begin().unwrap();
        let document = format!(
            "{{\"by\":\"{writer}\",\"n\":{number},\"more\":[{number},\"{}\"]}}",
            "x".repeat(50)
        );
        transaction
            .put(&key("A", &[&writer, &number]), document.as_bytes())
            .unwrap();
        transaction
            .merge(&key("B", &[&writer, &number]), &key("A", &[&writer, &number]))
            .unwrap();
        transaction.increment(&key("Count", &[&writer]), "1").unwrap();
        transaction.commit(durability).unwrap();
        println!("\nwriter {number}");
        stdout().flush().unwrap();
    }
}

fn start(folder: &Path, writer: &str) -> (Child, impl Iterator<Item = u64> + use<>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crashes::a_writer", "--nocapture", "--test-threads=1"])
        .envs([(FOLDER, folder.as_os_str()), (WRITER, writer.as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("writer ")?.parse().ok());
    (child, told)
}

/// Checks that no transaction is partly there; returns how many records the writer has.
fn whole(store: &Store, writer: &str) -> u64 {
    let snapshot = store.snapshot().unwrap();
    let (first, second) = (key("A", &[writer]), key("B", &[writer]));
    assert_eq!(
        snapshot.document(&first).unwrap(),
        snapshot.document(&second).unwrap()
    );
    let records = snapshot
        .children(&first, forebay_store::Range::default())
        .unwrap()
        .count() as u64;
    let count = snapshot
        .get(&key("Count", &[writer]))
        .unwrap()
        .map_or("0".into(), String::from_utf8_lossy);
    assert_eq!(count, records.to_string());
    let indexed = snapshot
        .query(&format!("of {writer}"), &Query::default())
        .unwrap()
        .count() as u64;
    assert_eq!(indexed, records);
    records
}

#[test]
fn killed_writers_leave_whole_transactions_and_all_that_they_said_was_durable() {
    let rounds = if env::var_os("FOREBAY_SOAK").is_some() {
        2000
    } else {
        25
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &options()).unwrap();
    for writer in ["one", "other"] {
        let definition = Definition {
            name: format!("of {writer}"),
            records: key("A", &[writer]),
            fields: vec![vec!["n".into()]],
            unique: true,
        };
        store
            .transact(|transaction| transaction.define_index(&definition))
            .unwrap();
    }
    let mut since = store.snapshot().unwrap().sequence().unwrap();
    for round in 0..rounds {
        let (mut killed, mut told) = start(folder.path(), "one");
        let (mut survivor, mut others) = start(folder.path(), "other");
        // At which point of a transaction this happens depends on the machine.
        let enough = 1 + round * 7 % 40;
        let mut last = 0;
        while last < enough {
            last = told.next().unwrap();
        }
        killed.kill().unwrap();
        // Output it had written before it died counts as well.
        last = told.last().unwrap_or(last);
        killed.wait().unwrap();
        assert!(whole(&store, "one") >= last, "round {round}");
        // The other process is not blocked, by any lock or transaction.
        let mut go_on = others.by_ref().skip(3);
        let alive = go_on.next().unwrap();
        survivor.kill().unwrap();
        let alive = others.last().unwrap_or(alive);
        survivor.wait().unwrap();
        assert!(whole(&store, "other") >= alive, "round {round}");
        store.snapshot().unwrap().verify_indexes().unwrap();
        let mut locks = store.locks().unwrap();
        assert!(
            locks
                .lock(&key("L", &[]), Some(std::time::Duration::ZERO))
                .unwrap()
        );
        // Every commit is in the log exactly once.
        for change in store.changes(since).unwrap() {
            assert_eq!(change.unwrap().sequence, since + 1, "round {round}");
            since += 1;
        }
        assert_eq!(store.snapshot().unwrap().sequence().unwrap(), since);
        store
            .transact(|transaction| {
                for global in ["A", "B", "Count"] {
                    transaction.kill(&key(global, &[]))?;
                }
                Ok::<_, StoreError>(())
            })
            .unwrap();
        since += 1;
        store.clear_dead_readers().unwrap();
    }
}

/// Subprocess: prints the number of existing writes, then makes one after another forever and prints each once it is
/// durable.
#[test]
fn a_counter() {
    let Some(folder) = env::var_os(FOLDER) else {
        return;
    };
    let store = Store::open(Path::new(&folder), &Options::default()).unwrap();
    let count = |store: &Store| {
        let snapshot = store.snapshot().unwrap();
        snapshot
            .children(&key("C", &[]), forebay_store::Range::default())
            .unwrap()
            .count()
    };
    let found = count(&store);
    println!("\nwriter {found}");
    for number in found + 1.. {
        let mut transaction = store.begin().unwrap();
        transaction.set(&key("C", &[&number.to_string()]), b"1").unwrap();
        transaction.commit(Durability::Group).unwrap();
        println!("\nwriter {number}");
        stdout().flush().unwrap();
    }
}

/// Boot id that a subprocess sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BootId {
    /// The system's own.
    Own,
    /// A different one in each round, as after a restart of the system.
    Changed,
    /// A file with the same content in each round, as a container manager may mount it.
    Mounted,
    /// No such file.
    Missing,
}

/// Starts [`a_counter`] with this boot id in a mount namespace of its own.
fn start_counter(folder: &Path, boot: BootId, round: usize) -> (Child, impl Iterator<Item = u64> + use<>) {
    let id = folder.with_extension("boot_id");
    std::fs::write(
        &id,
        match boot {
            BootId::Changed => format!("5a5a5a5a-0000-4000-8000-{round:012}\n"),
            _ => "5a5a5a5a-1111-4111-8111-111111111111\n".to_owned(),
        },
    )
    .unwrap();
    let mount = match boot {
        BootId::Own => "true",
        BootId::Changed | BootId::Mounted => "mount --bind \"$ID\" /proc/sys/kernel/random/boot_id",
        BootId::Missing => "mount -t tmpfs none /proc/sys/kernel/random",
    };
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let mut child = command
        .args(["sh", "-c", &format!("{mount} && exec \"$@\""), "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "crashes::a_counter", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env("ID", &id)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("writer ")?.parse().ok());
    (child, told)
}

#[test]
fn a_killed_process_has_lost_nothing_whatever_the_boot_id_is() {
    let (rounds, writes) = if env::var_os("FOREBAY_SOAK").is_some() {
        (50, 200)
    } else {
        (3, 20)
    };
    for boot in [BootId::Own, BootId::Changed, BootId::Mounted, BootId::Missing] {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("store");
        let mut acknowledged = 0;
        for round in 0..=rounds {
            let (mut killed, mut told) = start_counter(&folder, boot, round);
            let found = told.next().unwrap();
            assert!(
                found == acknowledged || found == acknowledged + 1,
                "{boot:?}, round {round}: {found} of {acknowledged}"
            );
            let last = told.by_ref().nth(writes - 1).unwrap();
            killed.kill().unwrap();
            // Output it had written before it died counts as well.
            acknowledged = told.last().unwrap_or(last);
            killed.wait().unwrap();
        }
        println!("{boot:?}: {acknowledged} acknowledged writes, none lost");
    }
}

/// Cuts the power of the ext4 file system that holds a folder: whatever it has not written to its disk yet is lost.
const POWER_CUT: &str = "import fcntl, os, struct, sys
EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), EXT4_IOC_SHUTDOWN, struct.pack('I', NO_LOG_FLUSH))";

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "{command:?}: {status:?}"
    );
}

/// A separate file system, unmounted when dropped.
struct Disk<'a>(&'a Path);

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        run(Command::new("umount").arg(self.0));
    }
}

/// Requires `FOREBAY_SOAK=1` and root, because it mounts an image. The tests that run everywhere are in `power.rs`.
#[test]
fn a_disk_that_lost_its_power_has_every_acknowledged_write_whatever_the_boot_id_is() {
    if env::var_os("FOREBAY_SOAK").is_none() {
        return;
    }
    let (rounds, writes) = (20, 500);
    for boot in [BootId::Own, BootId::Changed, BootId::Mounted, BootId::Missing] {
        let above = tempfile::tempdir().unwrap();
        let (image, mounted) = (above.path().join("image"), above.path().join("disk"));
        std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        std::fs::create_dir(&mounted).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        let mut acknowledged = 0;
        for round in 0..=rounds {
            run(Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &mounted]));
            let disk = Disk(&mounted);
            let (mut killed, mut told) = start_counter(&mounted.join("store"), boot, round);
            let found = told.next().unwrap();
            assert!(
                found == acknowledged || found == acknowledged + 1,
                "{boot:?}, round {round}: {found} of {acknowledged}"
            );
            let last = told.by_ref().nth(writes - 1).unwrap();
            run(Command::new("python3").args(["-c", POWER_CUT]).arg(&mounted));
            // The writer ends with the first commit that fails; writes reported before that count as well.
            acknowledged = told.last().unwrap_or(last);
            killed.kill().unwrap();
            killed.wait().unwrap();
            drop(disk);
        }
        println!("{boot:?}: {acknowledged} acknowledged writes, none lost");
    }
}
