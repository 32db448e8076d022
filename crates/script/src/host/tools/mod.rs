//! Native parts of the tools of rules: encodings, digests, ciphers, keys and files. Each function does all its work in one call and
//! therefore limits its input. The only long one, key generation, checks the time limit between attempts.

mod aes;
mod coding;
mod error;
mod files;
mod hashing;
mod primes;
mod random;
mod rsa;

use std::rc::Rc;

use forebay_http_client::with_causes;
use rquickjs::{ArrayBuffer, Ctx, Exception, Result, String as JsString, Value};

use self::{coding::Scheme, error::ToolError, files::Files};
use super::{Functions, Host, bytes_of};
use crate::text;

/// Maximum size of a tool's input or output in bytes.
const BYTES_MAX: usize = 10 << 20;

pub(super) fn install<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    functions.set(
        "recode",
        |ctx: Ctx<'js>, from: String, to: String, content: JsString<'js>| -> Result<JsString<'js>> {
            let content = text::utf8(content)?;
            let recoded =
                Scheme::named(&from).and_then(|from| coding::recode(from, Scheme::named(&to)?, &content));
            text::from_utf8(&ctx, &thrown(&ctx, recoded)?)
        },
    )?;
    functions.set(
        "hash",
        |ctx: Ctx<'js>, name: String, content: JsString<'js>| -> Result<String> {
            thrown(&ctx, hashing::digest(&name, &text::utf8(content)?))
        },
    )?;
    functions.set(
        "hmac",
        |ctx: Ctx<'js>, name: String, key: JsString<'js>, content: JsString<'js>| -> Result<String> {
            let (key, content) = (text::utf8(key)?, text::utf8(content)?);
            thrown(&ctx, hashing::hmac(&name, &key, &content))
        },
    )?;
    functions.set("randomBase64", |ctx: Ctx<'js>, length: usize| -> Result<String> {
        thrown(&ctx, coding::random_base64(length))
    })?;
    functions.set("randomBelow", |ctx: Ctx<'js>, end: f64| -> Result<f64> {
        thrown(&ctx, random::below(end))
    })?;
    functions.set(
        "randomText",
        |ctx: Ctx<'js>, characters: JsString<'js>, count: usize| -> Result<String> {
            thrown(&ctx, random::text(&text::owned(characters)?, count))
        },
    )?;
    install_ciphers(functions, host)?;
    install_files(functions, host)
}

fn install_ciphers<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    functions.set(
        "aesEncrypt",
        |ctx: Ctx<'js>,
         mode: String,
         key: JsString<'js>,
         iv: Option<JsString<'js>>,
         content: JsString<'js>| {
            let (key, iv) = (text::utf8(key)?, iv.map(text::utf8).transpose()?);
            let cipher = aes::Cipher::of(&mode, &key, iv.as_deref());
            let encrypted = cipher.and_then(|cipher| cipher.encrypt(&text_of(content)?));
            thrown(&ctx, encrypted)
        },
    )?;
    functions.set(
        "aesDecrypt",
        |ctx: Ctx<'js>,
         mode: String,
         key: JsString<'js>,
         iv: Option<JsString<'js>>,
         content: JsString<'js>| {
            let (key, iv) = (text::utf8(key)?, iv.map(text::utf8).transpose()?);
            let cipher = aes::Cipher::of(&mode, &key, iv.as_deref());
            let decrypted = cipher.and_then(|cipher| cipher.decrypt(&text_of(content)?));
            text::from_utf8(&ctx, &thrown(&ctx, decrypted)?)
        },
    )?;
    let own = host.clone();
    functions.set(
        "rsaKeys",
        move |ctx: Ctx<'js>, bits: f64| -> Result<Vec<String>> {
            thrown(&ctx, rsa::new_keys(bits, || own.store.is_out_of_time()))
        },
    )?;
    functions.set(
        "rsaEncrypt",
        |ctx: Ctx<'js>, key: JsString<'js>, content: JsString<'js>| -> Result<String> {
            let (key, content) = (text::utf8(key)?, text::utf8(content)?);
            thrown(&ctx, rsa::encrypt(&key, &content))
        },
    )?;
    functions.set(
        "rsaDecrypt",
        |ctx: Ctx<'js>, key: JsString<'js>, content: JsString<'js>| -> Result<JsString<'js>> {
            let (key, content) = (text::utf8(key)?, text::utf8(content)?);
            text::from_utf8(&ctx, &thrown(&ctx, rsa::decrypt(&key, &content))?)
        },
    )
}

fn install_files<'js>(functions: &Functions<'_, 'js>, host: &Rc<Host>) -> Result<()> {
    let own = host.clone();
    functions.set(
        "fileRead",
        move |ctx: Ctx<'js>, path: JsString<'js>, from: f64, length: f64| -> Result<ArrayBuffer<'js>> {
            let read = with_files(&ctx, &own, path, |files, path| files.read(path, from, length));
            ArrayBuffer::new_copy(ctx.clone(), read?)
        },
    )?;
    let own = host.clone();
    functions.set(
        "fileLength",
        move |ctx: Ctx<'js>, path: JsString<'js>| -> Result<f64> {
            Ok(with_files(&ctx, &own, path, Files::length)? as f64)
        },
    )?;
    let own = host.clone();
    functions.set(
        "fileWrite",
        move |ctx: Ctx<'js>, path: JsString<'js>, content: Value<'js>, append: bool| -> Result<()> {
            let content = bytes_of(&ctx, content)?;
            with_files(&ctx, &own, path, |files, path| {
                files.write(path, &content, append)
            })
        },
    )?;
    let own = host.clone();
    functions.set(
        "fileList",
        move |ctx: Ctx<'js>, path: JsString<'js>| -> Result<Vec<String>> {
            with_files(&ctx, &own, path, Files::list)
        },
    )?;
    let own = host.clone();
    functions.set(
        "fileDelete",
        move |ctx: Ctx<'js>, path: JsString<'js>| -> Result<()> {
            with_files(&ctx, &own, path, Files::delete)
        },
    )?;
    let own = host.clone();
    functions.set(
        "fileMakeFolders",
        move |ctx: Ctx<'js>, path: JsString<'js>| -> Result<()> {
            with_files(&ctx, &own, path, Files::make_folders)
        },
    )
}

/// Works with the files that scripts of this engine may access, at a path.
fn with_files<'js, 'h, T, E: std::error::Error>(
    ctx: &Ctx<'js>,
    host: &'h Host,
    path: JsString<'js>,
    work: impl FnOnce(&Files<'h>, &str) -> std::result::Result<T, E>,
) -> Result<T> {
    let path = text::owned(path)?;
    thrown(ctx, work(&files_of(ctx, host)?, &path))
}

/// The files that scripts of this engine may access. On an I/O thread the call is left to an executor.
fn files_of<'a>(ctx: &Ctx<'_>, host: &'a Host) -> Result<Files<'a>> {
    if host.place.is_on_io() {
        host.store.note_elsewhere();
        return Err(Exception::throw_message(
            ctx,
            "files are used on executors, and this call is on an I/O thread",
        ));
    }
    Ok(Files::new(&host.options.allow.files))
}

/// The text as UTF-8.
fn text_of(content: JsString<'_>) -> std::result::Result<Vec<u8>, ToolError> {
    text::utf8(content).map_err(|_| ToolError::Memory)
}

/// Converts the error of a tool to an exception.
fn thrown<T>(ctx: &Ctx<'_>, result: std::result::Result<T, impl std::error::Error>) -> Result<T> {
    result.map_err(|error| {
        // An exception has no separate cause, so its text contains the causes.
        Exception::throw_message(ctx, &with_causes(&error))
    })
}
