//! An application's failure: told to the log with its traceback, and in development to the client.
//!
//! Knows: `forehand.logs`. Does not know: which interface the application has. Runs attached, on the thread whose
//! application has failed.

use std::fmt::Display;
use std::net::IpAddr;

use pyo3::intern;
use pyo3::prelude::*;
use server::engine::Engine;
use server::exchange::Exchange;
use server::reply_builder::ReplyBuilder;

/// Tells the log. `what` says which request it was, or what else has failed.
#[cold]
pub fn tell(py: Python<'_>, what: &dyn Display, error: &PyErr) {
    // Imported when the first application fails: most processes never need it.
    let told = py.import(intern!(py, "forehand.logs")).and_then(|logs| {
        logs.call_method1(intern!(py, "application_error"), (what.to_string(), whole(py, error)))
    });
    if let Err(untold) = told {
        untold.print(py);
    }
}

/// The exception with its traceback, which before CPython 3.12 is kept beside it.
fn whole(py: Python<'_>, error: &PyErr) -> Py<pyo3::exceptions::PyBaseException> {
    error.clone_ref(py).into_value(py)
}

/// Ends an exchange whose application has failed: the traceback as a page in development, otherwise 500 without a
/// word about the cause, or a cut where something of a reply was sent.
#[cold]
pub fn answer(py: Python<'_>, exchange: &mut Exchange, engine: &Engine, error: &PyErr) {
    if !is_shown(exchange, engine) {
        return exchange.fail(engine);
    }
    let page = py
        .import(intern!(py, "forehand.development"))
        .and_then(|module| {
            module.call_method1(
                intern!(py, "page"),
                (exchange.about(&engine.config).to_string(), whole(py, error)),
            )
        })
        .and_then(|page| page.extract::<Vec<u8>>());
    let mut builder = ReplyBuilder::new();
    let head = &mut builder.head;
    let written = head.status(b"500 Internal Server Error").is_ok()
        && head.field(b"Content-Type", b"text/html; charset=utf-8").is_ok()
        && head.field(b"Connection", b"close").is_ok();
    match page {
        Ok(page) if written => {
            engine.counters.application_errors.add();
            // A peer that is gone shows when the connection is home.
            let _ = exchange.whole_kept(&mut builder, Box::new(page), engine);
        }
        _ => exchange.fail(engine),
    }
}

/// In development, and as long as nothing was sent. A server on a terminal may be open to the world all the same: there
/// only clients of this machine are shown how the application looks inside, and nobody behind a proxy, which may be on this
/// machine and speak for anybody, whether it is believed or not.
fn is_shown(exchange: &Exchange, engine: &Engine) -> bool {
    use server::engine::Tracebacks;

    let proxied = || {
        let block = &exchange.head.block;
        let others = ["x-real-ip", "via", "true-client-ip", "cf-connecting-ip"];
        block.has_forwarding()
            || exchange.given().is_some()
            || others.iter().any(|name| block.get(name).is_some())
    };
    let local =
        || exchange.remote_address(engine).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) && !proxied();
    let wanted = match engine.config.tracebacks {
        Tracebacks::Never => false,
        Tracebacks::Local => local(),
        Tracebacks::Always => true,
    };
    wanted && !exchange.head_is_sent()
}
