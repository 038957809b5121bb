//! Where the application is and what it is asked for, from what web servers say of it.
//!
//! Knows: SCRIPT_NAME and PATH_INFO (RFC 3875 §4.1.13, §4.1.5), and how web servers differ in them. Does not know:
//! which web server speaks: what it says is judged by the path that the client has asked for. Pure.
//!
//! Both together are the path of the request, once, without escapes. A web server may also have changed the path: then
//! they are what it says, as nothing else is known.

use super::given::Given;
use crate::mount::stripped;

/// Where the application is, and what it is asked for, both decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct Paths {
    pub script_name: Vec<u8>,
    pub path_info: Vec<u8>,
}

impl Paths {
    fn new(script_name: &[u8], path_info: &[u8]) -> Self {
        Self { script_name: script_name.into(), path_info: path_info.into() }
    }
}

impl Given {
    /// SCRIPT_NAME and PATH_INFO. `prefix`: where the application is, if the server was told; `path`: the request's
    /// own, still encoded.
    ///
    /// A PATH_INFO that is given holds: the web server may have rewritten it. nginx's `fastcgi_params` and
    /// `scgi_params` have none, and Apache's mod_proxy_fcgi the whole path as SCRIPT_NAME, which is right for files of
    /// PHP alone: then both follow from the path. Where somebody has added `PATH_INFO $fastcgi_script_name` to
    /// `fastcgi_params`, as for flup, both are the path, of every request: that is no place either, and no client's choice.
    pub fn paths(&self, prefix: &[u8], path: &[u8]) -> Paths {
        let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
        let whole = decode(path);
        let Some(info) = self.get("PATH_INFO") else {
            return match stripped(&whole, prefix) {
                Some(rest) => Paths::new(prefix, rest),
                None => Paths::new(b"", &whole),
            };
        };
        let script = self.get("SCRIPT_NAME").unwrap_or_default();
        let found = if self.known.script_is_path && script == info {
            Paths::new(b"", info)
        } else {
            agreed(script, info, &whole)
                .or_else(|| agreed(script, info, &normalised(&whole)?))
                .unwrap_or_else(|| Paths::new(without_slash(script), info))
        };
        if prefix.is_empty() || !found.script_name.is_empty() {
            return found;
        }
        // The server's own prefix is cut off, unless the web server has done it without saying so.
        if whole.strip_prefix(prefix) == Some(info) {
            return Paths::new(prefix, info);
        }
        match stripped(&found.path_info, prefix) {
            Some(rest) => Paths::new(prefix, rest),
            None => found,
        }
    }
}

/// What a web server means by SCRIPT_NAME and PATH_INFO, if that is the path which the client has asked for. Nothing
/// is taken for a place that the web server has not named as part of one: a client could choose it.
fn agreed(script: &[u8], info: &[u8], whole: &[u8]) -> Option<Paths> {
    // Apache's mod_proxy_uwsgi leaves the slash of `/app/` at both (uwsgi#1549).
    let script = without_slash(script);
    if whole.strip_prefix(script) == Some(info) {
        return Some(Paths::new(script, info));
    }
    // nginx's `uwsgi_params` leave in PATH_INFO what SCRIPT_NAME has.
    if let Some(rest) = stripped(info, script).filter(|_| info == whole) {
        return Some(Paths::new(script, rest));
    }
    // The mount point itself, for which mod_proxy_uwsgi says `/` though nobody has asked for that.
    if info == b"/" && script == whole {
        return Some(Paths::new(script, b""));
    }
    // Apache's mod_proxy_scgi, and mod_proxy_fcgi where it says PATH_INFO, leave its escapes. What of the decoded path
    // is SCRIPT_NAME they find by comparing the two from the end, and so take what has escapes for a part of it.
    let plain = decode(info);
    if whole.strip_prefix(script) == Some(&plain[..]) {
        return Some(Paths::new(script, &plain));
    }
    let reach = |script: &[u8]| stripped(whole, script).map(|rest| whole.len() - rest.len());
    let reaches = reach(script).or_else(|| reach(&decode(script)));
    if let (Some(place), Some(reaches)) = (whole.strip_suffix(&plain[..]), reaches)
        && plain.starts_with(b"/")
        && reaches > place.len()
        && !place.starts_with(b"//")
    {
        return Some(Paths::new(without_slash(place), &plain));
    }
    // The whole path as SCRIPT_NAME is no place.
    (script == whole && !script.is_empty()).then(|| Paths::new(b"", info))
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// A decoded path as web servers tidy it: without empty segments and dots. None where it is that already.
fn normalised(path: &[u8]) -> Option<Vec<u8>> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            b".." => drop(kept.pop()),
            b"" | b"." => {}
            _ => kept.push(segment),
        }
        // What ends in a slash or dots is a folder, and keeps its slash.
        if is_last && matches!(segment, b"" | b"." | b"..") {
            kept.push(b"");
        }
    }
    let tidy = [&b"/"[..], &kept.join(&b'/')].concat();
    (tidy != path).then_some(tidy)
}

/// Undoes percent-encoding; what is none stays as it is.
fn decode(path: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, tail @ ..] = rest {
        if let (b'%', [high, low, after @ ..]) = (byte, tail)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            out.push(high << 4 | low);
            rest = after;
        } else {
            out.push(*byte);
            rest = tail;
        }
    }
    out
}
