//! What a framework says of the route of a request: the pattern that it has matched, which is no path.
//!
//! Knows: where Starlette and FastAPI leave it, and the key that anybody can set. Does not know: what it is for
//! (`server/statistics`). Asked of requests whose route is not known yet, with the interpreter in hand; whatever is raised
//! meanwhile means that there is none.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::engine::Engine;
use server::exchange::Exchange;
use server::statistics::routes::template_of_path;
use server::statistics::wants_route;

/// Longer ones are no names.
const LONGEST: usize = 512;

/// The route is to be asked for.
#[inline]
pub fn is_wanted(exchange: &Exchange, engine: &Engine) -> bool {
    engine.config.ask_routes && wants_route(&exchange.head)
}

/// Takes it from `environ`, as the application has left that: `forehand.route`, which `forehand/route.py` sets for Django and
/// Flask, behind what the application is mounted at.
#[cold]
pub fn from_environ(exchange: &mut Exchange, environ: &Bound<'_, PyDict>) {
    exchange.is_for_route(found_in_environ(environ).ok().flatten());
}

fn found_in_environ(environ: &Bound<'_, PyDict>) -> PyResult<Option<Box<str>>> {
    let py = environ.py();
    let Some(said) = environ.get_item(intern!(py, "forehand.route"))? else { return Ok(None) };
    behind(environ.get_item(intern!(py, "SCRIPT_NAME"))?, &said)
}

/// Takes it from `scope`, as the application has left that: `forehand.route`, or Starlette's and FastAPI's own route, behind
/// what the application is mounted at.
#[cold]
pub fn from_scope(exchange: &mut Exchange, scope: &Bound<'_, PyDict>) {
    exchange.is_for_route(found_in_scope(scope).ok().flatten());
}

fn found_in_scope(scope: &Bound<'_, PyDict>) -> PyResult<Option<Box<str>>> {
    let py = scope.py();
    let said = match scope.get_item(intern!(py, "forehand.route"))? {
        Some(said) => said,
        None => match scope.get_item(intern!(py, "route"))? {
            Some(route) => route.getattr(intern!(py, "path"))?,
            None => return Ok(None),
        },
    };
    behind(scope.get_item(intern!(py, "root_path"))?, &said)
}

/// What was matched behind where the application is mounted. That may have a key in it, of which there is no end.
fn behind(mounted: Option<Bound<'_, PyAny>>, said: &Bound<'_, PyAny>) -> PyResult<Option<Box<str>>> {
    let said: String = said.extract()?;
    if said.is_empty() {
        return Ok(None);
    }
    let mounted = mounted.map_or(Ok(String::new()), |mounted| mounted.extract())?;
    let route = format!("{}{said}", template_of_path(mounted.trim_end_matches('/').as_bytes()));
    Ok((route.len() <= LONGEST).then(|| route.into()))
}
