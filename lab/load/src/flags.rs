//! The command line: flags for people, which become the same plan that a file holds. Knows no socket.

use crate::plan::{Arrivals, Closed, Load, Open, Plan, Sessions, Slow, Stop, wrong};
use crate::run::Live;
use lexopt::{Arg, Parser, ValueExt as _};
use std::fs;
use std::path::PathBuf;

pub const HELP: &str = "\
Load on an HTTP server, with times counted from the planned start.

  forehand-load URL [flags]
  forehand-load --plan FILE [--output FILE] [--live | --live-json]
  forehand-load --certificate DIR [HOST ...]    a certificate for tests: DIR/cert.pem, DIR/key.pem

closed loop (the default)
  --connections N         so many connections, each asking again at once (64)
  --pipeline N            requests on their way on each (1)
  --streams N             the same with HTTP/2, at the same time
open loop
  --rate N                requests a second; 100:5s,200:5s for steps; 0..1000 for a ramp
  --arrivals SHAPE        uniform (default), poisson, steps, ramp
  --max-connections N     others wait in a queue, and their time counts
  --streams N             requests on a connection with HTTP/2, before another is opened (1)
sessions
  --sessions N            clients a second, written as for --rate
  --requests N            of each (1)          --think TIME  between them (0)
all
  --duration TIME         5s, 500ms, 2m (5s)   --warmup SECONDS   --drain TIME (5s)
  --count N               end after so many requests (or sessions)
  --http 1.0|1.1|2        --keep-alive         --close
  --ca FILE | --insecure  for https://: who vouches for the server, or nobody
  --tls 1.2|1.3           --resume             one version alone; with tickets of earlier connections
  --method NAME           --header 'A: b'      --body-file FILE   --chunked
  --slow-read N:TIME      --slow-write N:TIME  N bytes, then wait
  --unix PATH             --source ADDRESS     (may be repeated)
  --expect-status N,N     --expect-length N    --expect-body-file FILE
  --timeout TIME          connect, first byte and body (5s)
  --threads N             --cpu N,N            --seed N
  --start-at UNIX         --late-after TIME (10ms)   --part K/N (of the load, for K of N machines)
  --trace FILE            every request and its moments, as CSV
  --plan FILE             the plan as JSON; no other flag of the load beside it
  --output FILE           the result as JSON; without it, to standard output (some lines, if that is a terminal)
  --live, --live-json     a line a second on standard error, where that is no terminal

FORMAT.md describes the plan and the result.
";

/// What the command line asks for.
#[derive(Debug)]
pub enum Order {
    Help,
    Version,
    Certificate { folder: PathBuf, hosts: Vec<String> },
    Run { plan: Box<Plan>, output: Option<PathBuf>, live: Live },
}

/// Flags as they were given, before they are a plan.
#[derive(Default)]
struct Given {
    url: Option<String>,
    plan: Option<PathBuf>,
    output: Option<PathBuf>,
    live: Live,
    connections: Option<usize>,
    pipeline: Option<usize>,
    streams: Option<usize>,
    rate: Option<String>,
    sessions: Option<String>,
    arrivals: Option<Arrivals>,
    max_connections: Option<usize>,
    requests: Option<u32>,
    think: Option<f64>,
    count: Option<u64>,
    /// The rest changes the plan directly, in the order given.
    changes: Vec<Change>,
}

type Change = Box<dyn FnOnce(&mut Plan)>;

impl Given {
    fn change(&mut self, change: impl FnOnce(&mut Plan) + 'static) {
        self.changes.push(Box::new(change));
    }
}

/// Reads the arguments after the program's name.
pub fn read(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Order, Stop> {
    let mut parser = Parser::from_args(arguments);
    let mut given = Given::default();
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Order::Help),
            Arg::Long("version") => return Ok(Order::Version),
            Arg::Long("certificate") => return certificate(&mut parser),
            Arg::Value(url) if given.url.is_none() => given.url = Some(url.string().map_err(bad)?),
            Arg::Long(name) => {
                let name = name.to_string();
                let known =
                    take_load(&name, &mut parser, &mut given)? || take_rest(&name, &mut parser, &mut given)?;
                if !known {
                    return wrong(format!("there is no flag --{name}; --help lists them"));
                }
            }
            other => return wrong(format!("{}; --help lists what there is", other.unexpected())),
        }
    }
    given.order()
}

/// A folder, and the hosts that the certificate is of beside this machine's loopback.
fn certificate(parser: &mut Parser) -> Result<Order, Stop> {
    let folder = text(parser)?.into();
    let mut hosts = Vec::new();
    while let Some(argument) = parser.next().map_err(bad)? {
        let Arg::Value(host) = argument else {
            return wrong("--certificate DIR [HOST ...] goes with no other flag".into());
        };
        hosts.push(host.string().map_err(bad)?);
    }
    Ok(Order::Certificate { folder, hosts })
}

fn bad(error: lexopt::Error) -> Stop {
    Stop::Plan(format!("{error}; --help lists what there is"))
}

fn text(parser: &mut Parser) -> Result<String, Stop> {
    parser.value().map_err(bad)?.string().map_err(bad)
}

fn number<T: std::str::FromStr>(name: &str, parser: &mut Parser) -> Result<T, Stop> {
    let text = text(parser)?;
    text.parse().map_err(|_| Stop::Plan(format!("--{name} {text:?} is not the number that it needs")))
}

fn time(name: &str, parser: &mut Parser) -> Result<f64, Stop> {
    seconds(&text(parser)?)
        .ok_or_else(|| Stop::Plan(format!("--{name} needs a time, such as 5s, 500ms or 2m")))
}

/// `5s`, `500ms`, `100us`, `2m`, or a number of seconds.
fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1.0));
    digits
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && *number >= 0.0)
        .map(|number| number * unit)
}

/// Flags that say what kind of load, and where it comes from.
fn take_load(name: &str, parser: &mut Parser, given: &mut Given) -> Result<bool, Stop> {
    match name {
        "plan" => given.plan = Some(text(parser)?.into()),
        "output" => given.output = Some(text(parser)?.into()),
        "live" => given.live = Live::Lines,
        "live-json" => given.live = Live::Json,
        "connections" => given.connections = Some(number(name, parser)?),
        "pipeline" => given.pipeline = Some(number(name, parser)?),
        "streams" => given.streams = Some(number(name, parser)?),
        "rate" => given.rate = Some(text(parser)?),
        "sessions" => given.sessions = Some(text(parser)?),
        "arrivals" => {
            given.arrivals = Some(match text(parser)?.as_str() {
                "uniform" => Arrivals::Uniform,
                "poisson" => Arrivals::Poisson,
                "steps" => Arrivals::Steps,
                "ramp" => Arrivals::Ramp,
                other => return wrong(format!("--arrivals {other:?}: uniform, poisson, steps or ramp")),
            });
        }
        "max-connections" => given.max_connections = Some(number(name, parser)?),
        "requests" => given.requests = Some(number(name, parser)?),
        "think" => given.think = Some(time(name, parser)?),
        "count" => given.count = Some(number(name, parser)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Flags that change one field of the plan.
fn take_rest(name: &str, parser: &mut Parser, given: &mut Given) -> Result<bool, Stop> {
    macro_rules! set {
        ($value:expr, $plan:ident.$($field:tt)+) => {{
            let value = $value;
            given.change(move |$plan| $plan.$($field)+ = value);
        }};
    }
    match name {
        "duration" => set!(time(name, parser)?, plan.duration_s),
        "warmup" => set!(time(name, parser)?.ceil() as u64, plan.warmup_s),
        "drain" => set!(time(name, parser)?, plan.drain_s),
        "http" => set!(text(parser)?, plan.http),
        "ca" => set!(Some(text(parser)?), plan.tls.get_or_insert_default().ca_file),
        "insecure" => set!(true, plan.tls.get_or_insert_default().insecure),
        "tls" => set!(Some(text(parser)?), plan.tls.get_or_insert_default().version),
        "resume" => set!(true, plan.tls.get_or_insert_default().resume),
        "keep-alive" => set!(Some(true), plan.keep_alive),
        "close" => set!(Some(false), plan.keep_alive),
        "method" => set!(text(parser)?, plan.requests[0].method),
        "header" => {
            let line = text(parser)?;
            let Some((field, value)) = line.split_once(':') else {
                return wrong(format!("--header {line:?} has no colon: write 'Name: value'"));
            };
            let field = (field.to_string(), value.trim().to_string());
            given.change(move |plan| plan.requests[0].headers.push(field));
        }
        "body-file" => set!(Some(text(parser)?), plan.requests[0].body_file),
        "chunked" => set!(true, plan.requests[0].chunked),
        "expect-status" => set!(numbers(name, parser)?, plan.requests[0].expect.status),
        "expect-length" => set!(Some(number(name, parser)?), plan.requests[0].expect.length),
        "expect-body-file" => set!(Some(text(parser)?), plan.requests[0].expect.body_file),
        "slow-read" => set!(Some(slow(name, parser)?), plan.slow_read),
        "slow-write" => set!(Some(slow(name, parser)?), plan.slow_write),
        "unix" => set!(Some(text(parser)?), plan.unix),
        "source" => {
            let source = text(parser)?;
            given.change(move |plan| plan.sources.push(source));
        }
        "timeout" => {
            let limit = time(name, parser)?;
            given.change(move |plan| {
                plan.timeouts.connect_s = limit;
                plan.timeouts.first_byte_s = limit;
                plan.timeouts.body_s = limit;
            });
        }
        "threads" => set!(Some(number(name, parser)?), plan.threads),
        "cpu" => set!(numbers(name, parser)?, plan.cpus),
        "seed" => set!(number(name, parser)?, plan.seed),
        "part" => {
            let text = text(parser)?;
            let part = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
            let part = part.ok_or_else(|| Stop::Plan(format!("--part {text:?}: K/N, such as 1/3")))?;
            set!(Some(part), plan.part)
        }
        "start-at" => set!(Some(number(name, parser)?), plan.start_at),
        "trace" => set!(Some(text(parser)?), plan.trace),
        "late-after" => set!(time(name, parser)? * 1e3, plan.late_after_ms),
        _ => return Ok(false),
    }
    Ok(true)
}

fn numbers<T: std::str::FromStr>(name: &str, parser: &mut Parser) -> Result<Vec<T>, Stop> {
    let text = text(parser)?;
    let numbers: Result<Vec<T>, _> = text.split(',').map(str::parse).collect();
    numbers.map_err(|_| Stop::Plan(format!("--{name} {text:?}: numbers, with commas between them")))
}

/// `1024:100ms`.
fn slow(name: &str, parser: &mut Parser) -> Result<Slow, Stop> {
    let text = text(parser)?;
    let parts = text.split_once(':').and_then(|(bytes, every)| Some((bytes.parse().ok()?, seconds(every)?)));
    let (bytes, every_s) = parts
        .ok_or_else(|| Stop::Plan(format!("--{name} {text:?}: bytes and a time, such as 1024:100ms")))?;
    Ok(Slow { bytes, every_s })
}

/// A rate as it is written: a number, steps, or a ramp.
#[derive(Default)]
struct Rate {
    arrivals: Arrivals,
    rate: Option<f64>,
    steps: Option<Vec<(f64, f64)>>,
    ramp: Option<(f64, f64)>,
}

fn rate(text: &str, arrivals: Option<Arrivals>) -> Result<Rate, Stop> {
    let explain = || {
        Stop::Plan(format!(
            "the rate {text:?} is neither a number, nor steps (100:5s,200:5s), nor a ramp (0..1000)"
        ))
    };
    let written = if let Some((from, to)) = text.split_once("..") {
        let ramp = (from.parse().map_err(|_| explain())?, to.parse().map_err(|_| explain())?);
        Rate { arrivals: Arrivals::Ramp, ramp: Some(ramp), ..Rate::default() }
    } else if text.contains(':') {
        let step = |step: &str| {
            step.split_once(':').and_then(|(rate, time)| Some((rate.parse().ok()?, seconds(time)?)))
        };
        let steps: Option<Vec<(f64, f64)>> = text.split(',').map(step).collect();
        Rate { arrivals: Arrivals::Steps, steps: Some(steps.ok_or_else(explain)?), ..Rate::default() }
    } else {
        Rate { rate: Some(text.parse().map_err(|_| explain())?), ..Rate::default() }
    };
    Ok(Rate { arrivals: arrivals.unwrap_or(written.arrivals), ..written })
}

impl Given {
    fn order(self) -> Result<Order, Stop> {
        let (output, live) = (self.output.clone(), self.live);
        let plan = if let Some(path) = &self.plan {
            if self.url.is_some() || !self.changes.is_empty() || self.has_load() {
                return wrong(
                    "--plan holds the whole load: beside it only --output, --live and --live-json".into(),
                );
            }
            let text = fs::read(path)
                .map_err(|error| Stop::Plan(format!("cannot read the plan {path:?}: {error}")))?;
            serde_json::from_slice(&text)
                .map_err(|error| Stop::Plan(format!("the plan {path:?} is not as FORMAT.md says: {error}")))?
        } else {
            self.plan()?
        };
        Ok(Order::Run { plan: Box::new(plan), output, live })
    }

    fn has_load(&self) -> bool {
        self.connections.is_some()
            || self.rate.is_some()
            || self.sessions.is_some()
            || self.count.is_some()
            || self.arrivals.is_some()
    }

    fn plan(self) -> Result<Plan, Stop> {
        let Some(url) = self.url.clone() else {
            return wrong("no URL: forehand-load http://127.0.0.1:8000/ (--help tells more)".into());
        };
        let mut plan = Plan::toward(url, self.load()?);
        for change in self.changes {
            change(&mut plan);
        }
        Ok(plan)
    }

    fn load(&self) -> Result<Load, Stop> {
        let only = |kind: &str, flags: &[(&str, bool)]| match flags.iter().find(|(_, given)| *given) {
            Some((flag, _)) => wrong(format!("--{flag} does not belong to {kind}")),
            None => Ok(()),
        };
        let of_sessions = [("requests", self.requests.is_some()), ("think", self.think.is_some())];
        let of_closed = [("connections", self.connections.is_some()), ("pipeline", self.pipeline.is_some())];
        let queue = ("max-connections", self.max_connections.is_some());
        let streams = self.streams.unwrap_or(1);
        match (&self.rate, &self.sessions) {
            (Some(_), Some(_)) => wrong("--rate and --sessions are both given: choose one".into()),
            (Some(text), None) => {
                only("an open loop (--rate); did you mean --max-connections?", &of_closed)?;
                only("an open loop (--rate)", &of_sessions)?;
                let Rate { arrivals, rate, steps, ramp } = rate(text, self.arrivals)?;
                Ok(Load::Open(Open {
                    arrivals,
                    rate,
                    steps,
                    ramp,
                    max_connections: self.max_connections,
                    streams,
                    count: self.count,
                }))
            }
            (None, Some(text)) => {
                only("sessions", &of_closed)?;
                only("sessions", &[queue, ("streams", self.streams.is_some())])?;
                let Rate { arrivals, rate, steps, ramp } = rate(text, self.arrivals)?;
                let (requests, think_s) = (self.requests.unwrap_or(1), self.think.unwrap_or(0.0));
                Ok(Load::Sessions(Sessions {
                    arrivals,
                    rate,
                    steps,
                    ramp,
                    requests,
                    think_s,
                    count: self.count,
                }))
            }
            (None, None) => {
                only("a closed loop; add --sessions", &of_sessions)?;
                only("a closed loop; add --rate", &[queue, ("arrivals", self.arrivals.is_some())])?;
                let connections = self.connections.unwrap_or(64);
                Ok(Load::Closed(Closed {
                    connections,
                    pipeline: self.pipeline.unwrap_or(1),
                    streams,
                    count: self.count,
                }))
            }
        }
    }
}
