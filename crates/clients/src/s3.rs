//! Presigned URLs of objects in S3 (AWS Signature Version 4, in the query). A URL permits one method on one object until it expires.

use std::time::Duration;

use jiff::Timestamp;
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use url::Url;

use crate::ClientError;

/// How long a URL is valid.
const GOOD_FOR: Duration = Duration::from_mins(15);
/// Longest object key (S3, "Naming objects").
const OBJECT_BYTES_MAX: usize = 1024;

/// A bucket with its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Options {
    bucket: Bucket,
    credentials: Credentials,
}

impl std::fmt::Debug for S3Options {
    /// Omits the credentials.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("S3Options")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl S3Options {
    /// Creates a bucket at `endpoint`, with its name as the first segment of paths. The error says what is wrong with the endpoint.
    pub fn new(endpoint: &str, region: &str, bucket: &str, key: &str, secret: &str) -> Result<Self, String> {
        let endpoint = Url::parse(endpoint).map_err(|error| error.to_string())?;
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            return Err("it says who asks; `access_key` and `secret_key` do".into());
        }
        let bucket = Bucket::new(endpoint, UrlStyle::Path, bucket.to_owned(), region.to_owned());
        Ok(Self {
            bucket: bucket.map_err(|error| error.to_string())?,
            credentials: Credentials::new(key, secret),
        })
    }

    /// Whether a URL is that of an object in this bucket.
    pub(crate) fn has(&self, url: &Url) -> bool {
        let base = self.bucket.base_url();
        base.origin() == url.origin() && url.path().starts_with(base.path())
    }

    /// Signs a URL that is valid from now.
    pub(crate) fn sign(&self, method: &str, object: &str) -> Result<Url, ClientError> {
        self.sign_at(method, object, &Timestamp::now())
    }

    fn sign_at(&self, method: &str, object: &str, now: &Timestamp) -> Result<Url, ClientError> {
        let wrong = |reason: String| ClientError::Operation { reason };
        let is_plain = !object.split('/').any(|part| matches!(part, "." | ".."));
        if object.is_empty() || object.len() > OBJECT_BYTES_MAX || !is_plain {
            return Err(wrong(format!(
                "the name of an object has 1 to {OBJECT_BYTES_MAX} bytes, and no part that is `.` or `..`"
            )));
        }
        let (bucket, credentials) = (&self.bucket, Some(&self.credentials));
        match method {
            "GET" => Ok(bucket
                .get_object(credentials, object)
                .sign_with_time(GOOD_FOR, now)),
            "HEAD" => Ok(bucket
                .head_object(credentials, object)
                .sign_with_time(GOOD_FOR, now)),
            "PUT" => Ok(bucket
                .put_object(credentials, object)
                .sign_with_time(GOOD_FOR, now)),
            "DELETE" => Ok(bucket
                .delete_object(credentials, object)
                .sign_with_time(GOOD_FOR, now)),
            other => Err(wrong(format!("objects are not asked for with {other}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Compares with signatures of botocore.
    #[test]
    fn signatures_are_those_that_others_make() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let s3 = S3Options::new(
            "https://s3.example.org",
            "eu-1",
            "box",
            "AKIAIOSFODNN7EXAMPLE",
            secret,
        )
        .unwrap();
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        for (method, signature) in [
            (
                "GET",
                "f3aef1bb75644de6431ab791bcb4d4ec514b4b751282d393fc8c376d0ccc62a0",
            ),
            (
                "PUT",
                "8c77fa8b46e5ec67be180fc4200a8ee5a72e434c2807dfa3bc6f17f20b99a7cc",
            ),
        ] {
            let url = s3.sign_at(method, "a b/c?d+e~f", &now).unwrap();
            assert_eq!(
                url.as_str(),
                format!(
                    "https://s3.example.org/box/a%20b/c%3Fd%2Be~f?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Feu-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature={signature}"
                )
            );
        }
    }

    #[test]
    fn addresses_are_those_of_one_bucket_and_hide_the_secret() {
        let s3 = S3Options::new("https://s3.example.org", "eu-1", "box", "key", "hidden").unwrap();
        let url = s3.sign("GET", "a b/c?d").unwrap();
        assert!(
            url.as_str()
                .starts_with("https://s3.example.org/box/a%20b/c%3Fd?X-Amz-"),
            "{url}"
        );
        assert!(s3.has(&url));
        assert!(!format!("{s3:?} {url}").contains("hidden"));
        for other in [
            "https://s3.example.org/boxes/a",
            "https://s3.example.org/",
            "http://s3.example.org/box/a",
            "https://other.example.org/box/a",
        ] {
            assert!(!s3.has(&other.parse().unwrap()), "{other}");
        }
        for object in ["", "../a", "a/./b", &"a".repeat(1025)] {
            assert!(s3.sign("GET", object).is_err(), "{object}");
        }
        assert!(s3.sign("POST", "a").is_err());
        for endpoint in ["s3.example.org", "ftp://h/", "https://a:b@h/"] {
            assert!(
                S3Options::new(endpoint, "r", "b", "k", "s").is_err(),
                "{endpoint}"
            );
        }
    }
}
