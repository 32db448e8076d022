//! The list of all metrics, from which docs/reference/metrics.md is generated.

/// A metric family: all metrics of one name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Label names, in order.
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

macro_rules! families {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $id: Family =
            Family { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*

        /// All families, in exposition order.
        #[cfg(test)]
        pub(super) const ALL: &[Family] = &[$($id),*];
    };
}

/// The families that describe statements.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) ended: Family,
    pub(super) errors: Family,
    pub(super) wait: Family,
    pub(super) execution: Family,
    pub(super) rows: Family,
    pub(super) in_flight: Family,
}

pub(super) const OF_DATABASES: Statements = Statements {
    ended: SQL_STATEMENTS,
    errors: SQL_ERRORS,
    wait: SQL_WAIT,
    execution: SQL_EXECUTION,
    rows: SQL_ROWS,
    in_flight: SQL_IN_FLIGHT,
};

pub(super) const OF_ROUTES: Statements = Statements {
    ended: SQL_ROUTE_STATEMENTS,
    errors: SQL_ROUTE_ERRORS,
    wait: SQL_ROUTE_WAIT,
    execution: SQL_ROUTE_EXECUTION,
    rows: SQL_ROUTE_ROWS,
    in_flight: SQL_ROUTE_IN_FLIGHT,
};

families! {
    BUILD_INFO = Gauge "forebay_build_info" ["version"] "Always 1.";
    START_TIME = Gauge "process_start_time_seconds" [] "When the server was started, in seconds since 1970.";
    CPU = Counter "process_cpu_seconds_total" [] "Processor time of the server without its workers.";
    RSS = Gauge "process_resident_memory_bytes" [] "Resident memory of the server without its workers.";
    OPEN_FDS = Gauge "process_open_fds" [] "Open file descriptors of the server.";
    GENERATION = Gauge "forebay_generation" [] "Configurations that have been in force since the start.";
    RELOADS_REFUSED = Counter "forebay_reloads_refused_total" [] "Reloads after which the configuration in force stayed.";
    LOG_LINES_LOST = Counter "forebay_log_lines_lost_total" [] "Lines of the log, and of the logs of workflows, that came faster than they could be written, or could not be written.";
    TRACE_SPANS = Counter "forebay_trace_spans_total" ["outcome"] "Spans of requests that are traced ([trace]): sent, the collector has taken them; dropped, there was no room for them to wait (trace.queue_max); failed, the collector did not take them, or could not be reached.";
    LOG_RECORDS = Counter "forebay_log_records_total" ["outcome"] "Lines of the log that are posted to the collector (trace.logs): sent, the collector has taken them; dropped, too many bytes of them waited; failed, the collector did not take them, or could not be reached.";
    METRIC_POSTS = Counter "forebay_metric_posts_total" ["outcome"] "Posts of the metrics to the collector (trace.metrics_interval): sent, or failed.";
    CERTIFICATE_EXPIRY = Gauge "forebay_tls_certificate_expiry_timestamp_seconds" ["certificate"] "Until when a certificate of the listeners ([tls.NAME]) is good, in seconds since 1970.";
    CONNECTIONS_OPEN = Gauge "forebay_connections_open" [] "Open client connections.";
    CONNECTIONS_ACCEPTED = Counter "forebay_connections_accepted_total" [] "Client connections accepted, those turned away included.";
    CONNECTIONS_TOO_SLOW = Counter "forebay_connections_too_slow_total" [] "Client connections given up because a body was sent, or an answer taken, slower than server.min_rate.";
    KEPT_MEMORY = Gauge "forebay_kept_memory_bytes" [] "Memory of request bodies and answers that are kept so that no worker waits for a slow client.";
    KEPT_FILES = Gauge "forebay_kept_files_bytes" [] "Bytes of such answers in temporary files.";
    COMPRESSION_INPUT = Counter "forebay_compression_input_bytes_total" ["coding"] "Bytes of compressed answers before they were compressed.";
    COMPRESSION_OUTPUT = Counter "forebay_compression_output_bytes_total" ["coding"] "Bytes of the same answers after that.";
    COMPRESSION_CPU = Counter "forebay_compression_cpu_seconds_total" [] "Processor time that compressing them has taken.";
    COMPRESSION_SKIPPED = Counter "forebay_compression_skipped_total" ["reason"] "Answers that went out as they are although they should have been compressed: cpu, server.compress_cpu_max was used up; streams, the I/O thread compressed 64 other answers piece by piece.";
    CONNECTIONS_TURNED_AWAY = Counter "forebay_connections_turned_away_total" [] "Client connections closed because of server.connections_max.";
    REQUESTS = Counter "forebay_requests_total" ["route", "class"] "Requests by the class of their answer's status: 2xx and so on; gone: the client left before an answer. Requests that no route takes have the route (none).";
    REQUEST_DURATION = Histogram "forebay_request_duration_seconds" ["route"] "From a request's arrival until its answer was written, for requests that were answered.";
    CACHE_REQUESTS = Counter "forebay_cache_requests_total" ["policy", "outcome"] "Requests to routes with a response cache: hit; stale, answered with a stale response because the target failed or was being asked; revalidated, the target has confirmed the stored response; miss, the target was asked; bypass, the request is not one that a cache answers.";
    CACHE_BYTES = Gauge "forebay_cache_bytes" ["policy"] "Memory of the responses in the cache of a policy.";
    CACHE_BYTES_MAX = Gauge "forebay_cache_bytes_max" ["policy"] "Most of it: bytes_max of the cache.";
    CACHE_EVICTIONS = Counter "forebay_cache_evictions_total" ["policy"] "URIs whose responses were dropped from the cache because there was no room.";
    STORE_FILE = Gauge "forebay_store_file_bytes" [] "Size of the store's file.";
    STORE_MAP_MAX = Gauge "forebay_store_map_max_bytes" [] "How far the file may grow: store.map_max.";
    STORE_LAST_COMMIT = Gauge "forebay_store_last_commit" [] "The number of the last commit, of whatever process.";
    STORE_NOT_CHECKPOINTED = Gauge "forebay_store_not_checkpointed_bytes" [] "What the log alone has of the tree until the next checkpoint, in bytes of the tree's file.";
    STORE_READERS = Gauge "forebay_store_readers" [] "Places for snapshots that are taken, over all processes.";
    STORE_QUEUE = Gauge "forebay_store_queue_writes" [] "Writes over HTTP that wait for the store.";
    STORE_QUEUE_MAX = Gauge "forebay_store_queue_writes_max" [] "Most writes that may wait: store.queue_max.";
    STORE_QUEUE_BYTES = Gauge "forebay_store_queue_bytes" [] "Bytes of the writes that wait.";
    STORE_WRITES = Counter "forebay_store_writes_total" ["outcome"] "Writes over HTTP by outcome: done; failed (invalid, or the store could not do it); expired (deadline passed or client left before the start); refused (queue full).";
    STORE_COMMITS = Counter "forebay_store_commits_total" [] "Transactions committed for writes over HTTP.";
    STORE_FLUSHES = Counter "forebay_store_flushes_total" [] "Flushes that writes over HTTP have waited for.";
    SCRIPT_ANSWERED = Counter "forebay_script_calls_answered_total" ["script", "place"] "Calls answered by their handler, on an I/O thread (io) or on a thread of the script's own (executor). A record that rest() declares to read counts as the former.";
    SCRIPT_FAULTED = Counter "forebay_script_calls_faulted_total" ["script"] "Calls whose handler threw.";
    SCRIPT_CANCELLED = Counter "forebay_script_calls_cancelled_total" ["script"] "Calls cancelled because the client left or the route's deadline passed.";
    SCRIPT_STOPPED = Counter "forebay_script_calls_stopped_total" ["script", "reason"] "Calls that were stopped, by the limit; thread: another call on the thread could not be stopped; broken: the script cannot run.";
    SCRIPT_REFUSED = Counter "forebay_script_calls_refused_total" ["script"] "Calls refused at once because of in_flight_max or queue_bytes_max.";
    SCRIPT_HANDED_OVER = Counter "forebay_script_calls_handed_over_total" ["script"] "Calls that an I/O thread began and an executor did from the beginning.";
    SCRIPT_QUEUE = Gauge "forebay_script_queue_calls" ["script"] "Calls that wait for an executor.";
    SCRIPT_THREADS = Gauge "forebay_script_threads" ["script"] "Executors, without those given up.";
    SCRIPT_THREADS_GIVEN_UP = Counter "forebay_script_threads_given_up_total" ["script"] "Executors given up because a call could not be stopped.";
    SCRIPT_ENGINES = Gauge "forebay_script_engines" ["script"] "Engines on all threads, those of before a reload included until they end.";
    SCRIPT_ENGINES_MEMORY = Gauge "forebay_script_engines_memory_bytes" ["script"] "Memory of the engines together, within 64 KiB for each.";
    WORKFLOW_RUNS = Counter "forebay_workflow_runs_total" ["workflow", "outcome"] "Finished runs by outcome: true, false (decisions count as true); failed; late (timed out); refused (no room, or not allowed); gone (the client left). Rules run alone have the workflow (rules).";
    WORKFLOW_IN_FLIGHT = Gauge "forebay_workflow_runs_in_flight" ["workflow"] "Runs under way and waiting.";
    WORKFLOW_DURATION = Histogram "forebay_workflow_run_duration_seconds" ["workflow"] "How long runs took that were not refused, waiting included.";
    WORKFLOW_NODE_RUNS = Counter "forebay_workflow_node_runs_total" ["workflow", "node", "outcome"] "Rules that have run at a node, by what they gave: true, false, or failed.";
    WORKFLOW_NODE_SECONDS = Counter "forebay_workflow_node_seconds_total" ["workflow", "node"] "How long they took together.";
    WORKFLOW_RELEASES = Gauge "forebay_workflow_release" ["release", "state"] "1 for a release of the workflows that runs have: published, or canary, for a share of them. None where they are those of a folder.";
    WORKFLOW_RUNS_OPEN = Gauge "forebay_workflow_kept_runs_open" [] "Durable runs (workflow.runs) that have not ended.";
    JOBS_WAITING = Gauge "forebay_jobs_waiting" ["route"] "Durable jobs that wait for their first or their next attempt.";
    JOBS_RUNNING = Gauge "forebay_jobs_running" ["route"] "Durable jobs that run.";
    JOBS_BYTES = Gauge "forebay_jobs_bytes" ["route"] "Bytes of the requests of both.";
    JOBS_OLDEST = Gauge "forebay_jobs_oldest_seconds" ["route"] "How long ago the job that is next might have begun; 0 if none is due.";
    JOBS_ENDED = Counter "forebay_jobs_total" ["route", "outcome"] "Durable jobs by outcome since the store was made, or in a cluster since this process began: done, or failed (dead letters).";
    SQL_STATEMENTS = Counter "forebay_sql_statements_total" ["database", "outcome"] "Finished statements by outcome: done; data (SQLSTATE class 22); constraint (23); conflict (40); server (other errors); timeout; full (in_flight_max or acquire_timeout); unreachable; broken (connection lost, or cancelled with another); refused (cannot be sent); abandoned (caller left). A route's transaction counts as one; of a handler's, each statement, copy and listen counts.";
    SQL_ERRORS = Counter "forebay_sql_errors_total" ["database", "class"] "Statements that the server has refused, by the class of SQLSTATE; other: one that the manual does not have.";
    SQL_WAIT = Histogram "forebay_sql_wait_seconds" ["database"] "How long statements waited for a connection.";
    SQL_EXECUTION = Histogram "forebay_sql_execution_seconds" ["database"] "How long they took on it, until their last row; where rows are sent as they come, until that was taken.";
    SQL_ROWS = Counter "forebay_sql_rows_total" ["database"] "Rows that they gave or changed.";
    SQL_IN_FLIGHT = Gauge "forebay_sql_statements_in_flight" ["database"] "Statements under way and waiting.";
    SQL_ROUTE_STATEMENTS = Counter "forebay_sql_route_statements_total" ["route", "outcome"] "The same as forebay_sql_statements_total of each route that has statements; those that follow likewise.";
    SQL_ROUTE_ERRORS = Counter "forebay_sql_route_errors_total" ["route", "class"] "Statements that the server has refused.";
    SQL_ROUTE_WAIT = Histogram "forebay_sql_route_wait_seconds" ["route"] "How long they waited for a connection.";
    SQL_ROUTE_EXECUTION = Histogram "forebay_sql_route_execution_seconds" ["route"] "How long they took on it.";
    SQL_ROUTE_ROWS = Counter "forebay_sql_route_rows_total" ["route"] "Rows that they gave or changed.";
    SQL_ROUTE_IN_FLIGHT = Gauge "forebay_sql_route_statements_in_flight" ["route"] "Statements under way and waiting.";
    SQL_REACHABLE = Gauge "forebay_sql_reachable" ["database"] "0 when the last attempt to connect has failed, else 1.";
    SQL_IN_FLIGHT_MAX = Gauge "forebay_sql_statements_in_flight_max" ["database"] "How many statements of a database may be under way and waiting: sql.NAME.in_flight_max.";
    PROXY_UP = Gauge "forebay_proxy_server_up" ["proxy", "server"] "1 if the server gets requests, 0 while it is left alone because it fails.";
    PROXY_IN_FLIGHT = Gauge "forebay_proxy_requests_in_flight" ["proxy", "server"] "Requests that the server has not answered whole.";
    PROXY_REQUESTS = Counter "forebay_proxy_requests_total" ["proxy", "server"] "Requests that were to go to the server, each attempt counted.";
    PROXY_FAILURES = Counter "forebay_proxy_failures_total" ["proxy", "server"] "Attempts that failed: no connection, no answer in time, or an answer that is not whole or not valid.";
    POOL_READY = Gauge "forebay_pool_ready" ["pool"] "1 when the pool can do its work, else 0.";
    POOL_ACCEPTED = Counter "forebay_pool_jobs_accepted_total" ["pool"] "Jobs taken. Each ends as answered, faulted, cancelled or failed.";
    POOL_ANSWERED = Counter "forebay_pool_jobs_answered_total" ["pool"] "Jobs answered by their handler.";
    POOL_FAULTED = Counter "forebay_pool_jobs_faulted_total" ["pool"] "Jobs whose handler threw.";
    POOL_CANCELLED = Counter "forebay_pool_jobs_cancelled_total" ["pool"] "Jobs whose client left before the answer.";
    POOL_FAILED = Counter "forebay_pool_jobs_failed_total" ["pool", "reason"] "Accepted jobs that failed.";
    POOL_REFUSED = Counter "forebay_pool_jobs_refused_total" ["pool", "reason"] "Jobs refused at once.";
    POOL_QUEUE = Gauge "forebay_pool_queue_jobs" ["pool"] "Jobs that wait for a worker.";
    POOL_QUEUE_MAX = Gauge "forebay_pool_queue_jobs_max" ["pool"] "Most jobs that may wait: queue_max.";
    POOL_QUEUE_BYTES = Gauge "forebay_pool_queue_bytes" ["pool"] "Bytes of the jobs that wait.";
    POOL_CONNECTIONS = Gauge "forebay_pool_connections" ["pool"] "Open event streams and upgraded connections of the pool in force.";
    POOL_WORKERS = Gauge "forebay_pool_workers" ["pool", "phase"] "Workers of the pool in force.";
    POOL_WORKERS_RSS = Gauge "forebay_pool_workers_resident_memory_bytes" ["pool"] "Resident memory of the workers together.";
    POOL_WORKERS_STARTED = Counter "forebay_pool_workers_started_total" ["pool"] "Worker processes started.";
    POOL_WORKERS_ENDED = Counter "forebay_pool_workers_ended_total" ["pool", "cause"] "Worker processes that ended.";
    POOL_WAIT = Histogram "forebay_pool_wait_seconds" ["pool"] "From a job's arrival until it was sent to a worker.";
    POOL_RUN = Histogram "forebay_pool_run_seconds" ["pool"] "How long handlers ran, as workers report it.";
    POOL_STRAY_FRAMES = Counter "forebay_pool_stray_frames_total" ["pool"] "Frames of workers for jobs that were over.";
    POOL_RETIRING_WORKERS = Gauge "forebay_pool_retiring_workers" ["pool"] "Workers of before a reload that have not ended.";
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use saphyr_parser::{Event, Parser};

    use super::*;

    /// The table of docs/reference/metrics.md.
    fn table() -> String {
        let mut table = String::from("| name | type | labels | meaning |\n|---|---|---|---|\n");
        for family in ALL {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(
                table,
                "| `{}` | {} | {} | {} |",
                family.name,
                family.kind.name(),
                labels.join(", "),
                family.help
            )
            .unwrap();
        }
        table
    }

    #[test]
    fn the_reference_of_metrics_is_fresh() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
        let found = std::fs::read_to_string(file).unwrap();
        let start = found.find("| name | type |").expect("the reference has a table");
        let end = found[start..]
            .find("\n\n")
            .map_or(found.len(), |end| start + end + 1);
        if std::env::var_os("FOREBAY_REFRESH").is_some() {
            std::fs::write(file, format!("{}{}{}", &found[..start], table(), &found[end..])).unwrap();
            return;
        }
        assert_eq!(
            found[start..end],
            table(),
            "docs/reference/metrics.md is stale; refresh it: FOREBAY_REFRESH=1 cargo test -p forebay-server --lib metrics"
        );
    }

    /// The expressions of the alert rules and of the dashboard.
    fn expressions() -> Vec<String> {
        let file = |name| {
            std::fs::read_to_string(format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
        };
        let mut expressions = Vec::new();
        let rules = file("prometheus/forebay.rules.yml");
        let mut is_expression = false;
        for event in Parser::new_from_str(&rules) {
            if let (Event::Scalar(text, ..), _) = event.expect("the rules are YAML") {
                if is_expression {
                    expressions.push(text.to_string());
                }
                is_expression = text == "expr";
            } else {
                is_expression = false;
            }
        }
        assert!(expressions.len() > 10, "{expressions:?}");
        let dashboard: serde_json::Value = serde_json::from_str(&file("grafana/forebay.json")).expect("JSON");
        let mut ids = std::collections::BTreeSet::new();
        for panel in dashboard["panels"].as_array().expect("there are panels") {
            assert!(
                ids.insert(panel["id"].as_u64()),
                "two panels have one id: {panel}"
            );
            let targets = panel["targets"].as_array().into_iter().flatten();
            expressions
                .extend(targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()));
        }
        let variables = dashboard["templating"]["list"]
            .as_array()
            .expect("there are variables");
        expressions.extend(
            variables
                .iter()
                .filter_map(|variable| variable["query"].as_str())
                .map(str::to_owned),
        );
        expressions
    }

    #[test]
    fn the_dashboard_and_the_alert_rules_use_metrics_and_labels_that_exist() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for expression in expressions() {
            let words = || expression.split(|c| !is_word(c));
            let families: Vec<&Family> = words()
                .filter(|word| word.starts_with("forebay_") || word.starts_with("process_"))
                .map(|name| {
                    let exact = |name: &str, is_part| {
                        ALL.iter()
                            .find(|family| family.name == name && (family.kind == Kind::Histogram) == is_part)
                    };
                    let parts = ["_bucket", "_sum", "_count"]
                        .iter()
                        .find_map(|part| name.strip_suffix(part));
                    let found = parts
                        .and_then(|name| exact(name, true))
                        .or_else(|| exact(name, false));
                    found.unwrap_or_else(|| panic!("`{name}` is no metric: {expression}"))
                })
                .collect();
            let mut labels: Vec<&str> = families
                .iter()
                .flat_map(|family| family.labels)
                .copied()
                .collect();
            labels.extend(["instance", "le"]);
            let matchers = expression
                .split('{')
                .skip(1)
                .filter_map(|rest| rest.split_once('}'));
            let matched = matchers.flat_map(|(matchers, _)| matchers.split(','));
            let matched = matched.map(|matcher| matcher.split(|c| !is_word(c)).next().unwrap());
            let groups = expression
                .split("by (")
                .skip(1)
                .filter_map(|rest| rest.split_once(')'));
            let grouped = groups.flat_map(|(names, _)| names.split(", "));
            for label in matched.chain(grouped) {
                assert!(
                    labels.contains(&label),
                    "no metric has the label `{label}`: {expression}"
                );
            }
        }
    }
}
