//! The path of a request as its application sees it: decoded, and what follows the place at which that is mounted.
//!
//! Knows: what the server was told of that place, and what a trusted proxy or a web server says of it. Does not know: what
//! is said of paths by hand, which is compared with it. Pure: whoever asks pays for it, and nobody asks where nothing is said.

use std::borrow::Cow;

use wire::gateway::Given;
use wire::mount::{path_info, stripped};
use wire::{Head, Trust, forwarded_prefix, percent_decoded};

/// Where applications are mounted.
#[derive(Debug, Clone)]
pub struct Mounted {
    /// What the server was told (`--script-name`), without a slash at its end.
    script_name: Vec<u8>,
    /// Which headers of trusted proxies are believed.
    trust: Trust,
}

impl Default for Mounted {
    fn default() -> Self {
        Self::new(Vec::new(), Trust::none())
    }
}

impl Mounted {
    pub fn new(script_name: Vec<u8>, trust: Trust) -> Self {
        Self { script_name, trust }
    }

    /// `PATH_INFO` of a request (PEP 3333), which is `path` without `root_path` of ASGI. `given`: what a web server says of it.
    fn path_of<'a>(&self, head: &'a Head, given: Option<&Given>) -> Cow<'a, [u8]> {
        if let Some(given) = given {
            return given.paths(&self.script_name, head.path()).path_info.into();
        }
        let is_trusted = head.block.variant & 1 == 1;
        let path = percent_decoded(head.path());
        match is_trusted.then(|| forwarded_prefix(head, &self.trust)).flatten() {
            None => self.below(path),
            // The proxy may have cut off both, its own prefix only, or nothing.
            Some(prefix) => match stripped(&path, &[prefix, &self.script_name].concat()) {
                Some(rest) => Cow::Owned(rest.to_vec()),
                None => self.below(path),
            },
        }
    }

    /// What of a decoded path is below the place that the server was told.
    fn below<'a>(&self, path: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
        if self.script_name.is_empty() {
            return path;
        }
        match path {
            Cow::Borrowed(path) => path_info(path, &self.script_name).into(),
            Cow::Owned(path) => Cow::Owned(path_info(&path, &self.script_name).to_vec()),
        }
    }
}

/// A path about which something may be said by hand. Nothing is decoded before somebody wants to know.
#[derive(Clone, Copy)]
pub enum Asked<'a> {
    /// As it was sent, to an application at the root.
    Sent(&'a [u8]),
    /// The same, of an application that is mounted where the server was told.
    Below(&'a [u8], &'a Mounted),
    /// A request's.
    Of(&'a Head, Option<&'a Given>, &'a Mounted),
}

impl<'a> Asked<'a> {
    /// As the application sees it.
    pub fn path(self) -> Cow<'a, [u8]> {
        match self {
            Asked::Sent(path) => percent_decoded(path),
            Asked::Below(path, mounted) => mounted.below(percent_decoded(path)),
            Asked::Of(head, given, mounted) => mounted.path_of(head, given),
        }
    }
}

impl<'a> From<&'a [u8]> for Asked<'a> {
    fn from(path: &'a [u8]) -> Self {
        Asked::Sent(path)
    }
}

impl<'a, const BYTES: usize> From<&'a [u8; BYTES]> for Asked<'a> {
    fn from(path: &'a [u8; BYTES]) -> Self {
        Asked::Sent(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, script_name: &str) -> String {
        let mounted = Mounted::new(script_name.into(), Trust::none());
        let path = Asked::Below(path.as_bytes(), &mounted).path();
        String::from_utf8_lossy(&path).into_owned()
    }

    #[test]
    fn what_follows_the_place_of_the_application_is_compared_whether_a_proxy_has_cut_it_off_or_not() {
        for (path, script_name, wanted) in [
            ("/shop/export", "/shop", "/export"),
            ("/export", "/shop", "/export"),
            ("/sho%70/%65xport", "/shop", "/export"),
            ("/shopping", "/shop", "/shopping"),
            ("/shop", "/shop", ""),
            ("/shop/shop/a", "/shop", "/shop/a"),
            ("/a%2f", "", "/a/"),
        ] {
            assert_eq!(seen(path, script_name), wanted, "{path}");
        }
    }
}
