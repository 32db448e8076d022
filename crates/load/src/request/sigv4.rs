//! Signatures of requests as AWS wants them (Signature Version 4), and whoever took its scheme over. A signature holds for minutes: what
//! is always the same is signed once a second.

use std::fmt::Write as _;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::redirect::{origin_and_path, without_dots};
use crate::{report::words::format_time, target::unescaped};

/// Signs requests.
#[derive(Clone)]
pub struct Signer {
    /// `AWS`, or another provider's name.
    name: String,
    /// What stands between the dashes of its fields: `amz`.
    field: String,
    region: String,
    service: String,
    key: String,
    secret: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            field,
            region,
            service,
            key,
            secret: _,
        } = self;
        write!(f, "Signer({name}:{field}:{region}:{service}, key {key})")
    }
}

/// Why nothing can be signed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SignerError {
    /// Not all of what is signed for.
    #[error(
        "found `{text}`, expected PROVIDER:REGION:SERVICE such as aws:us-east-1:s3, or as for curl aws:amz:us-east-1:s3"
    )]
    Scope {
        /// What was given.
        text: String,
    },
    /// No key, or no secret.
    #[error("the user has no colon, or nothing before or behind it; expected KEY:SECRET")]
    Credentials,
}

/// Fields that are not signed: they are not there yet, or others on the way may change them.
const UNSIGNED: [&str; 9] = [
    "authorization",
    "connection",
    "content-length",
    "expect",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "user-agent",
    "x-amzn-trace-id",
];

impl Signer {
    /// Of `PROVIDER:REGION:SERVICE`, or `PROVIDER:PROVIDER:REGION:SERVICE` as curl has it, and `KEY:SECRET`.
    pub fn new(scope: &str, user: &str) -> Result<Self, SignerError> {
        let wrong = || SignerError::Scope {
            text: scope.to_owned(),
        };
        let words: Vec<_> = scope.split(':').collect();
        let (provider, field, region, service) = match words[..] {
            ["aws", region, service] => ("aws", "amz", region, service),
            [provider, region, service] => (provider, provider, region, service),
            [provider, field, region, service] => (provider, field, region, service),
            _ => return Err(wrong()),
        };
        let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = |word: &&str| !word.is_empty() && word.bytes().all(may_be);
        if !words.iter().all(is_name) {
            return Err(wrong());
        }
        let pair = user
            .split_once(':')
            .filter(|(key, secret)| !key.is_empty() && !secret.is_empty());
        let (key, secret) = pair.ok_or(SignerError::Credentials)?;
        if user.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(SignerError::Credentials);
        }
        Ok(Self {
            name: provider.to_ascii_uppercase(),
            field: field.to_ascii_lowercase(),
            region: region.to_owned(),
            service: service.to_owned(),
            key: key.to_owned(),
            secret: secret.to_owned(),
        })
    }

    /// Appends a request with its signature, as of so many seconds since 1970.
    pub(super) fn sign(&self, request: &[u8], unix_s: u64, out: &mut Vec<u8>) {
        let Some(end) = memchr::memmem::find(request, b"\r\n\r\n") else {
            // It is no request, and no server will take it for one.
            out.extend_from_slice(request);
            return;
        };
        let head = String::from_utf8_lossy(&request[..end]);
        let body = &request[end + 4..];
        let now = format_time(unix_s.saturating_mul(1000), "%Y%m%dT%H%M%SZ");
        let hash = HEXLOWER.encode(&Sha256::digest(body));
        let mut added = vec![(format!("x-{}-date", self.field), now.clone())];
        if self.service == "s3" {
            added.push((format!("x-{}-content-sha256", self.field), hash.clone()));
        }
        let (canonical, signed) = self.canonical(&head, &added, &hash);
        let (algorithm, scope) = (format!("{}4-HMAC-SHA256", self.name), self.scope(&now[..8]));
        let text = format!(
            "{algorithm}\n{now}\n{scope}\n{}",
            HEXLOWER.encode(&Sha256::digest(canonical))
        );
        let signature = HEXLOWER.encode(&hmac(&self.key_of(&now[..8]), &text));
        out.extend_from_slice(&request[..end]);
        for (name, value) in added {
            out.extend_from_slice(format!("\r\n{name}: {value}").as_bytes());
        }
        let proof = format!(
            "\r\nauthorization: {algorithm} Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}\r\n\r\n",
            self.key
        );
        out.extend_from_slice(proof.as_bytes());
        out.extend_from_slice(body);
    }

    /// What the signature is for: the request in one form, whatever the way it is written; and the names of the fields in it.
    fn canonical(&self, head: &str, added: &[(String, String)], hash: &str) -> (String, String) {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or("/"));
        let target = origin_and_path(target).1;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        // S3 has names with dots and slashes; all others take the path as it is sent and escape it once more.
        let path = if self.service == "s3" {
            escaped(&unescaped(path), true)
        } else {
            escaped(without_dots(path).as_bytes(), true)
        };
        let mut fields: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| {
                (
                    name.to_ascii_lowercase(),
                    value.split_whitespace().collect::<Vec<_>>().join(" "),
                )
            })
            .filter(|(name, _)| !UNSIGNED.contains(&name.as_str()))
            .chain(added.iter().cloned())
            .collect();
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        fields.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 = format!("{},{}", first.1, next.1);
            }
            same
        });
        let names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
        let signed = names.join(";");
        let mut text = format!("{method}\n{path}\n{}\n", canonical_query(query));
        for (name, value) in &fields {
            // A String takes everything.
            let _ = writeln!(text, "{name}:{value}");
        }
        let _ = write!(text, "\n{signed}\n{hash}");
        (text, signed)
    }

    fn terminator(&self) -> String {
        format!("{}4_request", self.name.to_ascii_lowercase())
    }

    fn scope(&self, day: &str) -> String {
        format!("{day}/{}/{}/{}", self.region, self.service, self.terminator())
    }

    fn key_of(&self, day: &str) -> [u8; 32] {
        let first = hmac(format!("{}4{}", self.name, self.secret).as_bytes(), day);
        [self.region.as_str(), &self.service, &self.terminator()]
            .iter()
            .fold(first, |key, text| hmac(&key, text))
    }
}

fn hmac(key: &[u8], text: &str) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of HMAC may have any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().into()
}

/// Names and values escaped anew, in order.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(String, String)> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (
                escaped(&unescaped(name), false),
                escaped(&unescaped(value), false),
            )
        })
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Everything but what RFC 3986 leaves unreserved, and slashes of a path.
fn escaped(bytes: &[u8], is_path: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (is_path && byte == b'/') {
            text.push(char::from(byte));
        } else {
            // A String takes everything.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    /// 20150830T123600Z, the moment of AWS's test suite.
    const MOMENT: u64 = 1_440_938_160;

    fn signed(scope: &str, request: &str) -> String {
        let mut out = Vec::new();
        Signer::new(scope, USER)
            .unwrap()
            .sign(request.as_bytes(), MOMENT, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_of_awss_test_suite_have_its_signatures() {
        for (name, request, fields, signature) in [
            (
                "get-vanilla",
                "GET / HTTP/1.1\r\nHost:example.amazonaws.com\r\n\r\n",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                "POST / HTTP/1.1\r\nHost:example.amazonaws.com\r\ncontent-length: 0\r\n\r\n",
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "get-vanilla-query-order-key-case",
                "GET /?Param2=value2&Param1=value1 HTTP/1.1\r\nHost:example.amazonaws.com\r\n\r\n",
                "host;x-amz-date",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-header-key-duplicate",
                "GET / HTTP/1.1\r\nHost:example.amazonaws.com\r\nMy-Header1:value2\r\nMy-Header1:value2\r\nMy-Header1:value1\r\n\r\n",
                "host;my-header1;x-amz-date",
                "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
            ),
            (
                "get-header-value-trim",
                "GET / HTTP/1.1\r\nHost:example.amazonaws.com\r\nMy-Header1: value1\r\nMy-Header2: \"a   b   c\"\r\n\r\n",
                "host;my-header1;my-header2;x-amz-date",
                "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
            ),
            (
                "get-relative-relative",
                "GET /example1/example2/../.. HTTP/1.1\r\nHost:example.amazonaws.com\r\n\r\n",
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST / HTTP/1.1\r\nContent-Type:application/x-www-form-urlencoded\r\nHost:example.amazonaws.com\r\n\r\nParam1=value1",
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let proof = format!(
                "\r\nx-amz-date: 20150830T123600Z\r\nauthorization: AWS4-HMAC-SHA256 \
                 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={fields}, Signature={signature}\r\n\r\n"
            );
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let expected = format!("{head}{proof}{body}");
            for scope in ["aws:us-east-1:service", "aws:amz:us-east-1:service"] {
                assert_eq!(signed(scope, request), expected, "{name}");
            }
        }
    }

    #[test]
    fn s3_has_the_hash_of_the_body_and_names_as_they_are() {
        let request = "PUT /a/../b%20c HTTP/1.1\r\nhost: h\r\n\r\nhello";
        let text = signed("aws:us-east-1:s3", request);
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert!(
            text.contains(&format!("\r\nx-amz-content-sha256: {hash}\r\n")),
            "{text}"
        );
        assert!(
            text.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"),
            "{text}"
        );
        let signer = Signer::new("aws:us-east-1:s3", USER).unwrap();
        assert!(
            signer
                .canonical(request, &[], "")
                .0
                .starts_with("PUT\n/a/../b%20c\n\nhost:h\n")
        );
        let proxied =
            request
                .replace("/a/", "http://h/a/")
                .replacen("\r\n", "\r\nproxy-authorization: x\r\n", 1);
        assert_eq!(
            signer.canonical(&proxied, &[], ""),
            signer.canonical(request, &[], "")
        );
        let other = Signer::new("aws:us-east-1:es", USER).unwrap();
        assert!(
            other
                .canonical(request, &[], "")
                .0
                .starts_with("PUT\n/b%2520c\n\n")
        );
    }

    #[test]
    fn other_providers_have_their_own_names_in_it() {
        let text = signed("osc:eu:api", "GET /?b&a=%7e%2B HTTP/1.1\r\nhost: h\r\n\r\n");
        assert!(text.contains("\r\nx-osc-date: 2015"), "{text}");
        assert!(
            text.contains("OSC4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu/api/osc4_request"),
            "{text}"
        );
        assert_eq!(canonical_query("b&a=%7e%2B+c"), "a=~%2B%2Bc&b=");
    }

    #[test]
    fn what_cannot_sign_is_refused() {
        for scope in [
            "",
            "aws",
            "aws:us-east-1",
            "aws::s3",
            "a:b:c:d:e",
            "aws:us east:s3",
        ] {
            let error = Signer::new(scope, USER).unwrap_err();
            assert!(
                error.to_string().contains("expected PROVIDER:REGION:SERVICE"),
                "{scope}"
            );
        }
        for user in ["", "key", ":secret", "key:", "key:a\nb"] {
            assert_eq!(
                Signer::new("aws:r:s", user).unwrap_err(),
                SignerError::Credentials,
                "{user:?}"
            );
        }
        let shown = format!("{:?}", Signer::new("aws:r:s", "key:hidden").unwrap());
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
