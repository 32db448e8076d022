//! `[s3.NAME]`

use forebay_clients::S3Options;

use super::Builder;
use crate::S3Bucket;
use crate::fields::Fields;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn s3(&mut self, name: &str, fields: &Fields) -> Option<S3Bucket> {
        self.check_name(name, "bucket", fields);
        let secret_key = self.secret(fields, "secret_key")?;
        let text = |key: &str| fields.text(key).to_owned();
        let (endpoint, region, bucket) = (text("endpoint"), text("region"), text("bucket"));
        let access_key = text("access_key");
        let made = S3Options::new(&endpoint, &region, &bucket, &access_key, secret_key.reveal());
        let options = match made {
            Ok(options) => options,
            Err(reason) => {
                let message = format!("what is written there is no address of a server: {reason}");
                self.note(fields.problem("endpoint", message));
                return None;
            }
        };
        Some(S3Bucket {
            endpoint,
            region,
            bucket,
            access_key,
            secret_key,
            options,
        })
    }
}
