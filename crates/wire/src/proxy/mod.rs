//! The PROXY protocol, versions 1 and 2 ("The PROXY protocol", W. Tarreau, haproxy.org): who speaks
//! through a load balancer, told once, in front of everything else.
//!
//! Knows: the header. Does not know: which peers may send one, or what follows it. Used by whoever
//! owns the connection; time is an argument.
//!
//! ```text
//!   HEADER ──(complete)──► what follows is the connection's own protocol
//!     └────(fault)───────► FAILED, for good
//! ```
//!
//! A header is judged as it arrives, in the order of its bytes, so that it does not matter how they are cut. What
//! is expected is told by the listener and never guessed: a header that is taken for a request, or a request that
//! is taken for a header, would let a client choose its address.

mod v1;
mod v2;

pub(crate) use v2::SIGNATURE;

use std::net::SocketAddr;

use crate::Millis;
use crate::fault::{self, Fault};
use crate::limits::Limits;

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

/// What the input meant.
#[derive(Debug, PartialEq, Eq)]
pub enum ProxyEvent {
    /// All of it was consumed.
    NeedMore,
    /// The header is complete; what is left of the input follows it.
    Header(Box<Proxied>),
    /// This is no header that may stand here; nothing more will be.
    Fault(Fault),
}

/// What a part of a header shows.
enum Found {
    Incomplete,
    /// So many bytes of the input are the header.
    Complete(usize, Proxied),
}

/// The reader of one connection's header.
#[derive(Debug)]
pub struct ProxyReader {
    versions: Versions,
    /// What has arrived of it.
    bytes: Vec<u8>,
    fault: Option<Fault>,
    since: Millis,
}

impl ProxyReader {
    pub fn new(versions: Versions, now: Millis) -> Self {
        Self { versions, bytes: Vec::new(), fault: None, since: now }
    }

    /// Consumes from the front of the input, as far as the header goes. `most`: bytes that a header of version 2
    /// may have; one of version 1 has [`V1_BYTES`] at most.
    pub fn advance(&mut self, input: &mut &[u8], most: usize) -> ProxyEvent {
        if let Some(fault) = self.fault {
            return ProxyEvent::Fault(fault);
        }
        let before = self.bytes.len();
        // Nothing that is beyond both bounds can belong to it.
        let taken = input.len().min(most.max(V1_BYTES + 1).saturating_sub(before));
        self.bytes.extend_from_slice(&input[..taken]);
        match self.look(most) {
            Ok(Found::Incomplete) => {
                *input = &input[taken..];
                ProxyEvent::NeedMore
            }
            Ok(Found::Complete(length, proxied)) => {
                *input = &input[length - before..];
                self.bytes = Vec::new();
                ProxyEvent::Header(Box::new(proxied))
            }
            Err(fault) => {
                self.fault = Some(fault);
                ProxyEvent::Fault(fault)
            }
        }
    }

    fn look(&self, most: usize) -> Result<Found, Fault> {
        let bytes = &self.bytes[..];
        let Some(first) = bytes.first() else { return Ok(Found::Incomplete) };
        match (first, self.versions) {
            (b'P', Versions::V1 | Versions::Any) => v1::read(bytes),
            (b'\r', Versions::V2 | Versions::Any) => v2::read(bytes, most),
            _ => Err(fault::PROXY_EXPECTED),
        }
    }

    /// What has arrived so far: for the log line that says what it looks like ([`crate::sniff`]).
    pub fn seen(&self) -> &[u8] {
        &self.bytes
    }

    /// Which versions it expects.
    pub fn versions(&self) -> Versions {
        self.versions
    }

    /// The peer has ended. A fault if that was in the middle of the header; before its first byte it is how
    /// monitors ask whether a port is open.
    pub fn eof(&mut self) -> Option<Fault> {
        if self.fault.is_none() && !self.bytes.is_empty() {
            self.fault = Some(fault::INCOMPLETE);
        }
        self.fault
    }

    /// When its patience ends: a header is one packet, and no byte extends its time.
    pub fn deadline(&self, limits: &Limits) -> Option<Millis> {
        self.fault.is_none().then(|| self.since.saturating_add(limits.header_timeout))
    }
}
