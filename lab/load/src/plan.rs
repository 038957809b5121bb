//! The plan as it is written: FORMAT.md's first half, as types. Knows JSON and what fits together; opens no file and no socket.

mod check;

pub use check::wrong;
use serde::{Deserialize, Serialize};

/// What ends a run before it begins, or keeps its result from being written: one line for a person.
#[derive(Debug)]
pub enum Stop {
    /// The plan or a flag is wrong: exit status 2.
    Plan(String),
    /// The machine said no: exit status 1.
    Machine(String),
}

/// More than any machine's processors, and few enough that a slip of the finger does no harm.
pub const MOST_THREADS: usize = 256;
/// Machines that share one load: more than a laboratory has.
pub const MOST_PARTS: usize = 256;
/// A descriptor each: the largest `nr_open` that Linux has by default.
pub const MOST_CONNECTIONS: usize = 1_048_576;
/// Deeper pipelines measure nothing more, and their replies must fit somewhere.
pub const MOST_PIPELINED: usize = 1024;
/// More than servers allow on one connection.
pub const MOST_STREAMS: usize = 1024;
/// One a nanosecond would be more than any clock tells apart; this is beyond what a machine starts.
pub const HIGHEST_RATE: f64 = 10_000_000.0;
/// A day: the series grows by a line a second.
pub const LONGEST_S: f64 = 86_400.0;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    #[serde(default = "one")]
    pub format: u32,
    pub url: String,
    #[serde(default)]
    pub unix: Option<String>,
    #[serde(default)]
    pub sources: Vec<String>,
    pub load: Load,
    #[serde(default = "five")]
    pub duration_s: f64,
    #[serde(default)]
    pub warmup_s: u64,
    #[serde(default = "five")]
    pub drain_s: f64,
    #[serde(default = "newest")]
    pub http: String,
    /// For https://, where it is needed.
    #[serde(default)]
    pub tls: Option<Tls>,
    #[serde(default)]
    pub keep_alive: Option<bool>,
    #[serde(default = "one_request")]
    pub requests: Vec<Request>,
    #[serde(default)]
    pub slow_read: Option<Slow>,
    #[serde(default)]
    pub slow_write: Option<Slow>,
    #[serde(default)]
    pub timeouts: Timeouts,
    #[serde(default)]
    pub threads: Option<usize>,
    #[serde(default)]
    pub cpus: Vec<usize>,
    #[serde(default = "seed")]
    pub seed: u64,
    #[serde(default)]
    pub start_at: Option<f64>,
    /// (k, n): this engine is the k-th of n that were given the same load, counted from 1, and drives its share.
    #[serde(default)]
    pub part: Option<(usize, usize)>,
    #[serde(default = "late")]
    pub late_after_ms: f64,
    #[serde(default)]
    pub trace: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Load {
    Closed(Closed),
    Open(Open),
    Sessions(Sessions),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    pub connections: usize,
    #[serde(default = "one_deep")]
    pub pipeline: usize,
    #[serde(default = "one_deep")]
    pub streams: usize,
    #[serde(default)]
    pub count: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    #[serde(default)]
    pub arrivals: Arrivals,
    #[serde(default)]
    pub rate: Option<f64>,
    #[serde(default)]
    pub steps: Option<Vec<(f64, f64)>>,
    #[serde(default)]
    pub ramp: Option<(f64, f64)>,
    #[serde(default)]
    pub max_connections: Option<usize>,
    #[serde(default = "one_deep")]
    pub streams: usize,
    #[serde(default)]
    pub count: Option<u64>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    #[serde(default)]
    pub arrivals: Arrivals,
    #[serde(default)]
    pub rate: Option<f64>,
    #[serde(default)]
    pub steps: Option<Vec<(f64, f64)>>,
    #[serde(default)]
    pub ramp: Option<(f64, f64)>,
    pub requests: u32,
    #[serde(default)]
    pub think_s: f64,
    #[serde(default)]
    pub count: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    #[default]
    Uniform,
    Poisson,
    Steps,
    Ramp,
}

/// Who may vouch for the server, and what is agreed on with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub ca: Option<String>,
    pub ca_file: Option<String>,
    pub insecure: bool,
    pub version: Option<String>,
    pub resume: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    pub name: String,
    pub weight: u32,
    pub method: String,
    pub target: Option<String>,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
    pub body_file: Option<String>,
    pub chunked: bool,
    pub chunk_bytes: usize,
    pub expect: Expect,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    pub status: Vec<u16>,
    pub length: Option<u64>,
    pub body: Option<String>,
    pub body_file: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    pub bytes: usize,
    pub every_s: f64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    pub connect_s: f64,
    pub first_byte_s: f64,
    pub body_s: f64,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            name: "request".into(),
            weight: 1,
            method: "GET".into(),
            target: None,
            headers: vec![("Accept".into(), "*/*".into())],
            body: None,
            body_file: None,
            chunked: false,
            chunk_bytes: 8192,
            expect: Expect::default(),
        }
    }
}

impl Default for Expect {
    fn default() -> Expect {
        Expect { status: vec![200], length: None, body: None, body_file: None }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect_s: 5.0, first_byte_s: 5.0, body_s: 5.0 }
    }
}

fn one() -> u32 {
    1
}
fn one_deep() -> usize {
    1
}
fn five() -> f64 {
    5.0
}
fn late() -> f64 {
    10.0
}
fn seed() -> u64 {
    1
}
fn newest() -> String {
    "1.1".into()
}
fn one_request() -> Vec<Request> {
    vec![Request::default()]
}

impl Plan {
    /// A plan for this address, all else by default: where flags begin.
    pub fn toward(url: String, load: Load) -> Plan {
        Plan {
            format: 1,
            url,
            unix: None,
            sources: Vec::new(),
            load,
            duration_s: five(),
            warmup_s: 0,
            drain_s: five(),
            http: newest(),
            tls: None,
            keep_alive: None,
            requests: one_request(),
            slow_read: None,
            slow_write: None,
            timeouts: Timeouts::default(),
            threads: None,
            cpus: Vec::new(),
            seed: seed(),
            start_at: None,
            part: None,
            late_after_ms: late(),
            trace: None,
        }
    }

    /// Whether connections are used again.
    pub fn keeps_alive(&self) -> bool {
        self.keep_alive.unwrap_or(self.http != "1.0")
    }

    pub fn is_http2(&self) -> bool {
        self.http == "2"
    }

    /// How many requests may be on their way on a connection.
    pub fn depth(&self) -> usize {
        match &self.load {
            Load::Closed(closed) => closed.pipeline.max(closed.streams),
            Load::Open(open) => open.streams,
            Load::Sessions(_) => 1,
        }
    }
}
