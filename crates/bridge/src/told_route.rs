//! What a framework says of the route of a request: the pattern that it has matched, which is no path.
//!
//! Knows: where Starlette and FastAPI leave it, and the key that anybody can set. Does not know: what it is for
//! (`server/statistics`). Asked of requests whose route is not known yet, with the interpreter in hand; whatever is raised
//! meanwhile means that there is none.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
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
    exchange.is_for_route(said_in_environ(environ));
}

/// What is said in it now.
pub fn said_in_environ(environ: &Bound<'_, PyDict>) -> Option<Box<str>> {
    found_in_environ(environ).ok().flatten()
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
    exchange.is_for_route(said_in_scope(scope));
}

/// What is said in it now.
pub fn said_in_scope(scope: &Bound<'_, PyDict>) -> Option<Box<str>> {
    found_in_scope(scope).ok().flatten()
}

fn found_in_scope(scope: &Bound<'_, PyDict>) -> PyResult<Option<Box<str>>> {
    let py = scope.py();
    let mounted = scope.get_item(intern!(py, "root_path"))?;
    if let Some(said) = scope.get_item(intern!(py, "forehand.route"))? {
        return behind(mounted, &said);
    }
    let Some(route) = scope.get_item(intern!(py, "route"))? else {
        // FastAPI says nothing of what it has mounted, but Starlette's `Mount` leaves this behind.
        let is_below_mount = scope.contains(intern!(py, "app_root_path"))?;
        return mounted
            .filter(|_| is_below_mount)
            .map_or(Ok(None), |mounted| at_mount(scope, mounted.extract()?));
    };
    let route = included(scope, &route)?.unwrap_or(route);
    let said = route.getattr(intern!(py, "path"))?;
    let Some(mounted) = mounted else { return behind(None, &said) };
    if route.hasattr(intern!(py, "routes"))? {
        return at_mount(scope, mounted.extract()?);
    }
    let parameters = scope.get_item(intern!(py, "path_params"))?;
    let own = route.getattr(intern!(py, "param_convertors"))?;
    let mounted = with_names(mounted.extract()?, parameters, Some(&own))?;
    behind(Some(mounted.into_pyobject(py)?.into_any()), &said)
}

/// A mount, below which no route was found: a folder of files, another application, nothing. Its path is where it is.
fn at_mount(scope: &Bound<'_, PyDict>, mounted: String) -> PyResult<Option<Box<str>>> {
    let parameters = scope.get_item(intern!(scope.py(), "path_params"))?;
    let mounted = with_names(mounted, parameters, None)?.into_pyobject(scope.py())?;
    behind(None, &mounted.into_any())
}

/// FastAPI's view of a route that stands in a router which was included: of the route itself only that has the prefix.
/// Earlier releases copied the route, prefix and all, and have no such thing.
fn included<'py>(
    scope: &Bound<'py, PyDict>,
    route: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = scope.py();
    let Some(known) = scope.get_item(intern!(py, "fastapi"))? else { return Ok(None) };
    let Ok(context) = known.get_item(intern!(py, "effective_route_context")) else { return Ok(None) };
    let is_its = context.getattr(intern!(py, "original_route"))?.is(route);
    Ok(is_its.then_some(context))
}

/// What the application is mounted at, with the names of parameters in place of what this path has there, of which there is no
/// end: `Mount("/of/{shop}")` is told as `/of/{shop}`. `own`: the route's own parameters, which are behind it. Those of a `Host`
/// are in no path.
fn with_names(
    mounted: String,
    parameters: Option<Bound<'_, PyAny>>,
    own: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let Some(parameters) = parameters else { return Ok(mounted) };
    let mut parts: Vec<String> = mounted.split('/').map(String::from).collect();
    for (name, value) in parameters.cast::<PyDict>()?.iter() {
        if own.is_some_and(|own| own.contains(&name).unwrap_or(false)) {
            continue;
        }
        let is_text = value.is_instance_of::<PyString>();
        let (name, value) = (name.extract::<String>()?, value.str()?.extract::<String>()?);
        match parts.iter_mut().find(|part| **part == value) {
            Some(part) => *part = format!("{{{name}}}"),
            None if mounted.is_empty() || is_text && !mounted.contains(&value) => {}
            // A part of a part, or several: nothing of it is told.
            None => return Ok("/*".into()),
        }
    }
    Ok(parts.join("/"))
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
