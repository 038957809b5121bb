//! What becomes of an exchange whose application is done, or has failed.
//!
//! Knows: what the client is told, and what the log. Does not know: how requests are found.
//! Runs on the event loop's thread.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use server::engine::{Engine, Stage};

use super::reply::Http;
use crate::disconnect::is_from_disconnect;
use crate::failure;

/// The application is done with an exchange that has not been handed back.
pub fn conclude(py: Python<'_>, http: &mut Http, engine: &Engine, error: Option<&PyErr>, cancelled: bool) {
    let exchange = &mut http.exchange;
    let broken = exchange.is_broken() || http.peer_left;
    match error {
        // An overdue one has been answered for already.
        _ if exchange.is_over() || exchange.is_overdue() => {}
        Some(_) if cancelled => {
            let fault = if engine.stage() == Stage::Serving { wire::INTERNAL_ERROR } else { wire::STOPPING };
            exchange.refuse(&fault, &mut http.builder, engine);
        }
        Some(error) if broken && is_from_disconnect(py, error) => exchange.lose(engine),
        Some(error) => {
            failure::tell(py, &exchange.about(&engine.config), error);
            failure::answer(py, exchange, engine, error);
        }
        // Nobody is left who could miss the response.
        None if broken => exchange.lose(engine),
        None => {
            let what = if exchange.is_unanswered() {
                "without a response"
            } else {
                "before its response was complete"
            };
            let error = PyRuntimeError::new_err(format!("the application returned {what} (ASGI)"));
            failure::tell(py, &exchange.about(&engine.config), &error);
            failure::answer(py, exchange, engine, &error);
        }
    }
}
