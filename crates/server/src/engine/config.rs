//! How an engine shall behave.
//!
//! Knows: settings that are fixed for its life. Does not know: what they mean to anybody, or where they came from. Any thread
//! reads it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use reactor::sys::{CloseOnFork, Handoff};
use wire::{Limits, Policy, Trust};

use super::{ServerTiming, Tracebacks};
use crate::access::AccessLog;
use crate::files::Mount;
use crate::health::HealthPaths;
use crate::lanes::ByHand;
use crate::mounted::Mounted;
use crate::request_deadlines::RequestTimeouts;
use crate::request_id::RequestIds;
use crate::scoreboard::Scoreboard;
use crate::sendfile::Sendfile;
use crate::slow_requests::SlowAfter;
use crate::statistics::bell::Bell;
use crate::statistics::spans::Writer;
use crate::tls::Material;
use crate::tracing::Tracing;

/// Peers of this machine: over loopback, and unix sockets.
pub const LOCAL: &str = "127.0.0.0/8,::1,unix";

/// How long a watchdog goes on looking after the last job that it has seen. Long enough that sparse traffic does not wake it
/// for each request, short enough that idle is free.
pub const QUIET_LOOKS: u32 = 32;

/// How an engine shall behave; fixed for its life.
pub struct Config {
    pub limits: Limits,
    pub policy: Policy,
    /// Whose forwarding headers are believed.
    pub trust: Trust,
    /// Who may say for whom a connection speaks, where a listener expects that.
    pub proxy_from: Trust,
    /// Whose variables are believed, where a listener speaks a gateway protocol.
    pub gateway_from: Trust,
    /// What is said so of the client's TLS is believed.
    pub proxy_tls: bool,
    /// The value of the Server header; empty: none is sent.
    pub server_header: Vec<u8>,
    /// Request bodies are complete before a thread is taken.
    pub request_buffering: bool,
    /// An event loop answers: what has not arrived of a body is left to the application.
    pub evented: bool,
    /// Requests run in steps, many of them on one thread: those of an event loop, or of greenlets.
    pub stepwise: bool,
    /// The application speaks WebSocket.
    pub websockets: bool,
    /// The access log, if one is kept.
    pub access: Option<AccessLog>,
    /// Threads that may be inside the application at a time, as it begins.
    pub threads: u32,
    /// Their number follows from what they finish.
    pub threads_auto: Option<AutoThreads>,
    /// Where this worker's numbers are seen by its supervisor and the other workers.
    pub scoreboard: Option<Scoreboard>,
    /// Where its statistics are written, for every process that may read them (`statistics::segment::join`).
    pub statistics: Option<&'static [AtomicU64]>,
    /// Who sleeps while nothing happens is woken by it.
    pub bell: Option<Bell>,
    /// Routes that were quick before this worker began: name, and how long a call takes on average, in microseconds.
    pub quick_routes: Vec<(String, u64)>,
    /// Those whose calls were measured, and how much of a processor a call uses on average, in microseconds.
    pub used_by_routes: Vec<(String, u64)>,
    /// One of several workers may take the requests that compute of all.
    pub computing_apart: bool,
    /// A request that takes so long is remarkable.
    pub slow_after: SlowAfter,
    /// Requests have names, by this header.
    pub request_id: Option<RequestIds>,
    /// Who is told with a reply where its time went.
    pub server_timing: ServerTiming,
    /// Requests are traced, and where their spans are left.
    pub tracing: Option<Tracing>,
    pub spans: Option<Arc<Writer>>,
    /// Frameworks are asked for the routes of requests.
    pub ask_routes: bool,
    /// Requests are taken to have come by https.
    pub https: bool,
    /// The way on which connections go to the other workers, and come from them.
    pub handoff: Option<Arc<Handoff>>,
    /// The same to and from the one that takes requests that compute.
    pub apart: Option<Arc<Handoff>>,
    /// Other processes watch the same listeners.
    pub shared_listeners: bool,
    /// A new connection that finds no room has that of one whose request or reply is not over, too. Clients that say and
    /// read little by little cannot keep others out, where nothing that anybody has to wait for is lost with them.
    pub unfinished_make_room: bool,
    /// So often the watchdog goes on looking after the last job that it has seen; a look at twice the distance counts as two.
    pub quiet_looks: u32,
    /// The line to the supervisor.
    pub report: Option<CloseOnFork>,
    /// After so many requests the worker asks to be replaced; zero: never.
    pub max_requests: u64,
    pub request_timeouts: RequestTimeouts,
    /// What the user says of routes: which are slow, and how many requests of some may be inside.
    pub by_hand: ByHand,
    /// Where the application is, which is no part of the paths that something is said of.
    pub mounted: Mounted,
    /// Folders whose files are served before the application is asked.
    pub mounts: Vec<Mount>,
    /// Paths at which probes are answered before the application is asked.
    pub health_paths: HealthPaths,
    /// Folders of which the application may name files in place of a body.
    pub sendfile: Option<Sendfile>,
    /// Who is shown why an application has failed.
    pub tracebacks: Tracebacks,
    /// Certificates and keys, for listeners that want TLS.
    pub tls: Option<Material>,
}

/// Bounds of a number of threads that changes.
#[derive(Debug, Clone, Copy)]
pub struct AutoThreads {
    pub most: u32,
    /// What the process may hold; zero: no bound of its own.
    pub memory_bytes: u64,
    /// That is measured as its part of what it shares with others (PSS).
    pub proportional: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            policy: Policy::default(),
            trust: Trust::none(),
            proxy_from: Trust::parse(LOCAL).unwrap_or_default(),
            gateway_from: Trust::parse(LOCAL).unwrap_or_default(),
            proxy_tls: false,
            server_header: Vec::new(),
            request_buffering: true,
            evented: false,
            stepwise: false,
            websockets: false,
            access: None,
            threads: 1,
            threads_auto: None,
            scoreboard: None,
            statistics: None,
            bell: None,
            quick_routes: Vec::new(),
            used_by_routes: Vec::new(),
            computing_apart: true,
            slow_after: SlowAfter::all(5000),
            request_id: None,
            server_timing: ServerTiming::Off,
            tracing: None,
            spans: None,
            ask_routes: false,
            https: false,
            handoff: None,
            apart: None,
            shared_listeners: false,
            quiet_looks: QUIET_LOOKS,
            unfinished_make_room: false,
            report: None,
            max_requests: 0,
            request_timeouts: RequestTimeouts::default(),
            by_hand: ByHand::default(),
            mounted: Mounted::default(),
            mounts: Vec::new(),
            health_paths: HealthPaths::default(),
            sendfile: None,
            tracebacks: Tracebacks::Never,
            tls: None,
        }
    }
}
