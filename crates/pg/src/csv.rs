//! Rows as CSV lines (RFC 4180).

use crate::{Column, Row};

impl Row {
    /// Appends the row as a line, each value as the server writes it. Like the server's own `COPY`, null is written as
    /// nothing and an empty text as two quotes.
    pub fn write_csv(&self, out: &mut Vec<u8>) {
        for index in 0..self.len() {
            if index > 0 {
                out.push(b',');
            }
            if let Some(text) = self.text(index) {
                write_field(text, out);
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a line with the names of the columns.
pub fn write_csv_names(columns: &[Column], out: &mut Vec<u8>) {
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_field(column.name.as_bytes(), out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Quotes a field only if necessary (RFC 4180, 2.6 and 2.7), or if it is empty.
fn write_field(text: &[u8], out: &mut Vec<u8>) {
    let is_plain = !text.is_empty()
        && !text
            .iter()
            .any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n'));
    if is_plain {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::write_field;

    #[test]
    fn what_would_end_a_field_is_quoted() {
        for (text, field) in [
            ("a b", "a b"),
            ("", "\"\""),
            ("a,b", "\"a,b\""),
            ("say \"a\"", "\"say \"\"a\"\"\""),
            ("a\r\nb", "\"a\r\nb\""),
            (";'", ";'"),
        ] {
            let mut out = Vec::new();
            write_field(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), field, "{text}");
        }
    }
}
