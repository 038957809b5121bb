//! TLS, HTTP/1 and HTTP/2 within it, against servers in threads of the test. Their certificate is made here and now.

use crate::serving::frames::{Framed, OK, reply};
use crate::serving::{GOOD, Peer, check_sums, plan, serve};
use forehand_load::certificate::{made, pem};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

type Secured = StreamOwned<ServerConnection, TcpStream>;

/// The server's half, and the certificate that a client needs to know: the server's own.
fn terms(alpn: &[&str]) -> (Arc<ServerConfig>, String) {
    let (certificate, key) = made(Vec::new()).expect("a certificate");
    let shown = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("our own");
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("our own");
    (server(alpn, shown, key), certificate)
}

fn server(alpn: &[&str], shown: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![shown], key)
        .expect("the key is the certificate's");
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.ticketer = rustls::crypto::ring::Ticketer::new().expect("tickets");
    Arc::new(config)
}

/// A server whose certificate, of these names, an authority has signed; and the authority's.
fn signed(names: &[&str]) -> (Arc<ServerConfig>, String) {
    let key = KeyPair::generate().expect("a key");
    let mut wanted = CertificateParams::new(Vec::new()).expect("no names");
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(wanted, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let wanted = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>());
    let shown = wanted.expect("names").signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    (server(&[], shown.der().clone(), key), pem("CERTIFICATE", authority.der()))
}

fn secured(config: &Arc<ServerConfig>, peer: Peer) -> Secured {
    let connection = ServerConnection::new(Arc::clone(config)).expect("a connection");
    StreamOwned::new(connection, peer.stream)
}

/// Serves HTTP/1.1 within TLS: `answer` gives the bytes of each reply, and whether the connection goes on.
fn serve_secured(config: Arc<ServerConfig>, answer: fn(&[u8]) -> (Vec<u8>, bool)) -> SocketAddr {
    serve(move |peer| {
        let mut stream = secured(&config, peer);
        let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            read.extend_from_slice(&buffer[..count]);
            if !read.ends_with(b"\r\n\r\n") {
                continue;
            }
            let (bytes, goes_on) = answer(&read);
            let _ = stream.write_all(&bytes).and_then(|()| stream.flush());
            if !goes_on {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                return;
            }
            read.clear();
        }
    })
}

fn pong(request: &[u8]) -> (Vec<u8>, bool) {
    if String::from_utf8_lossy(request).contains("Connection: close") {
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nPong!".to_vec(), false)
    } else {
        (GOOD.to_vec(), true)
    }
}

fn asked(address: SocketAddr, tls: Value, more: Value) -> Value {
    let mut whole = json!({
        "url": format!("https://{address}/"), "tls": tls, "duration_s": 20, "threads": 1,
        "load": {"kind": "closed", "connections": 4, "count": 200},
        "requests": [{"expect": {"length": 5}}],
    });
    for (key, value) in more.as_object().expect("fields") {
        whole[key] = value.clone();
    }
    let result = plan(&whole);
    check_sums(&result);
    result
}

#[test]
fn replies_within_tls_are_as_good_and_each_handshake_is_counted() {
    let (config, ca) = terms(&["http/1.1"]);
    let address = serve_secured(config, pong);
    for (version, more, handshakes) in [
        (Value::Null, json!({}), 4),
        (json!("1.2"), json!({}), 4),
        (json!("1.3"), json!({"load": {"kind": "open", "rate": 500, "max_connections": 3, "count": 100}}), 3),
        (
            Value::Null,
            json!({"keep_alive": false, "load": {"kind": "closed", "connections": 2, "count": 30}}),
            30,
        ),
    ] {
        let result = asked(address, json!({"ca": ca, "version": version}), more);
        assert_eq!(result["errors"], json!({}));
        let connections = &result["totals"]["connections"];
        assert!(connections["handshakes"].as_u64() <= Some(handshakes), "{connections}");
        assert_eq!(connections["handshakes"], connections["opened"]);
        assert_eq!(connections["resumed"], 0);
        assert_eq!(result["times"]["handshake"]["count"], connections["handshakes"]);
    }
}

#[test]
fn connections_go_on_from_earlier_ones_where_the_plan_wants_that() {
    let (config, ca) = terms(&[]);
    let address = serve_secured(config, pong);
    for version in ["1.2", "1.3"] {
        let more = json!({"keep_alive": false, "load": {"kind": "closed", "connections": 1, "count": 20}});
        let result = asked(address, json!({"ca": ca, "resume": true, "version": version}), more);
        let connections = &result["totals"]["connections"];
        assert_eq!(
            (&connections["handshakes"], &connections["resumed"]),
            (&json!(20), &json!(19)),
            "{version}"
        );
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_that_is_wanted() {
    let (config, _) = terms(&[]);
    let (_, other) = terms(&[]);
    let address = serve_secured(config, pong);
    let few = json!({"load": {"kind": "open", "rate": 100, "count": 5}});
    let result = asked(address, json!({"ca": other}), few.clone());
    assert_eq!(result["errors"], json!({"tls_failed": 5}));
    assert_eq!(result["totals"]["connections"]["opened"], 0);
    let result = asked(address, json!({"insecure": true}), few.clone());
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(5), &json!({})));
    // One that an authority of the plan has signed is as good, and only for the host that it is of.
    for (names, errors) in [(["127.0.0.1"], json!({})), (["elsewhere.example"], json!({"tls_failed": 5}))] {
        let (config, authority) = signed(&names);
        let result = asked(serve_secured(config, pong), json!({"ca": authority}), few.clone());
        assert_eq!(result["errors"], errors, "{names:?}");
    }
    // The server's own certificate is not believed for another host either.
    let key = KeyPair::generate().expect("a key");
    let wanted = CertificateParams::new(vec!["elsewhere.example".to_string()]).expect("a name");
    let shown = wanted.self_signed(&key).expect("a certificate");
    let ca = pem("CERTIFICATE", shown.der());
    let config = server(&[], shown.der().clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()));
    let result = asked(serve_secured(config, pong), json!({"ca": ca}), few);
    assert_eq!(result["errors"], json!({"tls_failed": 5}));
}

#[test]
fn what_is_no_tls_is_said_to_be_none_and_silence_is_a_timeout() {
    let (_, ca) = terms(&[]);
    let few = json!({"load": {"kind": "open", "rate": 100, "count": 5}});
    let plain = serve(|mut peer| {
        peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        peer.keep_silent();
    });
    assert_eq!(asked(plain, json!({"ca": ca}), few.clone())["errors"], json!({"tls_failed": 5}));
    let silent = serve(Peer::keep_silent);
    let mut hasty = few.clone();
    hasty["timeouts"] = json!({"connect_s": 0.5});
    assert_eq!(asked(silent, json!({"ca": ca}), hasty)["errors"], json!({"connect_timeout": 5}));
    let ending = serve(|mut peer| {
        // The first words of TLS are read, so that the end is no reset.
        let _ = peer.stream.read(&mut [0; 4096]);
    });
    assert_eq!(asked(ending, json!({"ca": ca}), few)["errors"], json!({"end_before_reply": 5}));
}

#[test]
fn a_body_without_a_length_is_whole_only_where_tls_ended_first() {
    const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nPong!";
    let (config, ca) = terms(&[]);
    let few = json!({"load": {"kind": "open", "rate": 100, "count": 5}});
    let announced = serve_secured(Arc::clone(&config), |_| (ENDLESS.to_vec(), false));
    let result = asked(announced, json!({"ca": ca}), few.clone());
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(5), &json!({})));
    let cut = serve(move |peer| {
        let mut stream = secured(&config, peer);
        let mut buffer = [0; 4096];
        if matches!(stream.read(&mut buffer), Ok(1..)) {
            let _ = stream.write_all(ENDLESS).and_then(|()| stream.flush());
            // The kernel's end alone.
            let _ = stream.sock.shutdown(std::net::Shutdown::Write);
            while matches!(stream.sock.read(&mut buffer), Ok(1..)) {}
        }
    });
    assert_eq!(asked(cut, json!({"ca": ca}), few)["errors"], json!({"truncated": 5}));
}

#[test]
fn a_large_body_is_read_to_its_last_byte() {
    const LARGE: usize = 1 << 20;
    let (config, ca) = terms(&[]);
    let address = serve_secured(config, |_| {
        (
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n").into_bytes(), vec![b'x'; LARGE]]
                .concat(),
            true,
        )
    });
    let more = json!({
        "load": {"kind": "closed", "connections": 2, "count": 10}, "requests": [{"expect": {"length": LARGE}}],
    });
    let result = asked(address, json!({"ca": ca}), more);
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(10), &json!({})));
    assert!(result["totals"]["bytes_received"].as_u64() >= Some(10 * LARGE as u64));
}

#[test]
fn http2_within_tls_is_agreed_on_or_it_is_an_error() {
    let (config, ca) = terms(&["h2", "http/1.1"]);
    let address = serve(move |peer| {
        let Some(mut framed) = Framed::begin(secured(&config, peer), &[]) else { return };
        while let Some(stream) = framed.request() {
            framed.send(&reply(stream, OK, b"Pong!"));
        }
    });
    let more = json!({"http": "2", "load": {"kind": "closed", "connections": 2, "streams": 8, "count": 400}});
    let result = asked(address, json!({"ca": ca}), more);
    assert_eq!((&result["totals"]["replies"], &result["errors"]), (&json!(400), &json!({})));
    assert_eq!(result["totals"]["connections"]["handshakes"], 2);

    let (config, ca) = terms(&[]);
    let older = serve_secured(config, pong);
    let few = json!({"http": "2", "load": {"kind": "open", "rate": 100, "count": 5}});
    assert_eq!(asked(older, json!({"ca": ca}), few)["errors"], json!({"not_http2": 5}));
}
