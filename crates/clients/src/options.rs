//! The targets that may be reached, and their limits.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use url::Url;

use crate::{ClientError, KafkaOptions, MailOptions, RedisOptions, S3Options, Workers};

/// The targets that rules may reach. Everything else is denied.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Permitted Redis servers by name, in the order of `allow`.
    pub redis: Vec<String>,
    /// The names of all configured Redis servers, for error messages.
    pub redis_servers: BTreeMap<String, RedisOptions>,
    /// Permitted S3 buckets by name, in the order of `allow`.
    pub s3: Vec<String>,
    /// The names of all configured buckets, for error messages.
    pub s3_buckets: BTreeMap<String, S3Options>,
    /// Permitted mail servers by name, in the order of `allow`.
    pub mail: Vec<String>,
    /// The names of all configured mail servers, for error messages.
    pub mail_servers: BTreeMap<String, MailOptions>,
    /// Permitted Kafka clusters by name, in the order of `allow`.
    pub kafka: Vec<String>,
    /// The names of all configured clusters, for error messages.
    pub kafka_clusters: BTreeMap<String, KafkaOptions>,
    /// Permitted worker pools by name, in the order of `allow`.
    pub pools: Vec<String>,
    /// The names of all configured pools, for error messages.
    pub all_pools: BTreeMap<String, Arc<dyn Workers>>,
    /// Absolute paths of permitted programs.
    pub programs: Vec<PathBuf>,
    /// Limit in bytes on each of a program's standard output and standard error.
    pub output_bytes_max: usize,
}

impl Options {
    /// Looks up a permitted Redis server by name; the first if there is no name.
    pub(crate) fn redis(&self, name: Option<&str>) -> Result<(&str, &RedisOptions), ClientError> {
        allowed("Redis", "redis", &self.redis, &self.redis_servers, name)
    }

    /// Looks up a permitted bucket by name; the first if there is no name.
    pub(crate) fn s3(&self, name: Option<&str>) -> Result<(&str, &S3Options), ClientError> {
        allowed("S3", "s3", &self.s3, &self.s3_buckets, name)
    }

    /// Looks up a permitted mail server by name; the first if there is no name.
    pub(crate) fn mail(&self, name: Option<&str>) -> Result<(&str, &MailOptions), ClientError> {
        allowed("mail", "mail", &self.mail, &self.mail_servers, name)
    }

    /// Looks up a permitted Kafka cluster by name.
    pub(crate) fn kafka(&self, name: &str) -> Result<(&str, &KafkaOptions), ClientError> {
        allowed("Kafka", "kafka", &self.kafka, &self.kafka_clusters, Some(name))
    }

    /// Looks up a permitted worker pool by name.
    pub(crate) fn pool(&self, name: &str) -> Result<&dyn Workers, ClientError> {
        let (_, pool) = allowed("pool", "pool", &self.pools, &self.all_pools, Some(name))?;
        Ok(&**pool)
    }

    /// Whether a URL is that of an object in a permitted bucket.
    pub fn has_object(&self, url: &Url) -> bool {
        let buckets = self.s3.iter().filter_map(|name| self.s3_buckets.get(name));
        buckets.into_iter().any(|bucket| bucket.has(url))
    }
}

fn allowed<'o, O>(
    kind: &str,
    key: &'static str,
    names: &'o [String],
    all: &'o BTreeMap<String, O>,
    name: Option<&str>,
) -> Result<(&'o str, &'o O), ClientError> {
    let found = match name {
        Some(name) => names.iter().find(|allowed| *allowed == name),
        None => names.first(),
    };
    let found = found.and_then(|name| Some((name.as_str(), all.get(name)?)));
    found.ok_or_else(|| ClientError::NotAllowed {
        what: name.map_or_else(|| format!("a {kind}"), |name| format!("{kind} `{name}`")),
        key,
        allowed: names.to_vec(),
    })
}
