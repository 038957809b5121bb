//! Who has sent a request, as far as its connection and whoever handed it on say.
//!
//! Knows: a request's connection. Does not know: what is made of it (`environ`, `scope`). On the thread that owns the
//! exchange.

use reactor::Address;
use wire::{Peer, Scheme};

use super::Exchange;
use crate::engine::Config;
use crate::mounted::{Asked, Mounted};
use crate::statistics;
use crate::tls::Encrypted;

impl Exchange {
    pub fn peer(&self) -> Address {
        self.downstream.peer()
    }

    /// What a load balancer has said of the client, where its connections begin with that.
    #[inline]
    pub fn proxied(&self) -> Option<&wire::proxy::Proxied> {
        self.downstream.proxied()
    }

    /// What is known of the client's TLS, where it speaks that with us.
    #[inline]
    pub fn tls(&self) -> Option<&Encrypted> {
        self.downstream.transport().tls()
    }

    /// What a web server has said of the request beside its head, where one hands its requests on.
    #[inline]
    pub fn given(&self) -> Option<&wire::gateway::Given> {
        self.downstream.given()
    }

    /// Its path, for whoever compares it with what is said of paths by hand.
    #[inline]
    pub fn asked<'a>(&'a self, mounted: &'a Mounted) -> Asked<'a> {
        Asked::Of(&self.head, self.given(), mounted)
    }

    /// Index of the listener that it came through.
    pub fn listener(&self) -> u16 {
        self.downstream.listener()
    }

    #[cold]
    pub(super) fn note_scheme(&self, config: &Config) {
        let said = wire::effective(&self.head, &self.from(), &config.trust);
        let scheme = said.ok().flatten().and_then(|said| said.scheme);
        let https = scheme.map_or(config.https || self.tls().is_some(), |scheme| scheme == Scheme::Https);
        statistics::comes_by(&self.head, https);
    }

    pub(super) fn from(&self) -> Peer {
        match self.peer() {
            Address::Ip(ip, port) => Peer::Ip(ip, port),
            Address::Unix => Peer::Unix,
        }
    }
}
