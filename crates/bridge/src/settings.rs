//! Python's settings as the engine's configuration.
//!
//! Knows: the names of `python/forehand/settings.py`. Does not know: where a value came from.
//! Runs on the thread that makes a server.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Once};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use reactor::sys::{Access, CloseOnFork, Handoff, ListenerFd, duplicate_file};
use server::access::{AccessLog, Format};
use server::engine::{AutoThreads, Config, LOCAL, QUIET_LOOKS, ServerTiming, Tracebacks};
use server::health::{Check, HealthPaths, Patience};
use server::lanes::rule::FEWEST_THREADS;
use server::lanes::{ByHand, FairBy, Lane, Priority};
use server::listener::{Kind, Listener};
use server::log::{Form, Level, Log};
use server::mounted::Mounted;
use server::request_deadlines::RequestTimeouts;
use server::request_id::RequestIds;
use server::scoreboard::Scoreboard;
use server::sendfile::Sendfile;
use server::slow_requests::SlowAfter;
use server::statistics::bell::Bell;
use server::statistics::known_routes::{KnownRoutes, known_routes};
use server::statistics::segment::{self, Segment};
use server::statistics::spans::Writer;
use server::tls::Material;
use server::tracing::{Sampler, Tracing};
use server::turn::Loop;
use server::unique::Unique;
use wire::{Family, Limits, Policy, Trust};

/// Listeners as Python tells of them (`forehand.listen`): a descriptor, which Python keeps open, its URL,
/// and what is spoken on its connections.
pub type Listeners = Vec<(RawFd, String, String)>;

/// What the engine does not need to know, but the bridge does.
pub struct Settings {
    pub config: Config,
    pub log: Log,
    pub threads: usize,
    pub script_name: String,
    pub url_scheme: String,
    pub multiprocess: bool,
    pub watch_routes: bool,
}

/// All of what is spoken on a listener of this kind is within TLS.
pub fn within_tls(kind: &str) -> bool {
    kind.split('?').next() == Some("https")
}

/// One setting, or its default.
pub fn get<'py, T: FromPyObjectOwned<'py>>(
    settings: &Bound<'py, PyDict>,
    name: &str,
    default: T,
) -> PyResult<T> {
    match settings.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map_err(|error| {
            PyValueError::new_err(format!("setting {name}: {}", Into::<PyErr>::into(error)))
        }),
        _ => Ok(default),
    }
}

/// Where the worker tells its supervisor of itself.
fn report(settings: &Bound<'_, PyDict>) -> PyResult<Option<CloseOnFork>> {
    let fd = get::<Option<RawFd>>(settings, "report_fd", None)?;
    Ok(fd.map(CloseOnFork::copy_of).transpose()?)
}

/// How many threads there may be at the most, and the memory that bounds them, where their number follows from what they
/// finish.
fn threads_auto(settings: &Bound<'_, PyDict>) -> PyResult<Option<AutoThreads>> {
    let given = get::<Option<(u32, u64, String)>>(settings, "threads_auto", None)?;
    Ok(given.map(|(most, memory_bytes, kind)| AutoThreads {
        most,
        memory_bytes,
        proportional: kind == "pss",
    }))
}

impl Settings {
    /// Reads a mapping. Unknown keys are ignored: the definition in Python has checked them.
    ///
    /// # Errors
    /// ValueError names the setting and what is wrong with it.
    pub fn read(settings: &Bound<'_, PyDict>) -> PyResult<Self> {
        let limits = limits(settings)?;
        let log_level: String = get(settings, "log_level", "info".into())?;
        let level = Level::parse(&log_level)
            .ok_or_else(|| PyValueError::new_err(format!("setting log_level: '{log_level}' is no level")))?;
        let form = Form::parse(&get::<String>(settings, "log_form", String::new())?);
        let log = Log::new(get(settings, "log_fd", 2)?, level, limits.error_log_rate, form)
            .unwrap_or_else(|_| Log::none());
        let (trust, script_name) = (trust(settings)?, script_name(settings)?);
        let mounted = Mounted::new(script_name.clone().into_bytes(), trust.clone());
        let (scoreboard, [handoff, apart]) = scoreboard(settings)?;
        let threads_auto = threads_auto(settings)?;
        let threads = begun_with(settings, threads_auto, scoreboard.as_ref())?;
        // The name of a request is that of its trace.
        let unique = Unique::new();
        let (tracing, spans) = tracing(settings, unique)?;
        let known = routes_of_others(settings, threads)?;
        let config = Config {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            threads_auto,
            scoreboard,
            statistics: statistics(settings)?,
            bell: bell(settings)?,
            quick_routes: known.quick,
            used_by_routes: known.used,
            computing_apart: get(settings, "computing_apart", true)?,
            request_id: request_id(settings, unique)?,
            server_timing: server_timing(settings)?,
            tracing,
            spans,
            ask_routes: get(settings, "ask_routes", false)?,
            slow_after: slow_after(settings)?.of_mounted(mounted.clone()),
            https: get::<String>(settings, "url_scheme", "http".into())? == "https",
            handoff,
            apart,
            shared_listeners: get(settings, "shared_listeners", false)?,
            quiet_looks: QUIET_LOOKS,
            unfinished_make_room: false,
            report: report(settings)?,
            max_requests: max_requests(settings)?,
            request_timeouts: request_timeouts(settings, &limits)?,
            by_hand: by_hand(settings)?,
            mounted,
            sendfile: sendfile(settings)?,
            health_paths: health_paths(settings, &limits)?,
            mounts: crate::static_mounts::read(get(settings, "static", Vec::new())?)?,
            policy: policy(settings)?,
            proxy_from: parse_trust(&get::<String>(settings, "proxy_protocol_from", LOCAL.into())?)?,
            gateway_from: parse_trust(&get::<String>(settings, "gateway_allow", LOCAL.into())?)?,
            proxy_tls: get(settings, "proxy_protocol_tls", false)?,
            trust,
            server_header: get::<String>(settings, "server_header", String::new())?.into_bytes(),
            request_buffering: get(settings, "request_buffering", true)?,
            access: access(settings, &log)?,
            tracebacks: tracebacks(settings)?,
            tls: get::<Option<Vec<u8>>>(settings, "tls", None)?.map(|bytes| material(&bytes)).transpose()?,
            limits,
            // What an application needs that is no WSGI in threads.
            ..Config::default()
        };
        Ok(Self {
            config,
            log,
            threads,
            watch_routes: get(settings, "watch_routes", false)?,
            script_name,
            url_scheme: get(settings, "url_scheme", "http".into())?,
            multiprocess: get(settings, "multiprocess", false)?,
        })
    }

    /// `wsgi.url_scheme` of a listener of this kind, before anybody else says something of it.
    pub fn scheme_of(&self, kind: &str) -> &str {
        if within_tls(kind) { "https" } else { &self.url_scheme }
    }

    /// The loop over listeners.
    ///
    /// # Errors
    /// The kernel's; a ValueError for a kind that is not known.
    pub fn into_loop(self, listeners: &Listeners) -> PyResult<Loop> {
        quiet_panics(&self.log);
        let listeners = listeners.iter().map(listener).collect::<PyResult<_>>()?;
        Ok(Loop::new(self.config, self.log, listeners)?)
    }
}

fn listener((fd, url, kind): &(RawFd, String, String)) -> PyResult<Listener> {
    let Some(known) = Kind::named(kind) else {
        return Err(PyValueError::new_err(format!("{url}: there is no listener of the kind '{kind}'")));
    };
    Ok(Listener { fd: ListenerFd::new(*fd)?, kind: known })
}

fn limits(settings: &Bound<'_, PyDict>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    if let Some(given) = settings.get_item("limits")? {
        for (name, value) in given.cast::<PyDict>()?.iter() {
            let (name, value): (String, u64) = (name.extract()?, value.extract()?);
            limits.set(&name, value).map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
    }
    Ok(limits)
}

/// A way on which connections go, where there are other workers.
type Way = Option<Arc<Handoff>>;

/// Page, row, wakeup, and both ends of each way.
type Place = (RawFd, usize, RawFd, RawFd, RawFd, RawFd, RawFd);

/// The scoreboard, and the ways on which connections go between workers: to anybody, and to whoever takes requests that compute
/// (`supervisor/scoreboard.py`).
fn scoreboard(settings: &Bound<'_, PyDict>) -> PyResult<(Option<Scoreboard>, [Way; 2])> {
    let Some(place) = get::<Option<Place>>(settings, "scoreboard", None)? else {
        return Ok((None, [None, None]));
    };
    let (fd, row, notifier, give, take, give_apart, take_apart) = place;
    let way = |give, take| Handoff::join(give, take).map(|way| Some(Arc::new(way)));
    Ok((Some(Scoreboard::join(fd, row, notifier)?), [way(give, take)?, way(give_apart, take_apart)?]))
}

/// With how many threads it begins: what others have come to is known, and not found out anew after each reload.
fn begun_with(
    settings: &Bound<'_, PyDict>,
    auto: Option<AutoThreads>,
    others: Option<&Scoreboard>,
) -> PyResult<usize> {
    let given: usize = get(settings, "threads", 1)?;
    let (Some(auto), Some(others)) = (auto, others) else { return Ok(given) };
    Ok(given.max(usize::try_from(others.most_threads())?).min(auto.most as usize))
}

/// Where statistics are written: a descriptor, and the row (`supervisor/statistics.py`). What is collected is, from now on.
fn statistics(settings: &Bound<'_, PyDict>) -> PyResult<Option<&'static [AtomicU64]>> {
    let place: Option<(RawFd, usize)> = get(settings, "statistics", None)?;
    let Some((fd, row)) = place else { return Ok(None) };
    let words = segment::join(fd, row)?;
    crate::collector::watch(settings.py(), words)?;
    Ok(Some(words))
}

/// Who is believed that speaks for others, and what of it.
fn trust(settings: &Bound<'_, PyDict>) -> PyResult<Trust> {
    Ok(of_family(
        parse_trust(&get::<String>(settings, "forwarded_allow_ips", LOCAL.into())?)?,
        &get::<String>(settings, "forwarded_headers", String::new())?,
    ))
}

/// Where the application is mounted, as the server was told.
fn script_name(settings: &Bound<'_, PyDict>) -> PyResult<String> {
    Ok(get::<String>(settings, "script_name", String::new())?.trim_end_matches('/').into())
}

/// Who is shown where an application has failed.
fn tracebacks(settings: &Bound<'_, PyDict>) -> PyResult<Tracebacks> {
    Ok(match get::<String>(settings, "tracebacks", String::new())?.as_str() {
        "always" => Tracebacks::Always,
        "local" => Tracebacks::Local,
        _ => Tracebacks::Never,
    })
}

/// What wakes those who look there: the same descriptor.
fn bell(settings: &Bound<'_, PyDict>) -> PyResult<Option<Bell>> {
    let place: Option<(RawFd, usize)> = get(settings, "statistics", None)?;
    Ok(place.map(|(fd, _)| segment::join_bell(fd)).transpose()?)
}

/// Which routes were quick with the workers before this one and beside it, and what they use of a processor, for lanes: none where there are none.
fn routes_of_others(settings: &Bound<'_, PyDict>, threads: usize) -> PyResult<KnownRoutes> {
    let place: Option<(RawFd, usize)> = get(settings, "statistics", None)?;
    let Some((fd, _)) = place.filter(|_| threads >= FEWEST_THREADS as usize) else {
        return Ok(KnownRoutes::default());
    };
    let segment = Segment::open(duplicate_file(fd)?.into(), Access::Read)?;
    Ok(known_routes(&segment)?)
}

/// Where probes are answered, and where it is read how the server is: the same descriptor.
fn health_paths(settings: &Bound<'_, PyDict>, limits: &Limits) -> PyResult<HealthPaths> {
    let named: Vec<(String, String)> = get(settings, "health_paths", Vec::new())?;
    let place: Option<(RawFd, usize)> = get(settings, "statistics", None)?;
    if named.is_empty() {
        return Ok(HealthPaths::default());
    }
    let mut paths = Vec::with_capacity(named.len());
    for (path, name) in named {
        let check = Check::named(&name)
            .ok_or_else(|| PyValueError::new_err(format!("no check is called '{name}'")))?;
        paths.push((path.into_bytes(), check));
    }
    let open = |(fd, _)| Segment::open(duplicate_file(fd)?.into(), Access::Read);
    Ok(HealthPaths {
        paths,
        patience: Patience {
            stall: get(settings, "liveness_stall", 0)?,
            deadlines: limits.request_timeout > 0,
        },
        statistics: place.map(open).transpose()?,
    })
}

/// What names requests; none: nothing does.
fn request_id(settings: &Bound<'_, PyDict>, unique: Unique) -> PyResult<Option<RequestIds>> {
    let name: String = get(settings, "request_id", String::new())?;
    Ok((!name.is_empty()).then(|| RequestIds::new(&name, unique)))
}

fn server_timing(settings: &Bound<'_, PyDict>) -> PyResult<ServerTiming> {
    Ok(match get::<String>(settings, "server_timing", String::new())?.as_str() {
        "all" => ServerTiming::All,
        "trusted" => ServerTiming::Trusted,
        _ => ServerTiming::Off,
    })
}

/// Which requests are recorded, and where their spans are left: a descriptor and the row, the share of traces, and
/// whether senders decide (`supervisor/tracing.py`).
fn tracing(settings: &Bound<'_, PyDict>, unique: Unique) -> PyResult<(Option<Tracing>, Option<Arc<Writer>>)> {
    let place: Option<(RawFd, usize, f64, bool)> = get(settings, "tracing", None)?;
    let Some((fd, row, ratio, by_parent)) = place else { return Ok((None, None)) };
    let writer = Arc::new(Writer::join(fd, row)?);
    Ok((Some(Tracing::new(Sampler { ratio, by_parent }, unique)), Some(writer)))
}

/// After how many requests this worker asks to be replaced: the bound, and up to the jitter
/// more, so that workers do not leave together.
fn max_requests(settings: &Bound<'_, PyDict>) -> PyResult<u64> {
    let (most, jitter): (u64, u64) = get(settings, "max_requests", (0, 0))?;
    if most == 0 || jitter == 0 {
        return Ok(most);
    }
    let random = settings.py().import("_random")?.getattr("Random")?.call0()?;
    let part: f64 = random.call_method0("random")?.extract()?;
    Ok(most + (part * (jitter + 1) as f64) as u64)
}

fn request_timeouts(settings: &Bound<'_, PyDict>, limits: &Limits) -> PyResult<RequestTimeouts> {
    let by_path: Vec<(String, u64)> = get(settings, "request_timeouts", Vec::new())?;
    let by_path = by_path.into_iter().map(|(prefix, time)| (decoded(&prefix), time)).collect();
    Ok(RequestTimeouts { usual: limits.request_timeout, by_path: longest_first(by_path) })
}

/// From when on requests are slow, by the beginning of their paths.
fn slow_after(settings: &Bound<'_, PyDict>) -> PyResult<SlowAfter> {
    let by_path: Vec<(String, u64)> = get(settings, "slow_requests", Vec::new())?;
    let by_path = by_path.into_iter().map(|(prefix, time)| (decoded(&prefix), time)).collect();
    Ok(SlowAfter::new(get(settings, "slow_request", 5000)?, longest_first(by_path)))
}

/// The beginning of a path as the server compares it: as applications see paths, so that nobody gets around what is said of
/// one by writing it in another way.
fn decoded(prefix: &str) -> Vec<u8> {
    wire::percent_decoded(prefix.as_bytes()).into_owned()
}

/// The first that fits decides.
fn longest_first<T>(mut by_path: Vec<(Vec<u8>, T)>) -> Vec<(Vec<u8>, T)> {
    by_path.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    by_path
}

/// Lanes, limits and priorities of routes, by the beginning of their paths.
fn by_hand(settings: &Bound<'_, PyDict>) -> PyResult<ByHand> {
    let lanes: Vec<(String, bool)> = get(settings, "lanes", Vec::new())?;
    let limits: Vec<(String, u32)> = get(settings, "route_limits", Vec::new())?;
    let priorities: Vec<(String, String)> = get(settings, "priorities", Vec::new())?;
    let priority = |(prefix, word): (String, String)| {
        let priority = match word.as_str() {
            "high" => Priority::High,
            "low" => Priority::Low,
            _ => Priority::Normal,
        };
        (decoded(&prefix), priority)
    };
    let fair_by: String = get(settings, "fair_by", String::new())?;
    let lane =
        |(prefix, slow): (String, bool)| (decoded(&prefix), if slow { Lane::Slow } else { Lane::Express });
    Ok(ByHand {
        lanes: longest_first(lanes.into_iter().map(lane).collect()),
        limits: longest_first(limits.into_iter().map(|(prefix, most)| (decoded(&prefix), most)).collect()),
        priorities: longest_first(priorities.into_iter().map(priority).collect()),
        fair_by: match fair_by.strip_prefix("header:") {
            Some(name) => Some(FairBy::Header(name.to_ascii_lowercase())),
            None if fair_by == "client" => Some(FairBy::Client),
            None => None,
        },
    })
}

/// Folders of which the application may name files: names and whole paths (`forehand.sendfile`).
fn sendfile(settings: &Bound<'_, PyDict>) -> PyResult<Option<Sendfile>> {
    let folders: Vec<(String, PathBuf)> = get(settings, "sendfile", Vec::new())?;
    Ok(if folders.is_empty() { None } else { Some(Sendfile::new(&folders)?) })
}

fn policy(settings: &Bound<'_, PyDict>) -> PyResult<Policy> {
    let mut policy = Policy::default();
    for name in get::<Vec<String>>(settings, "http_relax", Vec::new())? {
        policy.relax(&name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    for name in get::<Vec<String>>(settings, "http_refuse", Vec::new())? {
        policy.refuse(&name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(policy)
}

/// Reads what is handed over for TLS (`forehand.certificates`).
pub fn material(bytes: &[u8]) -> PyResult<Material> {
    Material::read(bytes, reactor::sys::wall_seconds())
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Parses a list of trusted peers.
pub fn parse_trust(text: &str) -> PyResult<Trust> {
    Trust::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Which family of headers trusted proxies are believed with.
fn of_family(trust: Trust, which: &str) -> Trust {
    match which {
        "x-forwarded" => trust.only(Family::XForwarded),
        "forwarded" => trust.only(Family::Forwarded),
        _ => trust,
    }
}

/// The access log, which tells `log` of lines that were lost.
fn access(settings: &Bound<'_, PyDict>, log: &Log) -> PyResult<Option<AccessLog>> {
    let format: Option<String> = get(settings, "access_log", None)?;
    let Some(format) = format.filter(|format| !format.is_empty()) else { return Ok(None) };
    let format = Format::parse(&format).map_err(PyValueError::new_err)?;
    let fd: RawFd = get(settings, "access_log_fd", 1)?;
    let form = Form::parse(&get::<String>(settings, "access_log_form", String::new())?);
    let log = Log::new(fd, Level::Info, 0, form)?.losses_to(log);
    Ok(Some(AccessLog { format, log }))
}

/// Faults of ours are shown in the log's own form, once; the request that met one gets 500.
fn quiet_panics(log: &Log) {
    static ONCE: Once = Once::new();
    let log = log.clone();
    ONCE.call_once(move || {
        std::panic::set_hook(Box::new(move |fault| {
            log.say(Level::Critical, &format!("a fault of the server, please report it: {fault}"));
        }));
    });
}
