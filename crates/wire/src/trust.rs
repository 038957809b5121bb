//! Which peers are trusted proxies, and with which headers they are believed.
//!
//! Knows: addresses, networks, the names of forwarding headers. Does not know: what these headers
//! say (`forwarded.rs`). Pure.

use std::fmt;
use std::net::IpAddr;

/// A peer, as far as trust is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Ip(IpAddr, u16),
    Unix,
}

/// Which peers are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    pub(crate) all: bool,
    unix: bool,
    networks: Vec<(IpAddr, u8)>,
    /// What the proxies do not set comes from clients, and is not believed.
    ignored: Option<Family>,
}

/// The two families of forwarding headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// RFC 7239.
    Forwarded,
    /// X-Forwarded-*, X-Real-IP.
    XForwarded,
}

/// What is wrong with a list of trusted peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTrust(String);

impl fmt::Display for BadTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no address, no network such as 10.0.0.0/8, and neither 'unix' nor '*'", self.0)
    }
}

impl std::error::Error for BadTrust {}

impl Trust {
    /// Nobody's.
    pub fn none() -> Self {
        Self::default()
    }

    /// A list of addresses, networks, `unix` and `*`, with commas or blanks between.
    ///
    /// # Errors
    /// [`BadTrust`] names the first member that is none of these.
    pub fn parse(text: &str) -> Result<Self, BadTrust> {
        let mut trust = Self::default();
        for member in text.split([',', ' ']).filter(|member| !member.is_empty()) {
            match member {
                "*" => trust.all = true,
                "unix" => trust.unix = true,
                _ => trust.networks.push(network(member).ok_or_else(|| BadTrust(member.to_string()))?),
            }
        }
        Ok(trust)
    }

    /// The same, believing only one family: a proxy that sets one lets a client's own of the
    /// other through.
    #[must_use]
    pub fn only(mut self, family: Family) -> Self {
        self.ignored = Some(match family {
            Family::Forwarded => Family::XForwarded,
            Family::XForwarded => Family::Forwarded,
        });
        self
    }

    /// Of a trusted proxy this header is believed.
    pub(crate) fn accepts(&self, kind: Forwarding) -> bool {
        self.ignored != Some(kind.family())
    }

    /// Does a header of a peer reach the application? Forwarding headers do where nobody is
    /// trusted at all, and where this peer is trusted with their family.
    pub fn lets_through(&self, name: &[u8], trusted: bool) -> bool {
        match Forwarding::of(name) {
            Some(kind) if !self.is_none() => trusted && self.accepts(kind),
            _ => true,
        }
    }

    /// True where nobody is trusted: forwarding headers then are headers like others.
    pub fn is_none(&self) -> bool {
        *self == Self { ignored: self.ignored, ..Self::default() }
    }

    pub fn trusts(&self, peer: &Peer) -> bool {
        self.all
            || match peer {
                Peer::Unix => self.unix,
                Peer::Ip(ip, _) => self.has(*ip),
            }
    }

    /// True for a trusted proxy's address.
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.all || self.networks.iter().any(|&(network, bits)| within(ip, network, bits))
    }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) if bits.bytes().all(|byte| byte.is_ascii_digit()) => (address, Some(bits)),
        Some(_) => return None,
        None => (text, None),
    };
    let address = address.trim_matches(['[', ']']).parse::<IpAddr>().ok()?.to_canonical();
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

fn within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            u32::from(ip) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            u128::from(ip) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

/// A header by which a proxy speaks of its client. From anyone else it must not get through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forwarding {
    Standard,
    For,
    Proto,
    Host,
    Port,
    Prefix,
    Ssl,
    Protocol,
    Scheme,
    RealIp,
    By,
}

impl Forwarding {
    /// How many there are.
    pub(crate) const KINDS: usize = 11;

    const NAMES: [(&str, Self); Self::KINDS] = [
        ("forwarded", Self::Standard),
        ("x-forwarded-for", Self::For),
        ("x-forwarded-proto", Self::Proto),
        ("x-forwarded-host", Self::Host),
        ("x-forwarded-port", Self::Port),
        ("x-forwarded-prefix", Self::Prefix),
        ("x-forwarded-ssl", Self::Ssl),
        ("x-forwarded-protocol", Self::Protocol),
        ("x-forwarded-scheme", Self::Scheme),
        ("x-real-ip", Self::RealIp),
        ("x-forwarded-by", Self::By),
    ];

    /// Which one a name means, in whatever case; none: it is a header like others.
    #[inline]
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        if !matches!(name.first(), Some(b'f' | b'F' | b'x' | b'X')) {
            return None;
        }
        // Nearly all names are told apart by their length.
        let is = |known: &str| known.len() == name.len() && name.eq_ignore_ascii_case(known.as_bytes());
        Self::NAMES.iter().find(|(known, _)| is(known)).map(|&(_, kind)| kind)
    }

    fn family(self) -> Family {
        if self == Self::Standard { Family::Forwarded } else { Family::XForwarded }
    }
}
