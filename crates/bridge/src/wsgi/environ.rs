//! `environ`: a copy of a dictionary that was built once for requests with the same head.
//!
//! Knows: which key comes from where (PEP 3333, "environ Variables"; RFC 3875 §4.1). Does not
//! know: what the application does with it. Runs on the thread that calls the application.
//!
//! Three layers of templates, each a copy of the one before with more keys set:
//! the gateway's (a listener and whether its peer is trusted), a header block's, a head's.
//! Only immutable values live in them. A request's own keys are set in its own copy.

use std::net::IpAddr;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use reactor::Address;
use server::engine::Engine;
use server::exchange::Exchange;
use wire::field_text::environ_key;
use wire::mount::{path_info, stripped};
use wire::proxy::Proxied;
use wire::{
    Block, Effective, Fault, Head, Limits, NameCache, Peer, Scheme, Trust, Version, effective,
    percent_decoded,
};

use super::early_hints::EarlyHints;
use super::given;
use super::proxied::{ServerStrings, introduce};
use super::secured;
use super::standing_hints::StandingHints;
use crate::ffi::{GilCell, ascii, copy_dict, latin1, set_item};
use crate::request_id::OwnKeys;

/// What is the same for every request of one listener.
pub struct Gateway {
    base: Py<PyDict>,
    own: OwnKeys,
    script_name: Vec<u8>,
    /// A trusted-proxy mode is on: forwarding headers of others do not get through.
    trust: Trust,
    /// Names of headers, and their keys: a browser's are always the same.
    names: GilCell<NameCache<Py<PyString>>>,
}

/// A dictionary that hangs on a head or on a block.
struct Template {
    // Before the dictionary, as it says itself.
    hints: StandingHints,
    dict: Py<PyDict>,
    /// The peer's address that stands in it already.
    address: Option<IpAddr>,
}

impl Template {
    /// What the next request like this one begins with.
    fn of(environ: &Bound<'_, PyDict>, exchange: &Exchange) -> PyResult<Self> {
        let address = match exchange.peer() {
            Address::Ip(ip, _) => Some(ip),
            Address::Unix => None,
        };
        Ok(Self { hints: StandingHints::default(), dict: copy_dict(environ)?.unbind(), address })
    }
}

impl Gateway {
    /// `base`: the keys that no request changes. `own`: those that each request sets.
    pub fn new(
        base: Bound<'_, PyDict>,
        own: OwnKeys,
        script_name: &str,
        trust: Trust,
        limits: &Limits,
    ) -> Self {
        Self {
            base: base.unbind(),
            own,
            script_name: script_name.as_bytes().to_vec(),
            trust,
            names: GilCell::new(NameCache::new(limits.cached_names)),
        }
    }

    /// The environ of a request: all keys but `wsgi.input` for bodies; and whether it is what another one like this begins with,
    /// but for the keys that each sets ([`Gateway::leave`]).
    ///
    /// # Errors
    /// Python's (memory), or a refusal where forwarding headers contradict each other.
    #[inline]
    pub fn environ<'py>(
        &self,
        py: Python<'py>,
        exchange: &Exchange,
        engine: &Engine,
        (peer, hints): (&mut PeerStrings, Option<&Bound<'py, EarlyHints>>),
    ) -> PyResult<Result<(Bound<'py, PyDict>, bool), Fault>> {
        let head = &*exchange.head;
        let trusted = head.block.variant & 1 == 1;
        let given = exchange.given();
        let template = match given {
            None => template_of(&head.attachment),
            // What a load balancer has said of its client goes below what the web server says.
            Some(given) if exchange.proxied().is_none() => template_of(given.attachment()),
            Some(_) => None,
        };
        let (environ, mut as_before) = match template {
            Some(template) => {
                let dict = template.dict.bind(py);
                let (environ, as_before) = match hints {
                    Some(hints) => template.hints.copy(dict, hints)?,
                    None => (template.hints.copy_without(dict)?, false),
                };
                let same = peer.set(&environ, exchange.peer(), template.address)?;
                (environ, as_before && same && given.is_none())
            }
            None => (self.build(py, exchange, trusted, peer)?, false),
        };
        // Not beside what is believed of a client's own TLS, which has ended at a load balancer.
        if let Some(tls) = exchange.tls()
            && !(engine.config.proxy_tls && exchange.proxied().is_some_and(Proxied::was_encrypted))
        {
            secured::introduce(&environ, tls)?;
            as_before = false;
        }
        if let Some(proxied) = exchange.proxied() {
            introduce(&environ, proxied, engine.config.proxy_tls, &mut peer.server)?;
            as_before = false;
        }
        if let Some(given) = given {
            if template.is_none() {
                given::introduce(&environ, given, head, &self.script_name)?;
                if exchange.proxied().is_none() && head.seen_before() {
                    let _ = given.attachment().set(Box::new(Template::of(&environ, exchange)?));
                }
            }
            given::introduce_client(&environ, given)?;
        }
        // Behind the making of templates, which know whose stand in them.
        if template.is_none()
            && let Some(hints) = hints
        {
            set_item(&environ, intern!(py, "wsgi.early_hints"), hints)?;
        }
        if trusted && head.block.has_forwarding() {
            as_before = false;
            let sender = match exchange.peer() {
                Address::Ip(ip, port) => Peer::Ip(ip, port),
                Address::Unix => Peer::Unix,
            };
            match effective(head, &sender, &engine.config.trust) {
                Ok(Some(found)) => self.forward(&environ, head, &found, peer)?,
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault)),
            }
        }
        Ok(Ok((environ, as_before)))
    }

    /// The environ of a request, as it was made, which nobody has kept: the next one like it begins with that.
    #[inline]
    pub fn leave(exchange: &Exchange, environ: Bound<'_, PyDict>, hints: &Bound<'_, EarlyHints>) {
        if let Some(template) = template_of(&exchange.head.attachment) {
            template.hints.leave(environ, hints);
        }
    }

    /// Builds what a template would hold, and leaves templates behind for the next time: of
    /// the block at once, of the whole head when it comes a second time.
    fn build<'py>(
        &self,
        py: Python<'py>,
        exchange: &Exchange,
        trusted: bool,
        peer: &mut PeerStrings,
    ) -> PyResult<Bound<'py, PyDict>> {
        let head = &*exchange.head;
        let environ = match template_of(&head.block.attachment) {
            Some(template) => copy_dict(template.dict.bind(py))?,
            None => {
                let dict = self.block(py, &head.block, trusted)?;
                let environ = copy_dict(&dict)?;
                let template =
                    Template { hints: StandingHints::default(), dict: dict.unbind(), address: None };
                let _ = head.block.attachment.set(Box::new(template));
                environ
            }
        };
        self.request_line(&environ, head)?;
        peer.set(&environ, exchange.peer(), None)?;
        if head.seen_before() {
            let _ = head.attachment.set(Box::new(Template::of(&environ, exchange)?));
        }
        Ok(environ)
    }

    /// The keys of a header block.
    fn block<'py>(&self, py: Python<'py>, block: &Block, trusted: bool) -> PyResult<Bound<'py, PyDict>> {
        let environ = copy_dict(self.base.bind(py))?;
        for (name, value) in block.fields() {
            if !self.trust.lets_through(name, trusted) {
                continue;
            }
            let Some(key) = self.key(py, name)? else { continue };
            let value = latin1(py, value)?;
            match environ.get_item(&key)? {
                None => set_item(&environ, &key, &value)?,
                Some(before) => {
                    // RFC 9110 §5.3: one list; cookies have a separator of their own
                    // (RFC 6265 §5.4).
                    let comma = if name.eq_ignore_ascii_case(b"cookie") { "; " } else { "," };
                    let joined = before.add(comma)?.add(value)?;
                    set_item(&environ, &key, &joined)?;
                }
            }
        }
        self.own.make_room(&environ, block)?;
        Ok(environ)
    }

    /// The key of a header: none for those that do not get through.
    fn key<'py>(&self, py: Python<'py>, name: &[u8]) -> PyResult<Option<Bound<'py, PyString>>> {
        let make = |name: &[u8]| match environ_key(name) {
            Some(key) => latin1(py, &key).map(Bound::unbind).map_err(Some),
            None => Err(None),
        };
        let found = match self.names.borrow(py) {
            Some(mut names) => names.with(name, make, |key| key.bind(py).clone()),
            None => make(name).map(|key| key.into_bound(py)),
        };
        match found {
            Ok(key) => Ok(Some(key)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// The keys of a request line.
    fn request_line(&self, environ: &Bound<'_, PyDict>, head: &Head) -> PyResult<()> {
        let py = environ.py();
        let set = |key: &Bound<'_, PyString>, bytes: &[u8]| set_item(environ, key, &latin1(py, bytes)?);
        set(intern!(py, "REQUEST_METHOD"), head.method())?;
        set(intern!(py, "QUERY_STRING"), head.query())?;
        set(intern!(py, "RAW_URI"), head.target())?;
        set(intern!(py, "REQUEST_URI"), head.target())?;
        let version = match head.version {
            Version::Http10 => intern!(py, "HTTP/1.0"),
            Version::Http11 => intern!(py, "HTTP/1.1"),
            Version::Http2 => intern!(py, "HTTP/2.0"),
        };
        set_item(environ, intern!(py, "SERVER_PROTOCOL"), version)?;
        let path = percent_decoded(head.path());
        set(intern!(py, "PATH_INFO"), path_info(&path, &self.script_name))?;
        // RFC 9112 §3.2.2: the target's authority takes the place of Host.
        if let Some(authority) = head.authority() {
            set(intern!(py, "HTTP_HOST"), authority)?;
        }
        Ok(())
    }

    /// What a trusted proxy says of the client.
    fn forward(
        &self,
        environ: &Bound<'_, PyDict>,
        head: &Head,
        found: &Effective,
        peer: &mut PeerStrings,
    ) -> PyResult<()> {
        let py = environ.py();
        let set = |key: &Bound<'_, PyString>, bytes: &[u8]| set_item(environ, key, &latin1(py, bytes)?);
        if let Some(address) = found.addr {
            let address = kept_address(py, &mut peer.forwarded, address);
            set_item(environ, intern!(py, "REMOTE_ADDR"), address.bind(py))?;
            match found.port {
                Some(port) => set_item(environ, intern!(py, "REMOTE_PORT"), port_string(py, port)?.bind(py))?,
                // The port that we see is the proxy's, which is nobody's business here.
                None => environ.del_item(intern!(py, "REMOTE_PORT"))?,
            }
        }
        let mut port = found.server_port;
        if let Some(scheme) = found.scheme {
            let (name, default) = match scheme {
                Scheme::Http => (intern!(py, "http"), 80),
                Scheme::Https => (intern!(py, "https"), 443),
            };
            set_item(environ, intern!(py, "wsgi.url_scheme"), name)?;
            port = port.or(Some(default));
        }
        if let Some(host) = &found.host {
            set(intern!(py, "HTTP_HOST"), host)?;
        }
        if let Some(port) = port {
            let text = match port {
                80 => intern!(py, "80").clone(),
                443 => intern!(py, "443").clone(),
                other => port_string(py, other)?.into_bound(py),
            };
            set_item(environ, intern!(py, "SERVER_PORT"), &text)?;
        }
        if let Some(prefix) = &found.prefix {
            let whole = [prefix.as_slice(), &self.script_name].concat();
            set(intern!(py, "SCRIPT_NAME"), &whole)?;
            // It may have stripped both, its own prefix only, or nothing, as under ASGI.
            let path = percent_decoded(head.path());
            if let Some(rest) = stripped(&path, &whole) {
                set(intern!(py, "PATH_INFO"), rest)?;
            }
        }
        Ok(())
    }
}

/// The template that hangs on a head or block, if there is one.
#[inline]
fn template_of(attachment: &std::sync::OnceLock<Box<dyn std::any::Any + Send + Sync>>) -> Option<&Template> {
    attachment.get()?.downcast_ref()
}

/// Ports whose strings are kept: those of as many connections as a busy worker has at a time.
const KEPT_PORTS: usize = 256;

/// The peer's address and port as strings, which the next request often has again.
#[derive(Default)]
pub struct PeerStrings {
    address: Option<(IpAddr, Py<PyString>)>,
    /// That of the client that a proxy named last.
    forwarded: Option<(IpAddr, Py<PyString>)>,
    ports: Vec<Option<(u16, Py<PyString>)>>,
    server: ServerStrings,
}

impl PeerStrings {
    /// Sets `REMOTE_ADDR` and `REMOTE_PORT`; empty for a unix socket, which has neither.
    /// `standing`: the address that the dictionary has already. True: that is the peer's.
    #[inline]
    fn set(
        &mut self,
        environ: &Bound<'_, PyDict>,
        peer: Address,
        standing: Option<IpAddr>,
    ) -> PyResult<bool> {
        let py = environ.py();
        let Address::Ip(ip, port) = peer else {
            let empty = intern!(py, "");
            set_item(environ, intern!(py, "REMOTE_ADDR"), empty)?;
            set_item(environ, intern!(py, "REMOTE_PORT"), empty)?;
            return Ok(standing.is_none());
        };
        let same = standing == Some(ip);
        if !same {
            let address = kept_address(py, &mut self.address, ip);
            set_item(environ, intern!(py, "REMOTE_ADDR"), address.bind(py))?;
        }
        if self.ports.is_empty() {
            self.ports.resize_with(KEPT_PORTS, || None);
        }
        let place = &mut self.ports[usize::from(port) % KEPT_PORTS];
        let kept = match place {
            Some((known, text)) if *known == port => text,
            _ => &mut place.insert((port, port_string(py, port)?)).1,
        };
        set_item(environ, intern!(py, "REMOTE_PORT"), kept.bind(py))?;
        Ok(same)
    }
}

/// An address as a string: the one that is kept, if it is that one's.
fn kept_address<'a>(
    py: Python<'_>,
    kept: &'a mut Option<(IpAddr, Py<PyString>)>,
    ip: IpAddr,
) -> &'a Py<PyString> {
    if kept.as_ref().is_some_and(|(known, _)| *known != ip) {
        *kept = None;
    }
    &kept.get_or_insert_with(|| (ip, PyString::new(py, &ip.to_string()).unbind())).1
}

/// A port in decimal, without the formatting machinery: this runs for most requests.
fn port_string(py: Python<'_>, mut port: u16) -> PyResult<Py<PyString>> {
    let mut digits = [0u8; 5];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (port % 10) as u8;
        port /= 10;
        if port == 0 {
            break;
        }
    }
    // Those that clients have are of five digits.
    let made = if at == 0 { ascii(py, &digits) } else { latin1(py, &digits[at..]) };
    Ok(made?.unbind())
}
