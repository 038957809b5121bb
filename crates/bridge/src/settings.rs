//! Python's settings as the engine's configuration.
//!
//! Knows: the names of `python/forehand/settings.py`. Does not know: where a value came from.
//! Runs on the thread that makes a server.

use std::os::fd::RawFd;
use std::sync::Once;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::access::{AccessLog, Format};
use server::engine::Config;
use server::log::{Level, Log};
use wire::{Limits, Policy, Trust};

/// What the engine does not need to know, but the bridge does.
pub struct Settings {
    pub config: Config,
    pub log: Log,
    pub threads: usize,
    pub script_name: String,
    pub url_scheme: String,
    pub multiprocess: bool,
}

/// One setting, or its default.
fn get<'py, T: FromPyObjectOwned<'py>>(settings: &Bound<'py, PyDict>, name: &str, default: T) -> PyResult<T> {
    match settings.get_item(name)? {
        Some(value) if !value.is_none() => value.extract().map_err(|error| {
            PyValueError::new_err(format!("setting {name}: {}", Into::<PyErr>::into(error)))
        }),
        _ => Ok(default),
    }
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
        let log = Log::new(2, level, limits.error_log_rate).unwrap_or_else(|_| Log::none());
        let trust: String = get(settings, "forwarded_allow_ips", "127.0.0.0/8,::1,unix".into())?;
        let config = Config {
            policy: policy(settings)?,
            trust: parse_trust(&trust)?,
            server_header: get::<String>(settings, "server_header", String::new())?.into_bytes(),
            request_buffering: get(settings, "request_buffering", true)?,
            access: access(settings)?,
            limits,
        };
        let script_name: String = get(settings, "script_name", String::new())?;
        Ok(Self {
            config,
            log,
            threads: get(settings, "threads", 1)?,
            script_name: script_name.trim_end_matches('/').to_string(),
            url_scheme: get(settings, "url_scheme", "http".into())?,
            multiprocess: get(settings, "multiprocess", false)?,
        })
    }
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

/// Parses a list of trusted peers.
pub fn parse_trust(text: &str) -> PyResult<Trust> {
    Trust::parse(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn access(settings: &Bound<'_, PyDict>) -> PyResult<Option<AccessLog>> {
    let format: Option<String> = get(settings, "access_log", None)?;
    let Some(format) = format.filter(|format| !format.is_empty()) else { return Ok(None) };
    let format = Format::parse(&format).map_err(PyValueError::new_err)?;
    let fd: RawFd = get(settings, "access_log_fd", 1)?;
    let log = Log::new(fd, Level::Info, 0)?;
    Ok(Some(AccessLog { format, log }))
}

/// Faults of ours are shown in the log's own form, once; the request that met one gets 500.
pub fn quiet_panics(log: &Log) {
    static ONCE: Once = Once::new();
    let log = log.clone();
    ONCE.call_once(move || {
        std::panic::set_hook(Box::new(move |fault| {
            log.say(Level::Critical, &format!("a fault of the server, please report it: {fault}"));
        }));
    });
}
