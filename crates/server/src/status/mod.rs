//! The status endpoint: what a server says of itself over HTTP, from a process of its own that answers whatever happens to
//! the workers.
//!
//! Knows: which page is where, and who may see it. Does not know: how pages are made. It only reads: nothing of a server
//! can be changed over HTTP. Runs on the threads of an engine of its own, which runs no Python.

mod application;
mod condition;
mod exposition;
pub mod files;
mod form;
mod gone;
mod history;
mod json;
mod looker;
mod machine;
mod metrics;
mod page;
pub mod process;
mod protobuf;
mod samples;
pub mod statsd;
mod text;

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use reactor::sys::{give_back_memory, is_there, monotonic_ms};
use wire::{Head, Limits};

use self::application::Application;
use self::exposition::Exposition;
use self::form::Form;
use self::gone::Gone;
use self::history::History;
use self::json::Asked;
use crate::app::App;
use crate::engine::Engine;
use crate::exchange::Exchange;
use crate::health::{Check, Health, Patience, Seen};
use crate::reply_builder::ReplyBuilder;
use crate::report;
use crate::rows::{Page, Rows};
use crate::statistics::segment::Segment;
use crate::statistics::snapshot::Snapshot;

/// Connections at a time: scrapers and probes are few.
const CONNECTIONS: u64 = 16;
/// How long a head may take, in milliseconds.
const HEAD_MS: u64 = 2000;
/// Answers of so many bytes take several times as much while they are made.
const LARGE: usize = 16 << 10;

/// What it is told of the server that it speaks for.
pub struct Told {
    /// Who names it sees contents, too: paths, for one. Empty: nobody does.
    pub token: Vec<u8>,
    /// For each listener: only processes of this machine reach it.
    pub private: Vec<bool>,
    /// Whether the host has to be one of this machine's names there, so that no page of a browser reads it under a name
    /// that its owner has pointed here.
    pub loopback: Vec<bool>,
    pub patience: Patience,
    /// From so many milliseconds on a request is slow; zero: none is.
    pub slow: u64,
    /// Labels of `forehand_build_info`.
    pub build: Vec<(String, String)>,
    /// Where the application's own metrics are.
    pub application: Option<PathBuf>,
    /// Where workers listen.
    pub listeners: Vec<machine::Listener>,
}

/// Its limits: those of a server, but for what a few clients need.
pub fn limits() -> Limits {
    Limits {
        connections: CONNECTIONS,
        header_timeout: HEAD_MS,
        first_byte_timeout: HEAD_MS,
        ..Limits::default()
    }
}

/// The application.
pub struct Status<P> {
    segment: Segment,
    rows: Rows<P>,
    told: Told,
    seen: Mutex<Seen>,
    /// Nobody reads the application's own metrics while these are added up.
    gone: Mutex<Gone>,
    /// The last minutes.
    history: Arc<History>,
    /// Where people are told something: the supervisor's line.
    report: Arc<File>,
    /// Families of ours in whose place the application's are told, as was said.
    replaced: Mutex<HashSet<String>>,
    /// What a browser may do with what it gets from here.
    policy: String,
}

thread_local! {
    static BUILDER: RefCell<ReplyBuilder> = RefCell::new(ReplyBuilder::new());
}

/// What is answered.
struct Answer {
    status: &'static [u8],
    content_type: &'static [u8],
    body: Vec<u8>,
}

const PLAIN: &[u8] = b"text/plain; charset=utf-8";
const NOT_ALLOWED: &[u8] = b"405 Method Not Allowed";
const HTML: &[u8] = b"text/html; charset=utf-8";

impl Answer {
    fn plain(status: &'static [u8], text: &str) -> Self {
        Self { status, content_type: PLAIN, body: text.as_bytes().to_vec() }
    }

    fn json(text: String) -> Self {
        Self { status: b"200 OK", content_type: b"application/json", body: text.into_bytes() }
    }
}

impl<P: Page + Send + Sync + 'static> App for Status<P> {
    fn live(&self, life: &mut dyn FnMut()) {
        life();
    }

    fn call(&self, exchange: &mut Exchange, engine: &Arc<Engine>) {
        let answer = self.answer(&exchange.head, usize::from(exchange.listener()));
        let large = answer.body.len() >= LARGE;
        self.segment.let_go();
        BUILDER.with_borrow_mut(|builder| {
            let head = &mut builder.head;
            head.clear();
            let written = head
                .status(answer.status)
                .and(head.field(b"Content-Type", answer.content_type))
                .and(head.field(b"Cache-Control", b"no-store"))
                .and(head.field(b"X-Content-Type-Options", b"nosniff"))
                .and(head.field(b"Referrer-Policy", b"no-referrer"))
                .and(head.field(b"Cross-Origin-Resource-Policy", b"same-origin"))
                .and(head.field(b"Content-Security-Policy", self.policy.as_bytes()));
            // RFC 9110, section 15.5.6: who may not do that hears what may be done.
            let written = match answer.status {
                NOT_ALLOWED => written.and(head.field(b"Allow", b"GET, HEAD")),
                _ => written,
            };
            if written.is_ok() {
                // A peer that is gone is the engine's business.
                let _ = exchange.whole(builder, &answer.body, engine);
            }
        });
        drop(answer);
        if large {
            // What it took to make it would stay with the process: the code, too, which is most of it.
            give_back_memory();
        }
    }

    fn outside<R>(&self, wait: impl FnOnce() -> R) -> R {
        wait()
    }
}

impl<P: Page> Status<P> {
    pub fn new(
        segment: Segment,
        rows: Rows<P>,
        told: Told,
        (report, history): (Arc<File>, Arc<History>),
    ) -> Self {
        Self {
            segment,
            rows,
            told,
            seen: Mutex::default(),
            gone: Mutex::default(),
            history,
            report,
            replaced: Mutex::default(),
            policy: page::policy(),
        }
    }

    fn answer(&self, head: &Head, listener: usize) -> Answer {
        if !matches!(head.method(), b"GET" | b"HEAD") {
            return Answer::plain(NOT_ALLOWED, "nothing can be changed here\n");
        }
        let loopback = self.told.loopback.get(listener).copied().unwrap_or(false);
        // What names no host (HTTP/1.0, as many probes) is no browser.
        if loopback && !head.host().is_none_or(is_of_this_machine) {
            return Answer::plain(b"421 Misdirected Request", "this is not the host that listens here\n");
        }
        match head.path() {
            b"/livez" => self.health(Check::Live, head),
            b"/readyz" => self.health(Check::Ready, head),
            b"/startupz" => self.health(Check::Started, head),
            b"/metrics" => self.metrics(head),
            // It has no numbers: it asks for them as anybody does.
            b"/" => Answer { status: b"200 OK", content_type: HTML, body: page::TEXT.into() },
            b"/status.json" => match self.is_private(head, listener) {
                // Who names a token and has the wrong one shall hear of it.
                false if head.block.get("authorization").is_some() => not_the_token(),
                contents => self.status(contents),
            },
            b"/history.json" if self.is_private(head, listener) => Answer::json(self.history.json()),
            b"/history.json" => not_the_token(),
            _ => Answer::plain(
                b"404 Not Found",
                "/ /metrics /livez /readyz /startupz /status.json /history.json\n",
            ),
        }
    }

    /// Who asks may see what requests are for.
    fn is_private(&self, head: &Head, listener: usize) -> bool {
        let here = self.told.private.get(listener).copied().unwrap_or(false);
        let given = head.block.get("authorization").and_then(bearer);
        here || given.is_some_and(|given| is_the_same(given, &self.told.token))
    }

    fn look(&self) -> Health {
        let mut seen = crate::sync::lock(&self.seen);
        Health::look(&self.segment, &self.rows, (self.told.patience, &mut seen), monotonic_ms())
    }

    fn health(&self, check: Check, head: &Head) -> Answer {
        let (good, text) = self.look().told(check, head.query());
        Answer::plain(if good { b"200 OK" } else { b"503 Service Unavailable" }, &text)
    }

    fn metrics(&self, head: &Head) -> Answer {
        let form = Form::asked(head.block.get("accept").unwrap_or_default());
        let folder = self.told.application.as_deref();
        let mut gone = crate::sync::lock(&self.gone);
        let read = Snapshot::read_with(&self.segment, || folder.map(Application::read));
        if let (Some(folder), Ok((found, _))) = (folder, &read) {
            // Of workers, which have rows until that is done, their supervisor adds it up.
            let is_worker = |pid| found.workers.iter().any(|worker| worker.pid == pid);
            gone.sweep(folder, monotonic_ms(), |pid| is_worker(pid) || is_there(pid));
        }
        drop(gone);
        match read {
            Ok((found, application)) => {
                let mut text = Exposition::new(form);
                if let Some(application) = &application {
                    // What has the name of one of ours is what its author means by it.
                    text.leave_to_others(application.names());
                }
                metrics::write(&mut text, &found, (&self.segment, &self.rows), &self.told.build);
                machine::write(&mut text, &self.told.listeners);
                self.tell_of(text.left_out());
                if let Some(application) = &application {
                    application.write(&mut text);
                }
                Answer { status: b"200 OK", content_type: form.content_type(), body: text.finish() }
            }
            Err(error) => Answer::plain(b"503 Service Unavailable", &format!("{error}\n")),
        }
    }

    /// Says which families are the application's though they have names of ours, once of each.
    fn tell_of(&self, left_out: &[String]) {
        let mut told = crate::sync::lock(&self.replaced);
        for name in left_out {
            if told.insert(name.clone()) {
                let text = format!(
                    "warn /metrics has the application's {name} in place of the server's, which has the same name: \
                     whoever wants both renames the application's"
                );
                report::tell(&*self.report, &text);
            }
        }
    }

    /// `contents`: with what requests are for.
    fn status(&self, contents: bool) -> Answer {
        let asked = Asked { segment: &self.segment, rows: &self.rows, told: &self.told, contents };
        match Snapshot::read(&self.segment).and_then(|found| json::of(&found, self.look(), &asked)) {
            Ok(text) => Answer::json(text),
            Err(error) => Answer::plain(b"503 Service Unavailable", &format!("{error}\n")),
        }
    }
}

fn not_the_token() -> Answer {
    Answer::plain(b"403 Forbidden", "this is not the token of --status-token-file\n")
}

/// A Host that nobody else can have pointed here: a name or an address of the loopback.
fn is_of_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The token of an `Authorization`; the scheme's name is written as one likes, and spaces follow it (RFC 9110, section
/// 11.4).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"Bearer".len())?;
    let token = rest.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"Bearer") && token.len() < rest.len()).then_some(token)
}

/// Compares with the token in a time that does not tell how much of it was right. No token is nobody's.
fn is_the_same(given: &[u8], token: &[u8]) -> bool {
    let different = given.iter().zip(token).fold(0, |different, (one, other)| different | (one ^ other));
    !token.is_empty() && given.len() == token.len() && different == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered_on_its_loopback() {
        for host in ["localhost", "LOCALHOST:9000", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:9000"] {
            assert!(is_of_this_machine(host.as_bytes()), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "10.0.0.1", "[::2]", ""] {
            assert!(!is_of_this_machine(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn a_token_stands_behind_the_name_of_its_scheme() {
        for value in ["Bearer abc", "bearer abc", "BEARER   abc"] {
            assert_eq!(bearer(value.as_bytes()), Some(&b"abc"[..]), "{value}");
        }
        for value in ["", "Bear", "Bearer", "Bearerabc", "Basic abc", "abc"] {
            assert_eq!(bearer(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn a_token_is_right_as_a_whole_and_none_is_nobody_s() {
        assert!(is_the_same(b"secret", b"secret"));
        for (given, token) in
            [(&b"secre"[..], &b"secret"[..]), (b"secret1", b"secret"), (b"", b""), (b"sEcret", b"secret")]
        {
            assert!(!is_the_same(given, token), "{given:?}");
        }
    }
}
