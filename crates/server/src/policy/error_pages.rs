//! Pages in the place of the server's own error messages.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use crate::{
    app::BuildError,
    config::{self, Config, Statuses},
    front::Head,
    reply::{Body, Reply},
};

/// Largest page, in bytes; its content stays in memory.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Reads the pages of all policies.
pub(crate) fn error_pages(config: &Config) -> Result<BTreeMap<String, ErrorPages>, BuildError> {
    let policies = config.policies.iter();
    policies
        .map(|(name, policy)| Ok((name.clone(), ErrorPages::read(&policy.error_pages)?)))
        .collect()
}

/// Pages under the statuses whose responses they are, the first that fits.
#[derive(Debug, Default)]
pub(crate) struct ErrorPages(Vec<(Statuses, Bytes)>);

impl ErrorPages {
    fn read(pages: &config::ErrorPages) -> Result<Self, BuildError> {
        let page = |(statuses, file): &(Statuses, PathBuf)| {
            let page = read(file).map_err(|source| BuildError::ErrorPage {
                file: file.clone(),
                source,
            })?;
            Ok((*statuses, page))
        };
        let pages = pages.0.iter().map(page);
        pages.collect::<Result<_, BuildError>>().map(Self)
    }

    /// Adds those of another policy. Pages of a single status come before those of a class.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0
            .sort_by_key(|(statuses, _)| matches!(statuses, Statuses::Class(_)));
    }

    /// The page for a status.
    pub(super) fn page(&self, status: u16) -> Option<&Bytes> {
        let mut pages = self.0.iter();
        pages
            .find(|(statuses, _)| statuses.contain(status))
            .map(|(_, page)| page)
    }

    /// Puts the page for its status into an error response, if the client accepts HTML.
    pub(super) fn apply(&self, head: &Head, reply: &mut Reply<'_>) {
        let Some(page) = self.page(reply.status) else {
            return;
        };
        let headers = reply.headers.to_mut();
        if head.accepts_html() {
            headers.retain(|name| name != b"content-type");
            headers.push_known("content-type", "text/html; charset=utf-8");
            reply.body = Body::Bytes(page.clone());
        }
        headers.push_known("vary", "accept");
    }
}

fn read(file: &Path) -> std::io::Result<Bytes> {
    let mut page = Vec::new();
    File::open(file)?
        .take(PAGE_BYTES_MAX + 1)
        .read_to_end(&mut page)?;
    if page.len() as u64 > PAGE_BYTES_MAX {
        let message = format!("it has more than {PAGE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    Ok(page.into())
}
