//! The account with which certificates are ordered.

use std::{collections::BTreeMap, fs, io};

use forebay_tls::{authorities, system_authorities};
use instant_acme::{Account, AccountCredentials, NewAccount};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Settings,
    error::OrderError,
    folder::{Folder, file_error, write},
    http::{Http, RetryAfter},
};

/// An account as it is stored.
#[derive(Clone, Deserialize, Serialize)]
struct Stored {
    contact: Option<String>,
    /// [`AccountCredentials`], which cannot be copied themselves.
    credentials: Value,
}

/// Opens the account at the authority, which is made if there is none. `is_new`: whatever is stored, because the authority does not know it.
pub(crate) async fn open(
    settings: &Settings,
    folder: Folder<'_>,
    retry_after: &RetryAfter,
    is_new: bool,
) -> Result<Account, OrderError> {
    let trusted = match &settings.directory_ca {
        Some(file) => authorities(file)?,
        None => system_authorities(),
    };
    let builder = Account::builder_with_http(Box::new(Http::new(trusted, retry_after)));
    let contact: Vec<&str> = settings.contact.as_deref().into_iter().collect();
    let mut accounts = read(folder)?;
    let known = accounts.get(&settings.directory).filter(|_| !is_new);
    let known = known.and_then(|known| Some((parse(&known.credentials)?, known.clone())));
    let (account, credentials) = match known {
        Some((credentials, known)) => {
            let account = builder.from_credentials(credentials).await?;
            if known.contact == settings.contact {
                return Ok(account);
            }
            account.update_contacts(&contact).await?;
            (account, known.credentials)
        }
        None => {
            let new = NewAccount {
                contact: &contact,
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let (account, credentials) = builder.create(&new, settings.directory.clone(), None).await?;
            let credentials = serde_json::to_value(credentials).expect("credentials are JSON");
            (account, credentials)
        }
    };
    let contact = settings.contact.clone();
    accounts.insert(settings.directory.clone(), Stored { contact, credentials });
    let text = serde_json::to_string_pretty(&accounts).expect("accounts are JSON");
    write(folder.accounts_file(), &text)?;
    Ok(account)
}

fn parse(credentials: &Value) -> Option<AccountCredentials> {
    serde_json::from_value(credentials.clone()).ok()
}

/// The accounts by the URLs of their directories.
fn read(folder: Folder<'_>) -> Result<BTreeMap<String, Stored>, OrderError> {
    let file = folder.accounts_file();
    match fs::read(&file) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(target: "forebay::acme", file = %file.display(), "the stored accounts cannot be used, so new ones are made: {error}");
            BTreeMap::new()
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(source) => Err(file_error(file, source)),
    }
}
