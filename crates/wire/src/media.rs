//! The media type of a file, by what its name ends in (RFC 9110 §8.3).
//!
//! Knows: a table of what web sites consist of. Does not know: content, of which nothing is guessed. Pure.

/// What has an ending that is not in the table: a browser saves it, and with `nosniff` runs nothing of it.
pub const UNKNOWN: &str = "application/octet-stream";

/// The longest ending of the table.
const ENDING_BYTES: usize = 11;

/// The type of a file's name or path: `css/a.CSS` is `text/css; charset=utf-8`. The case does not matter; a name that
/// consists of an ending has none.
pub fn type_of(name: &[u8]) -> &'static str {
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', name).filter(|&dot| dot > 0) else { return UNKNOWN };
    let ending = &name[dot + 1..];
    let mut lower = [0; ENDING_BYTES];
    let Some(lower) = lower.get_mut(..ending.len()) else { return UNKNOWN };
    lower.copy_from_slice(ending);
    lower.make_ascii_lowercase();
    let row = TYPES.binary_search_by(|(known, _)| known.as_bytes().cmp(lower));
    row.map_or(UNKNOWN, |row| TYPES[row].1)
}

/// In the order of the endings. Types are the registered ones (IANA, RFC 9239 for JavaScript); texts are UTF-8, as
/// everything that is written for the Web since its beginning is by now.
const TYPES: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("br", "application/octet-stream"),
    ("bz2", "application/x-bzip2"),
    ("cjs", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("markdown", "text/markdown; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("whl", "application/zip"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xsl", "application/xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_its_endings_are_small_and_fit() {
        assert!(TYPES.is_sorted_by(|one, next| one.0 < next.0), "each once, in order");
        assert_eq!(TYPES.iter().map(|(ending, _)| ending.len()).max(), Some(ENDING_BYTES));
        for (ending, kind) in TYPES {
            assert_eq!(*ending, ending.to_ascii_lowercase());
            assert_eq!(type_of(format!("a.{ending}").as_bytes()), *kind);
            assert_eq!(
                kind.starts_with("text/"),
                kind.contains("charset"),
                "texts say what they are written in: {kind}"
            );
        }
    }

    #[test]
    fn a_type_follows_from_the_last_ending_in_whatever_case() {
        for (name, kind) in [
            ("a.css", "text/css; charset=utf-8"),
            ("static/a.min.JS", "text/javascript; charset=utf-8"),
            ("a.tar.gz", "application/gzip"),
            ("a.WEBMANIFEST", "application/manifest+json"),
            ("a.webmanifests", UNKNOWN),
            ("a.cs", UNKNOWN),
            ("a.", UNKNOWN),
            ("a", UNKNOWN),
            ("", UNKNOWN),
            (".css", UNKNOWN),
            ("a.css/b", UNKNOWN),
            ("a.css/", UNKNOWN),
        ] {
            assert_eq!(type_of(name.as_bytes()), kind, "{name}");
        }
    }
}
