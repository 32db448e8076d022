//! Random identifiers.

/// Returns 16 random bytes as hexadecimal digits. Fails if the system's random source does.
pub(crate) fn random() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}
