//! A listener as the engine is told of it: a descriptor, and what is spoken on its connections.
//!
//! Knows: kinds of listeners. Does not know: who accepts, or what a connection says.

use reactor::Address;
use reactor::sys::ListenerFd;
use wire::gateway::Gateway;
use wire::proxy::Versions;
use wire::{Peer, Trust};

use crate::preface::NewPreface;
use crate::proxy;

/// What a connection speaks once its preface, if there is one, is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
    /// A web server's variables, one request a connection.
    Gateway(Gateway),
    /// The same in records, one request after the other.
    FastCgi,
}

impl Protocol {
    /// A web server says in it whose request it is.
    pub fn speaks_for_others(self) -> bool {
        matches!(self, Self::Gateway(_) | Self::FastCgi)
    }
}

/// What is spoken on a listener's connections, from their first byte on.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub protocol: Protocol,
    /// What each connection begins with; none: with its protocol.
    pub preface: Option<NewPreface>,
    /// All of it is said within TLS.
    pub tls: bool,
}

impl Kind {
    pub const HTTP: Self = Self { protocol: Protocol::Http, preface: None, tls: false };

    /// The kind that an address names by its scheme, and by the versions of the PROXY protocol that it expects
    /// (`http?proxy=v2`).
    pub fn named(name: &str) -> Option<Self> {
        let (scheme, proxy) = match name.split_once("?proxy=") {
            Some((scheme, versions)) => (scheme, Some(Versions::parse(versions)?)),
            None => (name, None),
        };
        let protocol = match scheme {
            "http" | "https" => Protocol::Http,
            "h2c" => Protocol::Http2,
            "uwsgi" => Protocol::Gateway(Gateway::Uwsgi),
            "scgi" => Protocol::Gateway(Gateway::Scgi),
            "fastcgi" => Protocol::FastCgi,
            _ => return None,
        };
        Some(Self { protocol, preface: proxy.map(proxy::preface), tls: scheme == "https" })
    }

    /// The same where a client has agreed on this by ALPN (RFC 7301, RFC 9113 §3.2); none: it has offered nothing.
    #[must_use]
    pub fn agreed(self, name: Option<&[u8]>) -> Self {
        match (self.protocol, name) {
            (Protocol::Http, Some(b"h2")) => Self { protocol: Protocol::Http2, ..self },
            _ => self,
        }
    }
}

/// A listening descriptor, which somebody else keeps open, and its kind.
#[derive(Debug)]
pub struct Listener {
    pub fd: ListenerFd,
    pub kind: Kind,
}

impl From<ListenerFd> for Listener {
    /// One for HTTP.
    fn from(fd: ListenerFd) -> Self {
        Self { fd, kind: Kind::HTTP }
    }
}

/// What keeps heads of one sort of connection apart from those of another in the head cache: the lowest
/// bit says that the peer is trusted, the sixteen above it are the listener's number, which stands for
/// its kind. The rest is free.
pub fn variant(listener: u16, peer: &Address, trust: &Trust) -> u32 {
    u32::from(listener) << 1 | u32::from(is_among(peer, trust))
}

/// True when a peer is one of those.
pub fn is_among(peer: &Address, trust: &Trust) -> bool {
    trust.trusts(&match peer {
        Address::Ip(ip, port) => Peer::Ip(*ip, *port),
        Address::Unix => Peer::Unix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_has_agreed_on_is_spoken_where_http_is() {
        let agreed = |name: &str, alpn| Kind::named(name).expect("a kind").agreed(alpn).protocol;
        assert_eq!(agreed("http", Some(&b"h2"[..])), Protocol::Http2);
        assert_eq!(agreed("http", Some(b"http/1.1")), Protocol::Http);
        assert_eq!(agreed("http", None), Protocol::Http, "who offers nothing speaks HTTP/1");
        assert_eq!(agreed("fastcgi", Some(b"h2")), Protocol::FastCgi);
    }
}
