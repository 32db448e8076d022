//! Names that nobody else has.

/// 16 random bytes as hexadecimal digits; an error says why the system has none.
pub(crate) fn random() -> Result<String, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}
