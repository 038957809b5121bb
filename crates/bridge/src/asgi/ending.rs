//! What becomes of an exchange whose application is done, or has failed.
//!
//! Knows: what the client is told, and what the log. Does not know: how requests are found.
//! Runs on the event loop's thread.

use pyo3::prelude::*;

use super::reply::Http;
use super::request::{Request, Talk};
use super::server::AsgiServer;
use crate::disconnect::is_from_disconnect;
use crate::failure;

impl AsgiServer {
    pub fn failed_to_begin(&self, request: &Bound<'_, Request>, error: &PyErr) {
        let py = request.py();
        let taken = request.get().state.borrow(py).map(|mut state| {
            (
                std::mem::replace(&mut state.talk, Talk::Over { gone: false }),
                std::mem::replace(&mut state.place, usize::MAX),
            )
        });
        let Some((talk, place)) = taken else { return };
        self.leave(py, place);
        match talk {
            Talk::Http(http) => self.conclude(py, *http, Some(error), false),
            Talk::Socket(mut socket) => {
                if let Some(exchange) = socket.exchange.take() {
                    self.conclude(py, Http::new(exchange, self.scribe(py)), Some(error), false);
                }
            }
            Talk::Over { .. } => {}
        }
    }

    /// The application is done with an exchange that has not gone home.
    pub fn conclude(&self, py: Python<'_>, mut http: Http, error: Option<&PyErr>, cancelled: bool) {
        let exchange = &mut http.exchange;
        let broken = exchange.is_broken() || http.peer_left;
        match error {
            // An overdue one has been answered for already.
            _ if exchange.is_over() || exchange.is_overdue() => {}
            Some(_) if cancelled => {
                let fault = if self.engine.stage() == server::engine::Stage::Serving {
                    wire::INTERNAL_ERROR
                } else {
                    wire::STOPPING
                };
                exchange.refuse(&fault, &mut http.scribe, &self.engine);
            }
            Some(error) if broken && is_from_disconnect(py, error) => exchange.lose(&self.engine),
            Some(error) => {
                failure::tell(py, &exchange.about(), error);
                failure::answer(py, exchange, &self.engine, error);
            }
            // Nobody is left who could miss the response.
            None if broken => exchange.lose(&self.engine),
            None => {
                let what = if exchange.is_unanswered() {
                    "without a response"
                } else {
                    "before its response was complete"
                };
                let error = pyo3::exceptions::PyRuntimeError::new_err(format!(
                    "the application returned {what} (ASGI)"
                ));
                failure::tell(py, &exchange.about(), &error);
                failure::answer(py, exchange, &self.engine, &error);
            }
        }
        self.home(py, http);
    }
}
