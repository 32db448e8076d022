//! Prints a validated configuration as TOML, with every default filled in.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use forebay_clients::{KafkaAcks, MailTls};
use forebay_records::{Settings, TimeNumber, zone_text};
use forebay_store::index::field_text;
use forebay_upstream::Balance;

use super::build::server::UNIX;
use super::substitute::escape;
use super::units::{print_duration, print_size};
use super::{
    Admin, Certificate, Compat, Config, Durability, ForwardedField, KafkaCluster, Link, Listen, Log,
    LogFormat, LogRotation, MailServer, Permission, Pool, Protocol, Proxy, PythonApplication, PythonModule,
    Respond, Retry, Route, S3Bucket, Script, ScriptAllow, Server, SqlRoute, Store, Target, Trace, Worker,
    Workflow, WorkflowSource,
};
use crate::store::path::put_key;

impl Config {
    /// The effective configuration: every key with its value, with absolute paths. Reading it on the same machine gives an equal
    /// configuration, except that literal secrets are `***`. Substituted environment variables appear as their values.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        self.write(&mut out).expect("writing to a string does not fail");
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        write_server(out, &self.server)?;
        for (name, certificate) in &self.tls {
            writeln!(out, "\n[tls.{name}]")?;
            write_certificate(out, certificate)?;
        }
        write_admin(out, &self.admin)?;
        write_log(out, &self.log)?;
        if let Some(trace) = &self.trace {
            write_trace(out, trace)?;
        }
        if let Some(store) = &self.store {
            write_store(out, store)?;
            write_records(out, &self.records)?;
        }
        self.pools.values().try_for_each(|pool| write_pool(out, pool))?;
        self.proxies
            .values()
            .try_for_each(|proxy| write_proxy(out, proxy))?;
        self.scripts
            .values()
            .try_for_each(|script| write_script(out, script))?;
        for (name, source) in &self.sql {
            write_source(out, name, source, self.sql_direct.contains(name))?;
        }
        self.redis
            .iter()
            .try_for_each(|(name, redis)| write_redis(out, name, redis))?;
        self.s3
            .iter()
            .try_for_each(|(name, bucket)| write_s3(out, name, bucket))?;
        self.mail
            .iter()
            .try_for_each(|(name, server)| write_mail(out, name, server))?;
        self.kafka
            .iter()
            .try_for_each(|(name, cluster)| write_kafka(out, name, cluster))?;
        if let Some(workflow) = &self.workflow {
            write_workflow(out, workflow)?;
        }
        self.routes.iter().try_for_each(|route| write_route(out, route))
    }
}

fn write_certificate(out: &mut String, certificate: &Certificate) -> fmt::Result {
    match certificate {
        Certificate::Files(files) => {
            writeln!(out, "cert = {}\nkey = {}", path(&files.cert), path(&files.key))?;
            match &files.ocsp {
                Some(file) => writeln!(out, "ocsp = {}", path(file)),
                None => Ok(()),
            }
        }
        Certificate::Acme(acme) => {
            write!(
                out,
                "acme = {{ domains = {}, agree_to_terms = true",
                texts(&acme.domains)
            )?;
            write!(out, ", folder = {}", path(&acme.folder))?;
            if let Some(contact) = &acme.contact {
                write!(out, ", contact = {}", text(contact))?;
            }
            write!(out, ", challenge = {}", text(acme.challenge.name()))?;
            write!(out, ", directory = {}", text(&acme.directory))?;
            if let Some(file) = &acme.directory_ca {
                write!(out, ", directory_ca = {}", path(file))?;
            }
            writeln!(out, " }}")
        }
    }
}

fn write_server(out: &mut String, server: &Server) -> fmt::Result {
    let listen: Vec<String> = server.listen.iter().map(Listen::to_string).collect();
    writeln!(out, "[server]")?;
    writeln!(out, "listen = {}", texts(&listen))?;
    let trusted = &server.trusted_proxies;
    let networks = trusted.networks.iter().map(ToString::to_string);
    let networks: Vec<String> = networks.chain(trusted.unix.then(|| UNIX.to_owned())).collect();
    let field = match trusted.field {
        ForwardedField::XForwardedFor => "x-forwarded-for",
        ForwardedField::Forwarded => "forwarded",
        ForwardedField::ProxyProtocol => "proxy-protocol",
    };
    writeln!(
        out,
        "trusted_proxies = {}\nforwarded = {}",
        texts(&networks),
        text(field)
    )?;
    if let Some(clients) = &server.client_certificates {
        let revoked = clients.revoked.iter().map(|file| file.display().to_string());
        let revoked: Vec<String> = revoked.collect();
        let word = if clients.are_required {
            "required"
        } else {
            "optional"
        };
        writeln!(
            out,
            "client_ca = {}\nclient_crl = {}",
            path(&clients.authorities),
            texts(&revoked)
        )?;
        writeln!(out, "client_certificates = {}", text(word))?;
    }
    writeln!(
        out,
        "https_only = {}\nhsts = {}",
        server.https_only,
        duration(server.hsts)
    )?;
    write_unix_mode(out, server.unix_mode)?;
    writeln!(out, "threads = {}", server.threads)?;
    writeln!(out, "header_bytes_max = {}", size(server.header_bytes_max))?;
    writeln!(out, "body_bytes_max = {}", size(server.body_bytes_max))?;
    writeln!(out, "header_timeout = {}", duration(server.header_timeout))?;
    writeln!(out, "body_timeout = {}", duration(server.body_timeout))?;
    for (name, bytes) in [
        ("body_buffer_max", server.body_buffer_max),
        ("answer_buffer_max", server.answer_buffer_max),
        ("answer_spool_max", server.answer_spool_max),
        ("buffers_max", server.buffers_max),
        ("min_rate", server.min_rate),
    ] {
        writeln!(out, "{name} = {}", size(bytes))?;
    }
    writeln!(out, "min_rate_grace = {}", duration(server.min_rate_grace))?;
    writeln!(out, "compress = {}", text(server.compress.name()))?;
    writeln!(
        out,
        "compress_bytes_min = {}\ncompress_cpu_max = {:?}",
        size(server.compress_bytes_min),
        server.compress_cpu_max
    )?;
    writeln!(out, "idle_timeout = {}", duration(server.idle_timeout))?;
    writeln!(out, "connections_max = {}", server.connections_max)?;
    writeln!(out, "deadline = {}", duration(server.deadline))?;
    writeln!(out, "drain_max = {}", duration(server.drain_max))
}

fn write_admin(out: &mut String, admin: &Admin) -> fmt::Result {
    let listen = admin
        .listen
        .as_ref()
        .map_or_else(|| "off".to_owned(), Listen::to_string);
    let socket = admin.socket.as_deref().map_or_else(|| text("off"), path);
    writeln!(out, "\n[admin]\nlisten = {}", text(&listen))?;
    write_unix_mode(out, admin.unix_mode)?;
    writeln!(out, "hosts = {}\nsocket = {socket}", texts(&admin.hosts))
}

fn write_unix_mode(out: &mut String, mode: Option<u32>) -> fmt::Result {
    match mode {
        None => Ok(()),
        Some(mode) => writeln!(out, "unix_mode = \"{mode:04o}\""),
    }
}

fn write_log(out: &mut String, log: &Log) -> fmt::Result {
    let format = match log.format {
        LogFormat::Auto => "auto",
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    };
    writeln!(
        out,
        "\n[log]\nlevel = {}\nformat = {}",
        text(&log.level),
        text(format)
    )?;
    if let Some(file) = &log.file {
        writeln!(out, "file = {}", path(file))?;
    }
    writeln!(out, "rotate = {}", rotation(log.rotate))?;
    writeln!(out, "access = {}", log.access)
}

fn write_trace(out: &mut String, trace: &Trace) -> fmt::Result {
    writeln!(out, "\n[trace]\notlp = {}", text(&trace.otlp.to_string()))?;
    writeln!(out, "share = {:?}", trace.share)?;
    writeln!(
        out,
        "headers = {}",
        table(trace.headers.iter().map(|(name, value)| (name, value.shown())))
    )?;
    writeln!(out, "service = {}", text(&trace.service))?;
    writeln!(out, "queue_max = {}", trace.queue_max)
}

fn rotation(rotate: LogRotation) -> String {
    format!("{{ size = {}, keep = {} }}", size(rotate.size_bytes), rotate.keep)
}

fn write_store(out: &mut String, store: &Store) -> fmt::Result {
    let durability = match store.durability {
        Durability::Sync => "sync",
        Durability::Group => "group",
        Durability::Relaxed => "relaxed",
    };
    writeln!(out, "\n[store]\npath = {}", path(&store.path))?;
    writeln!(out, "durability = {}", text(durability))?;
    writeln!(out, "flush_interval = {}", duration(store.flush_interval))?;
    writeln!(out, "map_max = {}", size(store.map_max))?;
    writeln!(out, "reader_age_max = {}", duration(store.reader_age_max))?;
    writeln!(out, "value_bytes_max = {}", size(store.value_bytes_max))?;
    writeln!(out, "queue_max = {}", store.queue_max)?;
    writeln!(out, "queue_bytes_max = {}", size(store.queue_bytes_max))?;
    if !store.access.is_empty() {
        writeln!(out, "\n[store.access]")?;
    }
    for (global, access) in &store.access {
        let (read, write) = (permission(&access.read), permission(&access.write));
        writeln!(out, "{} = {{ read = {read}, write = {write} }}", quoted(global))?;
    }
    for index in &store.indexes {
        let fields: Vec<String> = index.fields.iter().map(|field| field_text(field)).collect();
        let mut records = String::new();
        put_key(&index.records, &mut records);
        writeln!(out, "\n[store.index.{}]", quoted(&index.name))?;
        writeln!(out, "records = {}", text(&records))?;
        writeln!(out, "fields = {}", texts(&fields))?;
        writeln!(out, "unique = {}", index.unique)?;
    }
    Ok(())
}

/// Names the variable that holds the token, never the token.
fn permission(permission: &Permission) -> String {
    text(&format!("{permission:?}"))
}

fn write_python(
    out: &mut String,
    program: &Path,
    application: &PythonApplication,
    start: Option<&Path>,
) -> fmt::Result {
    let mut handler = match &application.module {
        PythonModule::File(file) => file.display().to_string(),
        PythonModule::Named(name) => name.clone(),
    };
    if let Some(object) = &application.object {
        handler.push(':');
        handler.push_str(object);
    }
    writeln!(out, "handler = {}\nruntime = \"python\"", text(&handler))?;
    writeln!(out, "python = {}", path(program))?;
    writeln!(out, "interface = {}", text(application.interface.name()))?;
    if let Some(mount) = &application.mount {
        writeln!(out, "mount = {}", text(mount))?;
    }
    let slashes = if application.encoded_slashes {
        "decode"
    } else {
        "refuse"
    };
    writeln!(out, "encoded_slashes = \"{slashes}\"")?;
    if let Some(start) = start {
        writeln!(out, "start = {}", path(start))?;
    }
    Ok(())
}

fn write_records(out: &mut String, records: &Settings) -> fmt::Result {
    let type_key = records.type_key.join(".");
    writeln!(out, "\n[records]\ntype_key = {}", text(&type_key))?;
    writeln!(out, "default_kind = {}", text(&records.default_kind))?;
    let detect = records.detect;
    let numbers = match detect.time_number {
        None => "time_number = false".to_owned(),
        Some(TimeNumber { min, max, decimals }) => format!(
            "time_number = true, time_number_min = {min}, time_number_max = {max}, time_number_decimals = {decimals}"
        ),
    };
    writeln!(
        out,
        "detect = {{ time = {}, uuid = {}, {numbers} }}",
        detect.time, detect.uuid
    )?;
    writeln!(out, "time_format = {}", text(records.time_format.name()))?;
    writeln!(out, "time_zone = {}", text(&zone_text(records.zone_minutes)))?;
    writeln!(out, "examined_max = {}", records.examined_max)?;
    writeln!(out, "rows_max = {}", records.rows_max)?;
    writeln!(
        out,
        "answer_bytes_max = {}",
        size(records.answer_bytes_max as u64)
    )?;
    writeln!(out, "change_time_max = {}", duration(records.change_time_max))
}

fn write_pool(out: &mut String, pool: &Pool) -> fmt::Result {
    writeln!(out, "\n[pool.{}]", pool.name)?;
    match &pool.worker {
        Worker::Script {
            runtime,
            handler,
            start,
            ..
        } => {
            writeln!(
                out,
                "handler = {}\nruntime = {}",
                path(handler),
                text(runtime.name())
            )?;
            if let Some(start) = start {
                writeln!(out, "start = {}", path(start))?;
            }
        }
        Worker::Python {
            program,
            application,
            start,
        } => write_python(out, program, application, start.as_deref())?,
        Worker::Command { command, .. } => writeln!(out, "command = {}", texts(command))?,
    }
    write_protocol(out, pool)?;
    writeln!(
        out,
        "workers = {{ min = {}, max = {} }}",
        pool.workers.min, pool.workers.max
    )?;
    writeln!(out, "concurrency = {}", pool.concurrency)?;
    writeln!(out, "queue_max = {}", pool.queue_max)?;
    writeln!(out, "queue_bytes_max = {}", size(pool.queue_bytes_max))?;
    writeln!(out, "queue_timeout = {}", duration(pool.queue_timeout))?;
    writeln!(out, "run_timeout = {}", duration(pool.run_timeout))?;
    writeln!(out, "kill_grace = {}", duration(pool.kill_grace))?;
    writeln!(out, "idle_retire = {}", duration(pool.idle_retire))?;
    let recycle = &pool.recycle;
    let (age, rss) = (duration(recycle.age), size(recycle.rss_bytes));
    writeln!(
        out,
        "recycle = {{ jobs = {}, age = {age}, rss = {rss} }}",
        recycle.jobs
    )?;
    writeln!(out, "retry = {}", text(retry(pool.retry)))?;
    writeln!(out, "env = {}", table(pool.env.iter()))?;
    writeln!(out, "env_pass = {}", texts(&pool.env_pass))?;
    writeln!(out, "cwd = {}", path(&pool.cwd))?;
    writeln!(out, "sql = {}", texts(&pool.sql))?;
    writeln!(out, "store = {}", text(pool.store.name()))
}

fn write_protocol(out: &mut String, pool: &Pool) -> fmt::Result {
    let (name, link) = match pool.protocol {
        Protocol::Framed(Link::Socket) => ("framed", "socket"),
        Protocol::Framed(Link::Stdio) => ("framed", "stdio"),
        Protocol::Jsonl => ("jsonl", "stdio"),
        Protocol::Wabur(_) => ("wabur", "stdio"),
    };
    writeln!(out, "protocol = {}\nlink = {}", text(name), text(link))?;
    if let Protocol::Jsonl | Protocol::Wabur(_) = pool.protocol {
        writeln!(out, "message_bytes_max = {}", size(pool.message_bytes_max))?;
    }
    if let Protocol::Wabur(compat) = pool.protocol {
        let compat = match compat {
            Compat::None => "none",
            Compat::Wabur => "wabur",
        };
        writeln!(out, "compat = {}", text(compat))?;
    }
    Ok(())
}

fn write_source(out: &mut String, name: &str, source: &forebay_pg::Settings, direct: bool) -> fmt::Result {
    writeln!(out, "\n[sql.{name}]")?;
    // Printed without its password.
    writeln!(out, "url = {}", text(&source.server.to_string()))?;
    writeln!(out, "driver = {}", text(source.driver.name()))?;
    writeln!(out, "direct = {direct}")?;
    writeln!(out, "connections_max = {}", source.connections_max)?;
    writeln!(out, "connections_min = {}", source.connections_min)?;
    writeln!(
        out,
        "connection_age_max = {}",
        duration(source.connection_age_max)
    )?;
    writeln!(out, "idle_timeout = {}", duration(source.idle_timeout))?;
    writeln!(out, "leak_warning = {}", duration(source.leak_warning))?;
    writeln!(out, "in_flight_max = {}", source.in_flight_max)?;
    writeln!(out, "result_bytes_max = {}", size(source.result_bytes_max as u64))?;
    writeln!(out, "acquire_timeout = {}", duration(source.acquire_timeout))?;
    writeln!(out, "connect_timeout = {}", duration(source.connect_timeout))?;
    writeln!(out, "statement_timeout = {}", duration(source.statement_timeout))?;
    if let Some(slow) = source.slow_query {
        writeln!(out, "slow_query = {}", duration(slow))?;
    }
    Ok(())
}

fn write_script(out: &mut String, script: &Script) -> fmt::Result {
    writeln!(out, "\n[script.{}]", script.name)?;
    writeln!(out, "handler = {}", path(&script.handler))?;
    writeln!(out, "modules = {}", path(&script.modules))?;
    writeln!(out, "on = {}", text(script.on.name()))?;
    writeln!(out, "io_input_max = {}", size(script.io_input_max))?;
    writeln!(out, "io_cpu_max = {}", duration(script.io_cpu_max))?;
    writeln!(out, "cpu_max = {}", duration(script.cpu_max))?;
    writeln!(out, "time_max = {}", duration(script.time_max))?;
    writeln!(out, "memory_max = {}", size(script.memory_max))?;
    writeln!(out, "output_max = {}", size(script.output_max))?;
    writeln!(out, "in_flight_max = {}", script.in_flight_max)?;
    writeln!(out, "queue_bytes_max = {}", size(script.queue_bytes_max))?;
    writeln!(out, "executors = {}", script.executors)?;
    writeln!(out, "engines_max = {}", script.engines_max)?;
    writeln!(out, "isolated = {}", script.isolated)?;
    writeln!(out, "fetch_time_max = {}", duration(script.fetch_time_max))?;
    writeln!(out, "fetch_bytes_max = {}", size(script.fetch_bytes_max))?;
    writeln!(out, "fetches_max = {}", script.fetches_max)?;
    write_allow(out, &script.allow, "")
}

fn write_redis(out: &mut String, name: &str, redis: &forebay_clients::RedisOptions) -> fmt::Result {
    writeln!(out, "\n[redis.{name}]")?;
    // Printed without its password.
    writeln!(out, "url = {}", text(&redis.url.to_string()))?;
    writeln!(out, "connections_max = {}", redis.connections_max)?;
    writeln!(out, "connect_timeout = {}", duration(redis.connect_timeout))?;
    writeln!(out, "command_timeout = {}", duration(redis.command_timeout))?;
    writeln!(out, "reply_bytes_max = {}", size(redis.reply_bytes_max as u64))
}

fn write_s3(out: &mut String, name: &str, bucket: &S3Bucket) -> fmt::Result {
    writeln!(out, "\n[s3.{name}]")?;
    writeln!(out, "endpoint = {}", text(&bucket.endpoint))?;
    writeln!(out, "region = {}", text(&bucket.region))?;
    writeln!(out, "bucket = {}", text(&bucket.bucket))?;
    writeln!(out, "access_key = {}", text(&bucket.access_key))?;
    writeln!(out, "secret_key = {}", text(bucket.secret_key.shown()))
}

fn write_mail(out: &mut String, name: &str, server: &MailServer) -> fmt::Result {
    let options = &server.options;
    let tls = match options.tls {
        MailTls::StartTls => "starttls",
        MailTls::Implicit => "implicit",
        MailTls::None => "none",
    };
    writeln!(out, "\n[mail.{name}]")?;
    writeln!(out, "host = {}", text(&options.host))?;
    writeln!(out, "port = {}", options.port)?;
    writeln!(out, "tls = {}", text(tls))?;
    if let (Some(login), Some(password)) = (&options.login, &server.password) {
        writeln!(out, "user = {}", text(&login.user))?;
        writeln!(out, "password = {}", text(password.shown()))?;
    }
    writeln!(out, "from = {}", text(&options.from.to_string()))?;
    writeln!(out, "to = {}", texts(&options.to.texts()))?;
    writeln!(out, "connections_max = {}", options.connections_max)?;
    writeln!(out, "send_timeout = {}", duration(options.send_timeout))?;
    writeln!(
        out,
        "message_bytes_max = {}",
        size(options.message_bytes_max as u64)
    )?;
    writeln!(out, "recipients_max = {}", options.recipients_max)
}

fn write_kafka(out: &mut String, name: &str, cluster: &KafkaCluster) -> fmt::Result {
    let options = &cluster.options;
    let acks = match options.acks {
        KafkaAcks::All => "all",
        KafkaAcks::Leader => "leader",
    };
    let brokers: Vec<String> = options.brokers.iter().map(ToString::to_string).collect();
    writeln!(out, "\n[kafka.{name}]")?;
    writeln!(out, "brokers = {}", texts(&brokers))?;
    writeln!(out, "tls = {}", options.is_encrypted)?;
    if let (Some(login), Some(password)) = (&options.login, &cluster.password) {
        writeln!(out, "user = {}", text(&login.user))?;
        writeln!(out, "password = {}", text(password.shown()))?;
    }
    writeln!(out, "client_id = {}", text(&options.client_id))?;
    writeln!(out, "topics = {}", texts(&options.topics))?;
    writeln!(out, "acks = {}", text(acks))?;
    writeln!(out, "connections_max = {}", options.connections_max)?;
    writeln!(out, "request_timeout = {}", duration(options.request_timeout))?;
    writeln!(
        out,
        "record_bytes_max = {}",
        size(options.record_bytes_max as u64)
    )?;
    writeln!(out, "queue_bytes_max = {}", size(options.queue_bytes_max as u64))
}

/// Permissions; `more` is appended to them.
fn write_allow(out: &mut String, allow: &ScriptAllow, more: &str) -> fmt::Result {
    let (store, sql, fetch) = (texts(&allow.store), texts(&allow.sql), texts(&allow.fetch));
    let files = paths(&allow.files);
    writeln!(
        out,
        "allow = {{ store = {store}, sql = {sql}, fetch = {fetch}, files = {files}{more} }}"
    )
}

fn write_workflow(out: &mut String, workflow: &Workflow) -> fmt::Result {
    let compat = if workflow.is_as_rengine { "rengine" } else { "none" };
    writeln!(out, "\n[workflow]")?;
    match &workflow.source {
        WorkflowSource::Folder { path: folder, watch } => {
            writeln!(out, "path = {}", path(folder))?;
            writeln!(out, "watch = {watch}")?;
        }
        WorkflowSource::Store { global } => writeln!(out, "store = {}", text(global))?,
    }
    writeln!(out, "compat = {}", text(compat))?;
    writeln!(out, "timeout = {}", duration(workflow.timeout))?;
    writeln!(out, "executors = {}", workflow.executors)?;
    writeln!(out, "engines_max = {}", workflow.engines_max)?;
    writeln!(out, "accept_queue_max = {}", workflow.accept_queue_max)?;
    writeln!(out, "queue_bytes_max = {}", size(workflow.queue_bytes_max))?;
    writeln!(out, "memory_max = {}", size(workflow.memory_max))?;
    writeln!(out, "output_max = {}", size(workflow.output_max))?;
    writeln!(out, "log_max = {}", size(workflow.log_max))?;
    if let Some(folder) = &workflow.logs {
        writeln!(out, "logs = {}", path(folder))?;
    }
    writeln!(out, "logs_rotate = {}", rotation(workflow.logs_rotate))?;
    writeln!(out, "fetch_time_max = {}", duration(workflow.fetch_time_max))?;
    writeln!(out, "fetch_bytes_max = {}", size(workflow.fetch_bytes_max))?;
    writeln!(out, "fetches_max = {}", workflow.fetches_max)?;
    writeln!(out, "process_output_max = {}", size(workflow.process_output_max))?;
    let (redis, s3) = (texts(&workflow.redis), texts(&workflow.s3));
    let (mail, kafka) = (texts(&workflow.mail), texts(&workflow.kafka));
    let (pools, programs) = (texts(&workflow.pools), paths(&workflow.programs));
    write_allow(
        out,
        &workflow.allow,
        &format!(
            ", redis = {redis}, s3 = {s3}, mail = {mail}, kafka = {kafka}, pool = {pools}, process = {programs}"
        ),
    )?;
    if let Some(runs) = &workflow.runs {
        writeln!(
            out,
            "runs = {{ global = {}, kept = {}, open_max = {}, at_a_time = {} }}",
            text(&runs.global),
            duration(runs.kept),
            runs.open_max,
            runs.at_a_time
        )?;
    }
    for (id, client) in &workflow.clients {
        writeln!(out, "\n[workflow.clients.{}]", quoted(id))?;
        for (key, secret) in [("secret", &client.secret), ("token", &client.token)] {
            if let Some(secret) = secret {
                writeln!(out, "{key} = {}", text(secret.shown()))?;
            }
        }
        writeln!(out, "workflows = {}", texts(&client.limits.workflows))?;
        writeln!(out, "releases = {}", client.releases)?;
        if let Some(runs) = client.limits.runs_max {
            writeln!(out, "runs_max = {runs}")?;
        }
        if let Some(runs) = client.limits.runs_per_second {
            writeln!(out, "runs_per_second = {runs}")?;
        }
        writeln!(out, "priority = {}", text(client.limits.priority.name()))?;
    }
    for (name, scene) in &workflow.scenes {
        writeln!(out, "\n[workflow.scenes.{}]", quoted(name))?;
        if let Some(runs) = scene.runs_max {
            writeln!(out, "runs_max = {runs}")?;
        }
        writeln!(out, "queue_max = {}", scene.queue_max)?;
        if let Some(timeout) = scene.timeout {
            writeln!(out, "timeout = {}", duration(timeout))?;
        }
        writeln!(out, "priority = {}", text(scene.priority.name()))?;
    }
    Ok(())
}

fn statements(sql: &SqlRoute) -> String {
    let queries: Vec<String> = sql
        .statements
        .iter()
        .map(|statement| statement.query.clone())
        .collect();
    match sql.transaction {
        Some(isolation) => format!(
            "statements = {}, isolation = {}",
            texts(&queries),
            text(isolation.name())
        ),
        None => format!("query = {}", text(&queries[0])),
    }
}

fn write_proxy(out: &mut String, proxy: &Proxy) -> fmt::Result {
    let settings = &proxy.settings;
    let servers: Vec<String> = settings.servers.iter().map(ToString::to_string).collect();
    writeln!(out, "\n[proxy.{}]\nservers = {}", settings.name, texts(&servers))?;
    let balance = match settings.balance {
        Balance::LeastInFlight => "least_in_flight",
        Balance::Client => "client",
        Balance::Path => "path",
    };
    writeln!(out, "balance = {}", text(balance))?;
    if let Some(host) = &proxy.host {
        writeln!(out, "host = {}", text(host))?;
    }
    if let Some(file) = &settings.authorities {
        writeln!(out, "ca = {}", path(file))?;
    }
    writeln!(out, "in_flight_max = {}", settings.in_flight_max)?;
    writeln!(out, "connect_timeout = {}", duration(settings.connect_timeout))?;
    writeln!(out, "read_timeout = {}", duration(settings.read_timeout))?;
    writeln!(out, "tunnel_timeout = {}", duration(proxy.tunnel_timeout))?;
    writeln!(out, "idle_timeout = {}", duration(settings.idle_timeout))?;
    writeln!(out, "idle_max = {}", settings.idle_max)?;
    writeln!(out, "retry = {}", text(retry(proxy.retry)))?;
    writeln!(out, "fails_max = {}", settings.fails_max)?;
    writeln!(out, "fail_timeout = {}", duration(settings.fail_timeout))?;
    if let Some(check) = &settings.check {
        let (interval, timeout) = (duration(check.interval), duration(check.timeout));
        let path = text(&check.path);
        writeln!(
            out,
            "check = {{ path = {path}, interval = {interval}, timeout = {timeout} }}"
        )?;
    }
    Ok(())
}

fn write_route(out: &mut String, route: &Route) -> fmt::Result {
    writeln!(out, "\n[[route]]\npath = {}", text(&route.path))?;
    if !route.methods.is_empty() {
        writeln!(out, "methods = {}", texts(&route.methods))?;
    }
    if let Some(host) = &route.host {
        writeln!(out, "host = {}", text(host))?;
    }
    writeln!(out, "headers = {}", headers(&route.headers))?;
    if !route.origins.is_empty() {
        writeln!(out, "origins = {}", texts(&route.origins))?;
    }
    if let Some(cors) = &route.cors {
        let (origins, headers) = (texts(&cors.origins), texts(&cors.headers));
        let credentials = cors.credentials;
        writeln!(
            out,
            "cors = {{ origins = {origins}, headers = {headers}, credentials = {credentials} }}"
        )?;
    }
    writeln!(out, "compress = {}", text(route.compress.name()))?;
    writeln!(out, "deadline = {}", duration(route.deadline))?;
    writeln!(out, "body_bytes_max = {}", size(route.body_bytes_max))?;
    match &route.target {
        Target::Respond(respond) => writeln!(out, "respond = {{ {} }}", respond_members(respond)),
        Target::Files(files) => {
            writeln!(out, "files = {}", path(&files.folder))?;
            if let Some(cache_control) = &files.cache_control {
                writeln!(out, "cache_control = {}", text(cache_control))?;
            }
            writeln!(out, "precompressed = {}", files.precompressed)
        }
        Target::Store => writeln!(out, "store = {{}}"),
        Target::Records => writeln!(out, "records = {{}}"),
        Target::Tql => writeln!(out, "tql = {{}}"),
        Target::Sql(sql) => writeln!(
            out,
            "sql = {{ source = {}, {}, optional = {}, result = {} }}",
            text(&sql.source),
            statements(sql),
            texts(&sql.optional),
            text(sql.result.name())
        ),
        Target::Script(name) => writeln!(out, "script = {}", text(name)),
        Target::Workflow(route) => {
            let release = route.release.map(|release| format!(", release = {release}"));
            let (api, release) = (text(route.api.name()), release.unwrap_or_default());
            writeln!(out, "workflow = {{ api = {api}{release} }}")
        }
        Target::Proxy(proxy) => {
            writeln!(out, "proxy = {}", text(&proxy.proxy))?;
            match &proxy.upstream_path {
                Some(path) => writeln!(out, "upstream_path = {}", text(path)),
                None => Ok(()),
            }
        }
        Target::Pool(pool) => {
            writeln!(out, "pool = {}", text(&pool.pool))?;
            writeln!(out, "queue_timeout = {}", duration(pool.queue_timeout))?;
            writeln!(out, "run_timeout = {}", duration(pool.run_timeout))?;
            writeln!(out, "retry = {}", text(retry(pool.retry)))
        }
    }
}

/// A body that is not from a file was written in the configuration, so it is text.
fn respond_members(respond: &Respond) -> String {
    let mut members = vec![format!("status = {}", respond.status)];
    if let Some(content_type) = &respond.content_type {
        members.push(format!("content_type = {}", text(content_type)));
        members.push(match &respond.file {
            Some(file) => format!("file = {}", path(file)),
            None => format!("text = {}", text(&String::from_utf8_lossy(&respond.body))),
        });
    }
    members.push(format!("headers = {}", headers(&respond.headers)));
    members.join(", ")
}

fn retry(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "never",
        Retry::Idempotent => "idempotent",
    }
}

fn size(bytes: u64) -> String {
    text(&print_size(bytes))
}

fn duration(duration: std::time::Duration) -> String {
    text(&print_duration(duration))
}

fn path(path: &Path) -> String {
    text(&path.to_string_lossy())
}

fn paths(all: &[PathBuf]) -> String {
    let all: Vec<String> = all.iter().map(|one| path(one)).collect();
    format!("[{}]", all.join(", "))
}

fn texts<T: ToString>(all: &[T]) -> String {
    format!(
        "[{}]",
        all.iter()
            .map(|one| text(&one.to_string()))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

fn headers(headers: &[(String, String)]) -> String {
    table(headers.iter().map(|(name, value)| (name, value)))
}

fn table<'e, T: AsRef<str> + ?Sized + 'e>(entries: impl Iterator<Item = (&'e String, &'e T)>) -> String {
    let entries: Vec<String> = entries
        .map(|(name, value)| format!("{} = {}", quoted(name), text(value.as_ref())))
        .collect();
    if entries.is_empty() {
        "{}".to_owned()
    } else {
        format!("{{ {} }}", entries.join(", "))
    }
}

/// A text that reads back as `value` after substitution.
fn text(value: &str) -> String {
    quoted(&escape(value))
}

/// A TOML 1.0 basic string. JSON's escapes are valid there; they cover all control characters but DEL.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}
