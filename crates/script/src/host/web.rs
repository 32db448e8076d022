//! Web APIs that are better implemented here: URLs, forms, digests, random bytes; and modules that are loaded on first use.

use rquickjs::{
    ArrayBuffer, Ctx, Exception, Module, Object, Result, String as JsString, TypedArray, function::Opt,
};
use sha1::Digest as _;
use url::{Url, form_urlencoded, quirks};

use super::Functions;
use crate::{modules::LAZY, sys, text};

/// Maximum number of random bytes at a time, from the standard.
const RANDOM_BYTES_MAX: usize = 65_536;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>) -> Result<()> {
    functions.set(
        "url",
        |address: JsString<'js>, base: Opt<JsString<'js>>| -> Result<Option<Vec<String>>> {
            let address = text::owned(address)?;
            let url = match base.0 {
                Some(base) => Url::parse(&text::owned(base)?).and_then(|base| base.join(&address)),
                None => Url::parse(&address),
            };
            Ok(url.ok().map(|url| parts(&url)))
        },
    )?;
    functions.set(
        "urlWith",
        |href: JsString<'js>, part: String, value: JsString<'js>| -> Result<Option<Vec<String>>> {
            let (href, value) = (text::owned(href)?, text::owned(value)?);
            Ok(with(&href, &part, &value).map(|url| parts(&url)))
        },
    )?;
    functions.set("formDecode", |form: JsString<'js>| -> Result<Vec<String>> {
        let form = text::utf8(form)?;
        let pairs = form_urlencoded::parse(&form);
        Ok(pairs
            .flat_map(|(name, value)| [name.into_owned(), value.into_owned()])
            .collect())
    })?;
    functions.set("formEncode", |pairs: Vec<JsString<'js>>| -> Result<String> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let mut pairs = pairs.into_iter();
        while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
            form.append_pair(&text::owned(name)?, &text::owned(value)?);
        }
        Ok(form.finish())
    })?;
    functions.set("isUtf8", |bytes: TypedArray<'js, u8>| {
        sys::with_bytes(&bytes, |bytes| std::str::from_utf8(bytes).is_ok()).unwrap_or(true)
    })?;
    functions.set(
        "digest",
        |ctx: Ctx<'js>, name: String, bytes: TypedArray<'js, u8>| -> Result<Option<ArrayBuffer<'js>>> {
            let digest = sys::with_bytes(&bytes, |bytes| digest(&name, bytes)).flatten();
            digest
                .map(|digest| ArrayBuffer::new_copy(ctx.clone(), digest))
                .transpose()
        },
    )?;
    functions.set(
        "random",
        |ctx: Ctx<'js>, length: usize| -> Result<ArrayBuffer<'js>> {
            let mut bytes = vec![0; length.min(RANDOM_BYTES_MAX)];
            getrandom::fill(&mut bytes)
                .map_err(|error| Exception::throw_message(&ctx, &format!("no random bytes: {error}")))?;
            ArrayBuffer::new_copy(ctx.clone(), bytes)
        },
    )?;
    functions.set("module", |ctx: Ctx<'js>, path: String| -> Result<Object<'js>> {
        // Under a separate name, so that the module itself is the one that others import.
        let source = format!("export * from './{path}';");
        let (module, _) = Module::declare(ctx, format!("{LAZY}/{path}"), source)?.eval()?;
        module.namespace()
    })
}

fn digest(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    Some(match name {
        "SHA-1" => sha1::Sha1::digest(bytes).to_vec(),
        "SHA-256" => sha2::Sha256::digest(bytes).to_vec(),
        "SHA-384" => sha2::Sha384::digest(bytes).to_vec(),
        "SHA-512" => sha2::Sha512::digest(bytes).to_vec(),
        _ => return None,
    })
}

/// href, protocol, username, password, host, hostname, port, pathname, search, hash, origin
fn parts(url: &Url) -> Vec<String> {
    [
        quirks::href(url),
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
        &quirks::origin(url),
    ]
    .map(str::to_owned)
    .into()
}

/// Replaces a part of a URL. An invalid part leaves it unchanged; an invalid `href` gives `None`.
fn with(href: &str, part: &str, value: &str) -> Option<Url> {
    let mut url = Url::parse(href).ok()?;
    // According to the standard, an invalid part is ignored.
    let _ = match part {
        "href" => return Url::parse(value).ok(),
        "protocol" => quirks::set_protocol(&mut url, value),
        "username" => quirks::set_username(&mut url, value),
        "password" => quirks::set_password(&mut url, value),
        "host" => quirks::set_host(&mut url, value),
        "hostname" => quirks::set_hostname(&mut url, value),
        "port" => quirks::set_port(&mut url, value),
        "pathname" => {
            quirks::set_pathname(&mut url, value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, value);
            Ok(())
        }
        "hash" => {
            quirks::set_hash(&mut url, value);
            Ok(())
        }
        _ => Ok(()),
    };
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_cannot_be_are_not_taken() {
        let href = "http://example.org:81/a?b#c";
        assert_eq!(with(href, "port", "x").unwrap().as_str(), href);
        assert_eq!(
            with(href, "port", "80").unwrap().as_str(),
            "http://example.org/a?b#c"
        );
        assert_eq!(
            with(href, "search", "d e").unwrap().as_str(),
            "http://example.org:81/a?d%20e#c"
        );
        assert!(with(href, "href", "nowhere").is_none());
    }
}
