//! The PROXY protocol as a preface: a load balancer says for whom a connection speaks.
//!
//! Knows: which versions a listener expects, and how long a header may be. Does not know: the header (`wire::proxy`
//! does), who may send one (`accept.rs`), the connection. Pure.

use reactor::Address;
use wire::Limits;
use wire::proxy::{Found, V1_BYTES, Versions, read};

use crate::preface::{NewPreface, Preface, Verdict};

struct ProxyHeader {
    versions: Versions,
    /// Bytes that a header of version 2 may have.
    most: usize,
}

impl Preface for ProxyHeader {
    fn most(&self) -> usize {
        match self.versions {
            Versions::V1 => V1_BYTES,
            Versions::V2 => self.most,
            Versions::Any => self.most.max(V1_BYTES),
        }
    }

    fn expects(&self) -> &'static str {
        self.versions.name()
    }

    fn judge(&mut self, bytes: &[u8]) -> Verdict {
        match read(bytes, self.versions, self.most) {
            Ok(Found::Incomplete) => Verdict::More,
            Ok(Found::Complete(length, proxied)) => {
                let peer = proxied.addresses.map(|(client, _)| Address::Ip(client.ip(), client.port()));
                Verdict::Over { length, peer, proxied: Some(Box::new(proxied)).filter(|told| told.tells()) }
            }
            Err(fault) => Verdict::Refused(fault),
        }
    }
}

fn header(versions: Versions, limits: &Limits) -> Box<dyn Preface> {
    let most = usize::try_from(limits.proxy_header_bytes).unwrap_or(usize::MAX);
    Box::new(ProxyHeader { versions, most })
}

/// The preface of listeners that expect such versions.
pub fn preface(versions: Versions) -> NewPreface {
    match versions {
        Versions::V1 => |limits| header(Versions::V1, limits),
        Versions::V2 => |limits| header(Versions::V2, limits),
        Versions::Any => |limits| header(Versions::Any, limits),
    }
}
