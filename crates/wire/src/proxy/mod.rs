//! The PROXY protocol, versions 1 and 2 ("The PROXY protocol", W. Tarreau, haproxy.org): who speaks
//! through a load balancer, told once, in front of everything else.
//!
//! Knows: the header. Does not know: which peers may send one, what follows it, or time. Pure.
//!
//! A header is judged as it arrives, in the order of its bytes, so that it does not matter how they are cut. What
//! is expected is told by the listener and never guessed: a header that is taken for a request, or a request that
//! is taken for a header, would let a client choose its address.

mod v1;
mod v2;

pub(crate) use v2::SIGNATURE;

use std::net::SocketAddr;

use crate::fault::{self, Fault};

/// The longest header of version 1, its CR LF included (§2.1): the specification's own bound.
pub const V1_BYTES: usize = 107;

/// Which versions a listener expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    V1,
    V2,
    Any,
}

impl Versions {
    /// From `v1`, `v2` or `any`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1" => Some(Self::V1),
            "v2" => Some(Self::V2),
            "any" => Some(Self::Any),
            _ => None,
        }
    }

    /// As a log line names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "a PROXY v1 header",
            Self::V2 => "a PROXY v2 header",
            Self::Any => "a PROXY header",
        }
    }
}

/// What a header has told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxied {
    /// The client, and the address that it has connected to. None: those of the socket hold (LOCAL, UNKNOWN, UNSPEC,
    /// datagrams, unix sockets of another machine).
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// PP2_TYPE_UNIQUE_ID: what the load balancer calls this connection; at most 128 bytes.
    pub unique_id: Option<Box<[u8]>>,
    /// PP2_TYPE_AUTHORITY: the name that the client has asked for in its TLS handshake.
    pub authority: Option<Box<[u8]>>,
    /// PP2_TYPE_SSL: the client's TLS, which has ended at the load balancer.
    pub tls: Option<Box<ProxyTls>>,
    /// PP2_TYPE_AWS (0xEA): the VPC endpoint that the client has come through.
    pub vpc_endpoint: Option<Box<[u8]>>,
}

/// What a load balancer says of its client's TLS (§2.2.5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyTls {
    /// The client has connected over TLS.
    pub used: bool,
    /// It has shown a certificate over this connection, ...
    pub certificate_on_connection: bool,
    /// ... or in this session.
    pub certificate_in_session: bool,
    /// The certificate was verified. Without one there is nothing that could be.
    pub verified: bool,
    pub version: Option<Box<[u8]>>,
    /// The certificate's common name, UTF-8.
    pub common_name: Option<Box<[u8]>>,
    pub cipher: Option<Box<[u8]>>,
}

impl Proxied {
    /// It says more than that the socket's addresses hold.
    pub fn tells(&self) -> bool {
        *self != Self::default()
    }

    /// The client has come over TLS, which has ended at the load balancer.
    pub fn was_encrypted(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.used)
    }
}

impl ProxyTls {
    /// The client has shown a certificate.
    pub fn has_certificate(&self) -> bool {
        self.certificate_on_connection || self.certificate_in_session
    }
}

/// What the bytes so far show.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Incomplete,
    /// So many of them are the header.
    Complete(usize, Proxied),
}

/// Reads a header from its beginning. `most`: bytes that one of version 2 may have; one of version 1 has [`V1_BYTES`]
/// at most. What is found in some of the bytes holds for all of them.
///
/// # Errors
/// The refusal for the first byte that cannot be part of a header that is expected here.
pub fn read(bytes: &[u8], versions: Versions, most: usize) -> Result<Found, Fault> {
    match (bytes.first(), versions) {
        (None, _) => Ok(Found::Incomplete),
        (Some(b'P'), Versions::V1 | Versions::Any) => v1::read(bytes),
        (Some(b'\r'), Versions::V2 | Versions::Any) => v2::read(bytes, most),
        _ => Err(fault::PROXY_EXPECTED),
    }
}
