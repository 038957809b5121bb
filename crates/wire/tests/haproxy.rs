//! Valid PROXY headers with each of their bytes changed to each other value: refused, or taken for what a real HAProxy
//! with `accept-proxy` takes them for. Where HAProxy is missing, that is said, and nothing is compared.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wire::proxy::{Found, Versions, read};

const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
const MOST: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(20);

/// HAProxy tells whom it takes for its client, and for what address it stands.
const CONFIGURATION: &str = "
global
    maxconn 100
defaults
    mode http
    timeout client 20s
    timeout client-fin 1s
frontend door
    bind unix@SOCKET accept-proxy
    http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port] %[dst] %[dst_port]\"
";

struct HaProxy {
    process: Child,
    folder: PathBuf,
}

impl HaProxy {
    /// None: there is none on this machine.
    fn start() -> Option<Self> {
        let path = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/bin/haproxy"];
        let program = path.into_iter().find(|path| std::path::Path::new(path).exists())?;
        let folder = std::env::temp_dir().join(format!("forehand-haproxy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let socket = folder.join("socket");
        let file = folder.join("conf");
        std::fs::write(&file, CONFIGURATION.replace("SOCKET", socket.to_str().expect("a path")))
            .expect("a file");
        let mut command = Command::new(program);
        command.args(["-q", "-db", "-f"]).arg(&file).stderr(Stdio::null());
        let mut haproxy = Self { process: command.spawn().expect("haproxy"), folder };
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert_eq!(haproxy.process.try_wait().expect("its state"), None, "it has ended");
            assert!(begun.elapsed() < PATIENCE, "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(haproxy)
    }

    /// What it answers to a header with a request behind it; empty: it has closed the connection.
    fn ask(&self, header: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.folder.join("socket")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // It may have closed before all is sent.
        let _ = stream.write_all(&[header, REQUEST].concat());
        let _ = stream.shutdown(Shutdown::Write);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8(reply).expect("text")
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One of each kind.
fn headers() -> Vec<Vec<u8>> {
    let v2 = |command: u8, family: u8, parts: &[&[u8]]| {
        let body = parts.concat();
        let length = (body.len() as u16).to_be_bytes();
        [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &length, &body].concat()
    };
    let four: &[u8] = &[192, 0, 2, 7, 198, 51, 100, 3, 0xc8, 0x22, 0x01, 0xbb];
    let six = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7], &[0x20, 1, 0xd, 0xb8], &[0; 11], &[3], &four[8..]]
        .concat();
    let facts: &[u8] = b"\x05\0\x05id-17\x02\0\x04shop\x04\0\x02\0\0";
    vec![
        b"PROXY TCP4 192.0.2.7 198.51.100.3 51234 443\r\n".to_vec(),
        b"PROXY TCP6 2001:db8::7 2001:db8:1::3 51234 443\r\n".to_vec(),
        b"PROXY TCP6 ::ffff:192.0.2.7 ::1 0 65535\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        v2(0x21, 0x11, &[four]),
        v2(0x21, 0x21, &[&six]),
        v2(0x21, 0x11, &[four, facts]),
        // HAProxy's own health check, and one that names nobody.
        v2(0x20, 0x00, &[b"\x03\0\x04\xa9\xb8\x7e\x8f"]),
        v2(0x21, 0x00, &[b""]),
    ]
}

/// What a header says, if all of it is one.
fn taken(header: &[u8]) -> Option<Option<(SocketAddr, SocketAddr)>> {
    match read(&[header, REQUEST].concat(), Versions::Any, MOST) {
        Ok(Found::Complete(length, proxied)) if length == header.len() => Some(proxied.addresses),
        _ => None,
    }
}

/// Whom HAProxy has named. None: nobody, as its socket has no address.
fn named(reply: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, body) = reply.split_once("\r\n\r\n").expect("a reply");
    let words: Vec<&str> = body.split(' ').collect();
    // A port of 0 it leaves out.
    let address = |ip: &str, port: &str| Some(SocketAddr::new(ip.parse().ok()?, port.parse().unwrap_or(0)));
    Some((address(words[0], words[1])?, address(words[2], words[3])?))
}

/// A family of the specification that tells no address of a stream: UNSPEC, datagrams, unix sockets. Receivers "should
/// ignore address information" (§2.2); HAProxy, which sends none of them, refuses some.
fn is_nobodys(header: &[u8]) -> bool {
    header.starts_with(b"\r") && header[12] == 0x21 && [0x00, 0x12, 0x22, 0x31, 0x32].contains(&header[13])
}

#[test]
fn every_changed_byte_is_refused_or_means_what_it_means_to_haproxy() {
    let Some(haproxy) = HaProxy::start() else {
        eprintln!("haproxy is missing (Debian: haproxy): nothing was compared");
        return;
    };
    let (mut all, mut compared) = (0, 0);
    let mut compare = |header: &[u8]| {
        all += 1;
        let Some(addresses) = taken(header) else { return false };
        let reply = haproxy.ask(header);
        if is_nobodys(header) && reply.is_empty() {
            assert_eq!(addresses, None, "{}", header.escape_ascii());
            return true;
        }
        assert!(reply.starts_with("HTTP/1.1 200"), "HAProxy refuses {}: {reply}", header.escape_ascii());
        assert_eq!(named(&reply), addresses, "{}", header.escape_ascii());
        compared += 1;
        true
    };
    for header in headers() {
        assert!(compare(&header), "it is valid: {}", header.escape_ascii());
        for at in 0..header.len() {
            for change in 1..=255u8 {
                let mut changed = header.clone();
                changed[at] ^= change;
                compare(&changed);
            }
        }
    }
    println!("{compared} of {all} were taken, by both");
    assert!(compared > 20_000 && compared < all, "{compared} of {all}");
}
