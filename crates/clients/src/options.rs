//! What may be reached, and what bounds it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use url::Url;

use crate::{ClientError, KafkaOptions, MailOptions, RedisOptions, S3Options, Workers};

/// What may be reached; nothing that is not named.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Servers of Redis by their names, in the order in which they are allowed.
    pub redis: Vec<String>,
    /// All servers of Redis that there are.
    pub redis_servers: BTreeMap<String, RedisOptions>,
    /// Buckets of S3 by their names, in the order in which they are allowed.
    pub s3: Vec<String>,
    /// All buckets that there are.
    pub s3_buckets: BTreeMap<String, S3Options>,
    /// Servers of mail by their names, in the order in which they are allowed.
    pub mail: Vec<String>,
    /// All servers of mail that there are.
    pub mail_servers: BTreeMap<String, MailOptions>,
    /// Clusters of Kafka by their names, in the order in which they are allowed.
    pub kafka: Vec<String>,
    /// All clusters of Kafka that there are.
    pub kafka_clusters: BTreeMap<String, KafkaOptions>,
    /// Pools of workers by their names, in the order in which they are allowed.
    pub pools: Vec<String>,
    /// All pools that there are.
    pub all_pools: BTreeMap<String, Arc<dyn Workers>>,
    /// Programs that may be run, by their absolute paths.
    pub programs: Vec<PathBuf>,
    /// Bytes that a program may write, to standard output and to standard error, each.
    pub output_bytes_max: usize,
}

impl Options {
    /// A server of Redis that may be reached: of this name, or the first.
    pub(crate) fn redis(&self, name: Option<&str>) -> Result<(&str, &RedisOptions), ClientError> {
        allowed("Redis", "redis", &self.redis, &self.redis_servers, name)
    }

    /// A bucket that may be reached: of this name, or the first.
    pub(crate) fn s3(&self, name: Option<&str>) -> Result<(&str, &S3Options), ClientError> {
        allowed("S3", "s3", &self.s3, &self.s3_buckets, name)
    }

    /// A server of mail that may be used: of this name, or the first.
    pub(crate) fn mail(&self, name: Option<&str>) -> Result<(&str, &MailOptions), ClientError> {
        allowed("mail", "mail", &self.mail, &self.mail_servers, name)
    }

    /// A cluster of Kafka that may be published to.
    pub(crate) fn kafka(&self, name: &str) -> Result<(&str, &KafkaOptions), ClientError> {
        allowed("Kafka", "kafka", &self.kafka, &self.kafka_clusters, Some(name))
    }

    /// A pool that may be asked.
    pub(crate) fn pool(&self, name: &str) -> Result<&dyn Workers, ClientError> {
        let (_, pool) = allowed("pool", "pool", &self.pools, &self.all_pools, Some(name))?;
        Ok(&**pool)
    }

    /// Whether an address is that of an object in a bucket that may be reached.
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
