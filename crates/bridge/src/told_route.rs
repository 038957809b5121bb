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
/// Flask.
#[cold]
pub fn from_environ(exchange: &mut Exchange, environ: &Bound<'_, PyDict>) {
    let said = environ.get_item(intern!(environ.py(), "forehand.route")).ok().flatten();
    exchange.is_for_route(said.and_then(|said| named(&said).ok().flatten()));
}

/// Takes it from `scope`, as the application has left that: `forehand.route`, or Starlette's and FastAPI's own route behind
/// the path that it is mounted at.
#[cold]
pub fn from_scope(exchange: &mut Exchange, scope: &Bound<'_, PyDict>) {
    exchange.is_for_route(found_in_scope(scope).ok().flatten());
}

fn found_in_scope(scope: &Bound<'_, PyDict>) -> PyResult<Option<Box<str>>> {
    let py = scope.py();
    if let Some(said) = scope.get_item(intern!(py, "forehand.route"))? {
        return named(&said);
    }
    let Some(route) = scope.get_item(intern!(py, "route"))? else { return Ok(None) };
    let Some(path) = named(&route.getattr(intern!(py, "path"))?)? else { return Ok(None) };
    // Below a mount `root_path` grows, and this is what it was. What was matched of a mount may be a key.
    let mounted = match scope.get_item(intern!(py, "app_root_path"))? {
        None => String::new(),
        Some(root) => {
            let (root, mounted): (String, String) =
                (root.extract()?, scope.as_any().get_item("root_path")?.extract()?);
            template_of_path(mounted.strip_prefix(root.as_str()).unwrap_or_default().as_bytes())
        }
    };
    Ok(Some(format!("{mounted}{path}").into()))
}

fn named(said: &Bound<'_, PyAny>) -> PyResult<Option<Box<str>>> {
    let said: String = said.extract()?;
    Ok((!said.is_empty() && said.len() <= LONGEST).then(|| said.into()))
}
