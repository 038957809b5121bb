//! The fields that both sides know from the beginning (RFC 7541 appendix A).

/// A name and a value.
pub type Pair = (&'static [u8], &'static [u8]);

/// In the order of their numbers, which begin with 1.
#[rustfmt::skip]
pub static FIELDS: [Pair; 61] = [
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-language", b""),
    (b"accept-ranges", b""),
    (b"accept", b""),
    (b"access-control-allow-origin", b""),
    (b"age", b""),
    (b"allow", b""),
    (b"authorization", b""),
    (b"cache-control", b""),
    (b"content-disposition", b""),
    (b"content-encoding", b""),
    (b"content-language", b""),
    (b"content-length", b""),
    (b"content-location", b""),
    (b"content-range", b""),
    (b"content-type", b""),
    (b"cookie", b""),
    (b"date", b""),
    (b"etag", b""),
    (b"expect", b""),
    (b"expires", b""),
    (b"from", b""),
    (b"host", b""),
    (b"if-match", b""),
    (b"if-modified-since", b""),
    (b"if-none-match", b""),
    (b"if-range", b""),
    (b"if-unmodified-since", b""),
    (b"last-modified", b""),
    (b"link", b""),
    (b"location", b""),
    (b"max-forwards", b""),
    (b"proxy-authenticate", b""),
    (b"proxy-authorization", b""),
    (b"range", b""),
    (b"referer", b""),
    (b"refresh", b""),
    (b"retry-after", b""),
    (b"server", b""),
    (b"set-cookie", b""),
    (b"strict-transport-security", b""),
    (b"transfer-encoding", b""),
    (b"user-agent", b""),
    (b"vary", b""),
    (b"via", b""),
    (b"www-authenticate", b""),
];

/// The place of `:status` with the first of the values that stand there.
pub const STATUS: usize = 8;

/// The first number of a name that is in lower case.
pub fn number_of(name: &[u8]) -> Option<usize> {
    // Few are of one length: most names end here without a comparison.
    let first = *BY_LENGTH.get(name.len())?;
    FIELDS.iter().skip(first).position(|field| field.0 == name).map(|place| first + place + 1)
}

/// From where on names of a length stand; behind all of them where there is none.
static BY_LENGTH: [usize; 28] = {
    let mut places = [FIELDS.len(); 28];
    let mut place = FIELDS.len();
    while place > 0 {
        place -= 1;
        places[FIELDS[place].0.len()] = place;
    }
    places
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_first_number() {
        for (place, (name, _)) in FIELDS.iter().enumerate() {
            let first = FIELDS.iter().position(|field| field.0 == *name).expect("itself");
            assert_eq!(number_of(name), Some(first + 1), "{place}");
        }
        for name in
            [&b""[..], b"x", b"Date", b"strict-transport-securita", b"a-name-that-is-longer-than-all-of-them"]
        {
            assert_eq!(number_of(name), None);
        }
        assert_eq!(FIELDS[STATUS - 1], (&b":status"[..], &b"200"[..]));
    }
}
