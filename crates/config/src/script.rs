//! `[script.NAME]`, and what rules share with scripts

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_script::FetchHost;

use crate::build::Context;
use crate::fields::Fields;
use crate::key::{GIB, KIB, MIB, MINUTE, SECOND, TIB};
use crate::section::{section, words};
use crate::setting::parsed;

section! {
    /// JavaScript inside the server. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[check(Script::check)]
    pub struct Script {
        /// The handler's module, JavaScript or TypeScript. It imports `forebay` and files, by their paths.
        handler: PathBuf as FILE,
        /// The folder whose files, and those below it, the script may import; the handler is one of them. Without the key: the handler's
        /// folder.
        modules: Option<PathBuf>,
        /// Which threads run it. `executor`: its own. `io`: for GET and HEAD the I/O thread that read the request; there it can only read,
        /// and it is restarted on an executor if it needs more than that or more time. `auto`: like `io`, once executors have answered
        /// similar requests quickly.
        on: ScriptPlacement = "auto",
        /// Longest request that an I/O thread answers, its path, query, headers and body together; an executor answers others. What one
        /// call of the language itself takes, such as `indexOf`, cannot be stopped and grows with its input.
        io_input_max: u64 as size(0, MIB) = "8KiB",
        /// How long a call runs on an I/O thread. Then an executor does it again.
        io_cpu_max: Duration as duration(1, SECOND) = "25ms",
        /// Time of the processor for one call on an executor.
        cpu_max: Duration as duration(1, 10 * MINUTE) = "1s" => "504",
        /// From the start of a call on an executor to its answer, what it waits for included. Also for loading the script.
        time_max: Duration as TIMEOUT = "5s" => "504",
        /// Memory of one engine, of which there are one or two for each I/O thread (the second for calls that wait for statements), and for
        /// each executor thread one, or several up to `engines_max`.
        memory_max: u64 as size(4 * MIB, 4 * GIB) = "64MiB" => "500",
        /// Longest answer.
        output_max: u64 as size(KIB, GIB) = "8MiB" => "500",
        /// Calls on executors at a time, those included that wait for one.
        in_flight_max: usize as integer(1, 1_000_000) = "1024" => "503 with `Retry-After`",
        /// Bytes of the requests of these calls. A lone request may exceed it; `body_bytes_max` bounds that.
        queue_bytes_max: u64 as size(64 * KIB, TIB) = "64MiB" => "503 with `Retry-After`",
        /// Most executor threads, started when needed; 0: one per core.
        executors: usize as integer(0, 256) = "0",
        /// Engines per executor thread, each up to `memory_max`: with `isolated` one per open call, otherwise one more for each that was
        /// stopped or ran out of memory while other calls wait in it.
        engines_max: usize as integer(1, 4096) = "16" => "the next call waits; 504 when its deadline comes first",
        /// Whether each call has an engine of its own, so that nothing that one leaves behind, in globals or modules, is there for another.
        /// Executors do all of them, and each costs the loading of the script.
        isolated: bool = "false",
        /// Limits of `fetch`.
        fetch: FetchLimits as group(FetchLimits::KEYS),
        /// The systems that the script may reach; no others.
        allow: ScriptAllow,
    }
}

section! {
    /// Limits of the `fetch` requests of a call.
    pub struct FetchLimits {
        /// From the start of a `fetch` to the end of what answers it, redirects included.
        fetch_time_max: Duration as TIMEOUT = "5s" => "the `fetch`, or what reads its answer, fails with a `TimeoutError`",
        /// Longest body of what answers a `fetch`.
        fetch_bytes_max: u64 as size(KIB, GIB) = "8MiB" => "what reads it fails with a `TypeError`",
        /// Fetches that one call, or one run of rules, begins.
        fetches_max: u32 as integer(1, 1_000_000) = "64" => "the next fails with a `TypeError`",
    }
}

section! {
    /// The systems that scripts and rules may reach.
    #[rules(ScriptAllow::rules)]
    #[derive(Default)]
    pub struct ScriptAllow {
        /// Globals of the store, to read and write; `*` is all.
        store: Vec<String> = "",
        /// Databases: NAMEs of `[sql.NAME]`.
        sql: Vec<String> as names("sql") = "",
        /// Hosts that `fetch` may ask, redirects included: `api.example.org` at the ports 80 and 443 of `http:` and `https:`,
        /// `127.0.0.1:9000` at that port, `*.example.com` with any name before the dot.
        fetch: Vec<FetchHost> = "",
        /// Folders whose files `Files` of `forebay/rules` may read and write, and all that is in them.
        files: Vec<PathBuf> as FOLDERS = "",
    }
}

words! {
    /// The threads that run a script.
    pub enum ScriptPlacement {
        /// The I/O thread for small safe requests of which similar ones were fast, otherwise an executor.
        Auto = "auto",
        /// The I/O thread for small safe requests, otherwise an executor.
        Io = "io",
        /// Always an executor.
        Executor = "executor",
    }
}

impl Script {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if self.executors == 0 {
            self.executors = context.environment.cores;
        }
        let modules = self.modules();
        if !modules.is_dir() || !self.handler.starts_with(modules) {
            let message = format!(
                "found {:?}, expected a folder that has the handler in it, or below it",
                fields.text("modules").unwrap_or_default()
            );
            context.note(fields.problem("modules", message));
        }
        self.modules = Some(modules.to_owned());
    }

    /// The folder from which it may import, absolute; the handler lies in it or below.
    pub fn modules(&self) -> &Path {
        let beside = self.handler.parent().unwrap_or(Path::new("/"));
        self.modules.as_deref().unwrap_or(beside)
    }
}

impl ScriptAllow {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        if let Some(first) = fields.texts("store").first()
            && !context.has_store()
        {
            let message = "there is no store: the file has no [store]";
            context.note(fields.problem_at(first.line, "store", message));
        }
    }
}

parsed!("": FetchHost);
