//! Header compression (RFC 7541). Blocks that come are read with the whole of it; blocks that go use the static table only, so that
//! the same request is always the same bytes.

use std::collections::VecDeque;

use super::huffman;

/// Largest dynamic table that the other side may use: the default, which it is never asked to change.
const TABLE_BYTES_MAX: usize = 4096;
/// What an entry of the table counts besides its octets (RFC 7541, 4.1).
const ENTRY_BYTES: usize = 32;

/// Entries 1 to 61 (RFC 7541, appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[derive(Debug)]
struct Entry {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Entry {
    fn size(&self) -> usize {
        self.name.len() + self.value.len() + ENTRY_BYTES
    }
}

/// Reads the header blocks of one connection, in their order.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The newest first.
    table: VecDeque<Entry>,
    size: usize,
    /// What the other side has limited itself to.
    limit: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            table: VecDeque::new(),
            size: 0,
            limit: TABLE_BYTES_MAX,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Hands out the fields of a block. `None`: it is no such block, and no later one can be read.
    pub(super) fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Option<()> {
        let mut rest = block;
        let mut begun = false;
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let limit = integer(&mut rest, 5)?;
                if begun || limit > TABLE_BYTES_MAX {
                    return None;
                }
                self.limit = limit;
                self.evict(0);
                continue;
            }
            begun = true;
            if first & 0x80 != 0 {
                let at = integer(&mut rest, 7)?;
                let (name, value) = Self::entry(&self.table, at)?;
                field(name, value);
                continue;
            }
            let indexed = first & 0xc0 == 0x40;
            let at = integer(&mut rest, if indexed { 6 } else { 4 })?;
            self.name.clear();
            self.value.clear();
            if at == 0 {
                string(&mut rest, &mut self.name)?;
            } else {
                let (name, _) = Self::entry(&self.table, at)?;
                self.name.extend_from_slice(name);
            }
            string(&mut rest, &mut self.value)?;
            field(&self.name, &self.value);
            if indexed {
                self.insert();
            }
        }
        Some(())
    }

    fn entry(table: &VecDeque<Entry>, at: usize) -> Option<(&[u8], &[u8])> {
        let at = at.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(at) {
            return Some((name.as_bytes(), value.as_bytes()));
        }
        table
            .get(at - STATIC.len())
            .map(|entry| (&*entry.name, &*entry.value))
    }

    fn insert(&mut self) {
        let entry = Entry {
            name: self.name.as_slice().into(),
            value: self.value.as_slice().into(),
        };
        let size = entry.size();
        self.evict(size);
        // One that is larger than the table only empties it (RFC 7541, 4.4).
        if size <= self.limit {
            self.size += size;
            self.table.push_front(entry);
        }
    }

    fn evict(&mut self, room: usize) {
        while self.size + room > self.limit
            && let Some(entry) = self.table.pop_back()
        {
            self.size -= entry.size();
        }
    }
}

/// Reads an integer whose first octet has so many bits of it (RFC 7541, 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Option<usize> {
    let (&first, mut after) = rest.split_first()?;
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, next) = after.split_first()?;
            after = next;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 21 {
                return None;
            }
        }
    }
    *rest = after;
    Some(value)
}

fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Option<()> {
    let coded = rest.first()? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let text = rest.get(..length)?;
    *rest = &rest[length..];
    if coded {
        return huffman::decode(text, out);
    }
    out.extend_from_slice(text);
    Some(())
}

/// Appends a field to a block.
pub(super) fn encode(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut named = None;
    for (at, (known, its)) in STATIC.iter().enumerate() {
        if known.as_bytes() == name {
            if its.as_bytes() == value && !value.is_empty() {
                put_integer(out, 0x80, 7, at + 1);
                return;
            }
            named = named.or(Some(at + 1));
        }
    }
    put_integer(out, 0x00, 4, named.unwrap_or(0));
    if named.is_none() {
        put_integer(out, 0x00, 7, name.len());
        out.extend_from_slice(name);
    }
    put_integer(out, 0x00, 7, value.len());
    out.extend_from_slice(value);
}

fn put_integer(out: &mut Vec<u8>, flags: u8, bits: u32, value: usize) {
    let mask = (1_usize << bits) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut left = value - mask;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        decoder.decode(block, |name, value| {
            fields.push(format!(
                "{}: {}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            ));
        })?;
        Some(fields)
    }

    /// RFC 7541, C.6: three answers with Huffman coding and a table of 256 octets.
    #[test]
    fn the_answers_of_the_rfc_are_read() {
        let mut decoder = Decoder::new();
        let first = "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
        let expected = [
            ":status: 302",
            "cache-control: private",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "location: https://www.example.com",
        ];
        assert_eq!(fields(&mut decoder, &hex(first)).unwrap(), expected);
        assert_eq!((decoder.table.len(), decoder.size), (4, 222));
        let second = fields(&mut decoder, &hex("4883 640e ffc1 c0bf")).unwrap();
        assert_eq!(second[0], ":status: 307");
        assert_eq!(second[1..], expected[1..]);
        let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
        let third = fields(&mut decoder, &hex(third)).unwrap();
        assert_eq!(third[0], ":status: 200");
        assert_eq!(third[2], "date: Mon, 21 Oct 2013 20:13:22 GMT");
        assert_eq!(
            third[5],
            "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
        );
        assert_eq!((decoder.table.len(), decoder.size), (3, 215));
    }

    #[test]
    fn what_is_encoded_is_read_as_it_was() {
        let long = "x".repeat(5000);
        let given = [
            (":method", "GET"),
            (":path", "/a?b"),
            ("content-type", "text/plain"),
            ("x-own", long.as_str()),
            ("empty", ""),
        ];
        let mut block = Vec::new();
        for (name, value) in given {
            encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        let expected: Vec<_> = given
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(fields(&mut Decoder::new(), &block).unwrap(), expected);
    }

    #[test]
    fn broken_blocks_are_refused() {
        for block in [
            "80",            // index 0
            "be",            // an entry that is not there
            "ffffffffff7f",  // a huge index
            "0005",          // a name that ends early
            "000161",        // no value
            "3fe21f",        // a table larger than allowed
            "8820",          // a change of the table's size after a field
            "0001 61 81 00", // Huffman padding of zeros
        ] {
            assert_eq!(fields(&mut Decoder::new(), &hex(block)), None, "{block}");
        }
    }

    #[test]
    fn the_table_keeps_to_its_size() {
        let mut decoder = Decoder::new();
        for at in 0..1000 {
            let mut block = vec![0x40, 1, b'n', 4];
            block.extend_from_slice(format!("{at:04}").as_bytes());
            fields(&mut decoder, &block).unwrap();
            assert!(decoder.size <= TABLE_BYTES_MAX);
            assert_eq!(decoder.size, decoder.table.iter().map(Entry::size).sum::<usize>());
        }
        assert_eq!(fields(&mut decoder, &hex("20")).unwrap(), Vec::<String>::new());
        assert!(decoder.table.is_empty() && decoder.size == 0);
    }
}
