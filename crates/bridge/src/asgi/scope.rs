//! `scope`: a copy of a dictionary that was built once for requests with the same head.
//!
//! Knows: which key comes from where (ASGI, "HTTP Connection Scope"). Does not know: events.
//! As in WSGI's environ, only immutable values live in a template; the lists and dictionaries
//! of a scope are each request's own.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use reactor::Address;
use server::engine::Engine;
use server::exchange::Exchange;
use wire::field_text::members;
use wire::mount::{with_root, with_roots};
use wire::proxy::Proxied;
use wire::ws::Handshake;
use wire::{
    Block, Effective, Fault, Head, Limits, NameCache, Peer, Scheme, Trust, Version, effective,
    percent_decoded,
};

use super::given;
use super::secured::{self, Texts};
use crate::ffi::{GilCell, copy_dict, copy_list, latin1, set_item};

/// What is the same for every request of one listener.
pub struct Gateway {
    /// `(host, port)`, or `(path, None)` for a unix socket.
    server: Py<PyTuple>,
    scheme: Py<PyString>,
    root_path: String,
    trust: Trust,
    common: Common,
    /// Names of headers as received, and in lower case as objects: a browser's are always the same.
    names: GilCell<NameCache<Py<PyBytes>>>,
    client: GilCell<Option<(IpAddr, Py<PyString>)>>,
    /// The address that a load balancer's clients have connected to: it is the same one for most of them.
    proxied: GilCell<Option<(SocketAddr, Py<PyTuple>)>>,
    /// Our certificates, as scopes have them.
    certificates: Texts,
}

/// Dictionaries that each request gets a copy of.
pub struct Common {
    pub asgi: Py<PyDict>,
    pub extensions: Py<PyDict>,
    pub websocket_extensions: Py<PyDict>,
    pub state: Py<PyDict>,
}

/// What hangs on a header block.
struct BlockTemplate {
    headers: Py<PyList>,
    /// It may ask for a WebSocket, if the request line does.
    upgrade: bool,
}

/// What hangs on a head.
struct HeadTemplate(Py<PyDict>);

/// What a request is called with.
pub struct Scope<'py> {
    pub dict: Bound<'py, PyDict>,
    pub websocket: bool,
}

impl Gateway {
    pub fn new(
        server: Bound<'_, PyTuple>,
        settings: (&str, &str),
        trust: Trust,
        common: Common,
        limits: &Limits,
    ) -> Self {
        let (scheme, root_path) = settings;
        let py = server.py();
        Self {
            scheme: PyString::new(py, scheme).unbind(),
            server: server.unbind(),
            root_path: root_path.to_string(),
            trust,
            common,
            names: GilCell::new(NameCache::new(limits.cached_names)),
            client: GilCell::new(None),
            proxied: GilCell::new(None),
            certificates: Texts::new(),
        }
    }

    /// The scope of a request.
    ///
    /// # Errors
    /// Python's (memory), or a refusal where forwarding headers contradict each other.
    pub fn scope<'py>(
        &self,
        py: Python<'py>,
        exchange: &Exchange,
        engine: &Engine,
    ) -> PyResult<Result<Scope<'py>, Fault>> {
        let head = &*exchange.head;
        let trusted = head.block.variant & 1 == 1;
        if head.block.attachment.get().is_none() {
            let _ = head.block.attachment.set(Box::new(self.block(py, &head.block, trusted)?));
        }
        let block = head.block.attachment.get().and_then(|kept| kept.downcast_ref::<BlockTemplate>());
        let Some(block) = block else { return Ok(Err(wire::INTERNAL_ERROR)) };
        let websocket = (block.upgrade || head.version == Version::Http2) && Handshake::is_asked_for(head);
        // What a load balancer has said of its client goes below what the web server says.
        let given = exchange.given().filter(|_| exchange.proxied().is_none());
        let dict = match given.and_then(given::template_of) {
            Some(template) => copy_dict(template.dict.bind(py))?,
            None => {
                let dict = self.of_head(py, head, websocket)?;
                if let Some(given) = given {
                    given::introduce(&dict, given, head, &self.root_path)?;
                    if head.seen_before() {
                        given::remember(&dict, given)?;
                    }
                }
                dict
            }
        };
        let common = &self.common;
        set_item(&dict, intern!(py, "asgi"), &copy_dict(common.asgi.bind(py))?)?;
        set_item(&dict, intern!(py, "headers"), &copy_list(block.headers.bind(py))?)?;
        set_item(&dict, intern!(py, "state"), &copy_dict(common.state.bind(py))?)?;
        set_item(&dict, intern!(py, "extensions"), &self.extensions(py, exchange, websocket)?)?;
        set_item(&dict, intern!(py, "client"), &self.client(py, exchange.peer())?)?;
        if websocket {
            set_item(&dict, intern!(py, "subprotocols"), &subprotocols(py, &head.block)?)?;
        }
        if let Some(proxied) = exchange.proxied() {
            if let Some((_, server)) = proxied.addresses
                && let Some(server) = self.server(py, server)?
            {
                set_item(&dict, intern!(py, "server"), &server)?;
            }
            introduce(&dict, proxied, (engine.config.proxy_tls, websocket))?;
            if let Some(given) = exchange.given() {
                given::introduce(&dict, given, head, &self.root_path)?;
            }
        }
        if head.authority().is_some() {
            replace_host(&dict, head.host().unwrap_or_default())?;
        }
        if trusted && head.block.has_forwarding() {
            let peer = match exchange.peer() {
                Address::Ip(ip, port) => Peer::Ip(ip, port),
                Address::Unix => Peer::Unix,
            };
            match effective(head, &peer, &engine.config.trust) {
                Ok(Some(found)) => self.forward(&dict, &found, (head, websocket))?,
                Ok(None) => {}
                Err(fault) => return Ok(Err(fault)),
            }
        }
        Ok(Ok(Scope { dict, websocket }))
    }

    /// What the server can do beyond the specification, and what is known of the connection.
    #[inline]
    fn extensions<'py>(
        &self,
        py: Python<'py>,
        exchange: &Exchange,
        websocket: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Common { extensions, websocket_extensions, .. } = &self.common;
        let extensions = copy_dict(if websocket { websocket_extensions } else { extensions }.bind(py))?;
        if let Some(given) = exchange.given() {
            given::extend(&extensions, given)?;
        }
        if let Some(tls) = exchange.tls() {
            secured::extend(&extensions, tls, &self.certificates)?;
        }
        Ok(extensions)
    }

    /// What the request line and the listener say, from what was made of the same head before.
    fn of_head<'py>(&self, py: Python<'py>, head: &Head, websocket: bool) -> PyResult<Bound<'py, PyDict>> {
        let template = head.attachment.get().and_then(|kept| kept.downcast_ref::<HeadTemplate>());
        if let Some(HeadTemplate(dict)) = template {
            return copy_dict(dict.bind(py));
        }
        let dict = self.head(py, head, websocket)?;
        if head.seen_before() {
            let _ = head.attachment.set(Box::new(HeadTemplate(copy_dict(&dict)?.unbind())));
        }
        Ok(dict)
    }

    /// The headers of a block: names in lower case, in the order in which they came.
    fn block(&self, py: Python<'_>, block: &Block, trusted: bool) -> PyResult<BlockTemplate> {
        let headers = PyList::empty(py);
        for (name, value) in block.fields() {
            if !self.trust.lets_through(name, trusted) {
                continue;
            }
            headers.append((self.name(py, name), PyBytes::new(py, value)))?;
        }
        let upgrade = block.get("upgrade").is_some();
        Ok(BlockTemplate { headers: headers.unbind(), upgrade })
    }

    fn name<'py>(&self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyBytes> {
        let make = |name: &[u8]| -> Result<_, Infallible> {
            Ok(PyBytes::new(py, &name.to_ascii_lowercase()).unbind())
        };
        let found = match self.names.borrow(py) {
            Some(mut names) => names.with(name, make, |made| made.bind(py).clone()),
            None => make(name).map(|made| made.into_bound(py)),
        };
        match found {
            Ok(name) => name,
            Err(never) => match never {},
        }
    }

    /// The keys of a request line and of the listener.
    fn head<'py>(&self, py: Python<'py>, head: &Head, websocket: bool) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let none = py.None().into_bound(py);
        let kind = if websocket { intern!(py, "websocket") } else { intern!(py, "http") };
        set_item(&dict, intern!(py, "type"), kind)?;
        set_item(&dict, intern!(py, "asgi"), &none)?;
        let version = match head.version {
            Version::Http10 => intern!(py, "1.0"),
            Version::Http11 => intern!(py, "1.1"),
            Version::Http2 => intern!(py, "2"),
        };
        set_item(&dict, intern!(py, "http_version"), version)?;
        if !websocket {
            set_item(&dict, intern!(py, "method"), &latin1(py, head.method())?)?;
        }
        let scheme = self.scheme.bind(py);
        set_item(&dict, intern!(py, "scheme"), &socket_scheme(scheme, websocket)?)?;
        let raw = head.path();
        let path = percent_decoded(raw);
        let path = String::from_utf8_lossy(&path);
        set_item(&dict, intern!(py, "path"), &PyString::new(py, &with_root(&path, &self.root_path)))?;
        set_item(&dict, intern!(py, "raw_path"), &PyBytes::new(py, raw))?;
        set_item(&dict, intern!(py, "query_string"), &PyBytes::new(py, head.query()))?;
        set_item(&dict, intern!(py, "root_path"), &PyString::new(py, &self.root_path))?;
        set_item(&dict, intern!(py, "server"), self.server.bind(py))?;
        // In their places from the start, so that a copy never has to grow for them.
        for key in ["headers", "client", "state", "extensions"] {
            dict.set_item(key, &none)?;
        }
        Ok(dict)
    }

    /// `(host, port)`; None for a unix socket, whose peer has neither.
    fn client<'py>(&self, py: Python<'py>, peer: Address) -> PyResult<Bound<'py, PyAny>> {
        let Address::Ip(ip, port) = peer else { return Ok(py.None().into_bound(py)) };
        let Some(mut kept) = self.client.borrow(py) else { return Ok(py.None().into_bound(py)) };
        if !matches!(&*kept, Some((known, _)) if *known == ip) {
            *kept = Some((ip, PyString::new(py, &ip.to_string()).unbind()));
        }
        let host = kept.as_ref().map(|(_, host)| host.bind(py).clone());
        Ok((host, port).into_pyobject(py)?.into_any())
    }

    /// `(host, port)` of what a load balancer's client has connected to; None: it is being made.
    fn server<'py>(&self, py: Python<'py>, server: SocketAddr) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Some(mut kept) = self.proxied.borrow(py) else { return Ok(None) };
        if !matches!(&*kept, Some((known, _)) if *known == server) {
            let made = (server.ip().to_string(), server.port()).into_pyobject(py)?;
            *kept = Some((server, made.unbind()));
        }
        Ok(kept.as_ref().map(|(_, made)| made.bind(py).clone()))
    }

    /// What a trusted proxy says of the client.
    fn forward(
        &self,
        dict: &Bound<'_, PyDict>,
        found: &Effective,
        (head, websocket): (&Head, bool),
    ) -> PyResult<()> {
        let py = dict.py();
        if let Some(address) = found.addr {
            // The port that we see is the proxy's; zero says that the client's is not known.
            set_item(
                dict,
                intern!(py, "client"),
                &(address.to_string(), found.port.unwrap_or(0)).into_pyobject(py)?,
            )?;
        }
        if let Some(scheme) = found.scheme {
            let name = match scheme {
                Scheme::Http => intern!(py, "http"),
                Scheme::Https => intern!(py, "https"),
            };
            set_item(dict, intern!(py, "scheme"), &socket_scheme(name, websocket)?)?;
        }
        if let Some(host) = &found.host {
            replace_host(dict, host)?;
        }
        if let Some(prefix) = &found.prefix {
            let prefix = String::from_utf8_lossy(prefix);
            let path = percent_decoded(head.path());
            let path = with_roots(&String::from_utf8_lossy(&path), &prefix, &self.root_path);
            set_item(dict, intern!(py, "path"), &PyString::new(py, &path))?;
            let root = format!("{prefix}{}", self.root_path);
            set_item(dict, intern!(py, "root_path"), &PyString::new(py, &root))?;
        }
        Ok(())
    }
}

/// What a PROXY header has told beside addresses: the client's scheme, where that is believed (`tls`), and the rest as an
/// extension.
fn introduce(dict: &Bound<'_, PyDict>, proxied: &Proxied, (tls, websocket): (bool, bool)) -> PyResult<()> {
    let py = dict.py();
    let told = PyDict::new(py);
    for (key, value) in [
        (intern!(py, "unique_id"), &proxied.unique_id),
        (intern!(py, "authority"), &proxied.authority),
        (intern!(py, "vpc_endpoint"), &proxied.vpc_endpoint),
    ] {
        if let Some(value) = value {
            set_item(&told, key, &latin1(py, value)?)?;
        }
    }
    if let Some(facts) = proxied.tls.as_ref().filter(|facts| tls && facts.used) {
        set_item(dict, intern!(py, "scheme"), &socket_scheme(intern!(py, "https"), websocket)?)?;
        let about = PyDict::new(py);
        for (key, value) in [
            (intern!(py, "version"), &facts.version),
            (intern!(py, "cipher"), &facts.cipher),
            (intern!(py, "client_common_name"), &facts.common_name),
        ] {
            if let Some(value) = value {
                set_item(&about, key, &latin1(py, value)?)?;
            }
        }
        about.set_item(intern!(py, "client_verified"), facts.verified)?;
        set_item(&told, intern!(py, "tls"), &about)?;
    }
    match dict.get_item(intern!(py, "extensions"))? {
        Some(extensions) => extensions.set_item(intern!(py, "forehand.proxy"), told),
        None => Ok(()),
    }
}

/// `ws` for `http`, `wss` for `https`.
fn socket_scheme<'py>(scheme: &Bound<'py, PyString>, websocket: bool) -> PyResult<Bound<'py, PyString>> {
    let py = scheme.py();
    Ok(match (websocket, scheme.to_str()?) {
        (true, "https") => intern!(py, "wss").clone(),
        (true, _) => intern!(py, "ws").clone(),
        (false, _) => scheme.clone(),
    })
}

/// RFC 9112 §3.2.2: what overrides Host takes its place.
fn replace_host(dict: &Bound<'_, PyDict>, host: &[u8]) -> PyResult<()> {
    let py = dict.py();
    let Some(headers) = dict.get_item(intern!(py, "headers"))? else { return Ok(()) };
    let headers = headers.cast::<PyList>()?;
    let pair = (PyBytes::new(py, b"host"), PyBytes::new(py, host)).into_pyobject(py)?;
    for (index, field) in headers.iter().enumerate() {
        if field.get_item(0)?.cast::<PyBytes>()?.as_bytes() == b"host" {
            return headers.set_item(index, pair);
        }
    }
    headers.append(pair)
}

/// What the client offers, in its order. Names that are no tokens are left out.
fn subprotocols<'py>(py: Python<'py>, block: &Block) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (name, value) in block.fields() {
        if name.eq_ignore_ascii_case(b"sec-websocket-protocol") {
            for member in members(value).filter(|member| member.is_ascii()) {
                list.append(latin1(py, member)?)?;
            }
        }
    }
    Ok(list)
}
