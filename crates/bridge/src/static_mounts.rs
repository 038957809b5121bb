//! Folders of files as Python tells of them (`forehand.static_files`), as the engine's mounts.
//!
//! Knows: names of keys. Does not know: how they were written down, or what a mount does. Runs on the thread that makes a
//! server.

use std::collections::HashSet;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use server::files::Mount;
use wire::ResponseHead;

/// The mounts of a list of dictionaries, those with the longest prefixes first.
///
/// # Errors
/// ValueError, for a key that is missing or a header that cannot be sent.
pub fn read(given: Vec<Bound<'_, PyDict>>) -> PyResult<Vec<Mount>> {
    let mut mounts = given.iter().map(mount).collect::<PyResult<Vec<_>>>()?;
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.prefix.len()));
    Ok(mounts)
}

fn mount(given: &Bound<'_, PyDict>) -> PyResult<Mount> {
    let headers: Vec<(String, String)> = key(given, "headers")?;
    for (name, value) in &headers {
        ResponseHead::new()
            .field(name.as_bytes(), value.as_bytes())
            .map_err(|error| PyValueError::new_err(format!("setting static: header {name}: {error}")))?;
    }
    let name = |name: Option<String>| name.map(String::into_bytes);
    Ok(Mount {
        prefix: key::<String>(given, "prefix")?.trim_end_matches('/').into(),
        root: key::<PathBuf>(given, "folder")?,
        file: key::<Option<PathBuf>>(given, "file")?.map(|path| path.into_os_string().into_vec()),
        index: name(key(given, "index")?),
        fallback: name(key(given, "fallback")?),
        falls_through: key(given, "try")?,
        max_age: key(given, "max_age")?,
        immutable: key::<Vec<String>>(given, "immutable")?.into_iter().map(String::into_bytes).collect(),
        immutable_names: key::<Vec<String>>(given, "names")?
            .into_iter()
            .map(String::into_bytes)
            .collect::<HashSet<_>>(),
        headers: headers.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect(),
    })
}

fn key<'py, T: FromPyObjectOwned<'py>>(given: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let value = given
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("setting static: '{name}' is missing")))?;
    value.extract().map_err(|error| {
        PyValueError::new_err(format!("setting static: {name}: {}", Into::<PyErr>::into(error)))
    })
}
