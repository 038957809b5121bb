//! Which of the routes that a framework has told a path is of, before the framework says so itself: it does when it is done.
//!
//! Knows: how Flask, Django, Starlette and FastAPI write a part that may have any value. Does not know: which values those are;
//! of two routes that a path could be of it is the one that says more. For who looks while a request runs; counted is by what
//! is told.

use super::layout::{ROUTE_COUNT, Word};
use super::routes;

/// The name of the told route that `GET /path` is of, if it could be of one.
pub fn told_of(words: &[Word], line: &str) -> Option<String> {
    let (method, path) = line.split_once(' ')?;
    let told = (1..ROUTE_COUNT).filter_map(|place| routes::read(words, place)).filter(|route| route.told);
    let fitting = told.filter_map(|route| {
        let (its, pattern) = route.name.split_once(' ')?;
        let said = if its == method { said_of(pattern, path) } else { None }?;
        Some((said, route.name))
    });
    fitting.max_by_key(|(said, _)| *said).map(|(_, name)| name)
}

/// How many parts a pattern says of a path that is one of it.
fn said_of(pattern: &str, path: &str) -> Option<usize> {
    let mut said = 0;
    let (mut parts, mut values) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), values.next()) {
            (None, None) => return Some(said),
            (Some(part), Some(value)) if part == value => said += 1,
            // `<path:rest>`, `{rest:path}`
            (Some(part), Some(_)) if part.starts_with("<path:") || part.ends_with(":path}") => {
                return parts.next().is_none().then_some(said);
            }
            (Some(part), Some(value)) if part.contains(['<', '{']) && !value.is_empty() => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::played::words;
    use super::super::routes::Route;
    use super::*;

    #[test]
    fn a_path_is_of_the_route_that_says_most_of_it() {
        let words = words();
        let names = [
            "GET /users/<name>/",
            "GET /users/me/",
            "GET /users/{name}/x",
            "POST /users/<name>/x",
            "GET /files/<path:name>",
            "GET /raw/{rest:path}",
            "GET /raw/{shop}/index",
            "GET /",
        ];
        for name in names {
            routes::fold(&words, &Route { name: name.into(), told: true, ..Route::default() });
        }
        routes::fold(&words, &Route { name: "GET /learned/*".into(), ..Route::default() });
        for (line, route) in [
            ("GET /users/ann/", Some("GET /users/<name>/")),
            ("GET /users/me/", Some("GET /users/me/")),
            ("GET /users/ann/x", Some("GET /users/{name}/x")),
            ("POST /users/ann/x", Some("POST /users/<name>/x")),
            ("PUT /users/ann/x", None),
            ("GET /users//x", None),
            ("GET /users/ann", None),
            ("GET /users/ann/x/y", None),
            ("GET /files/a/b/c", Some("GET /files/<path:name>")),
            ("GET /raw/a/index", Some("GET /raw/{shop}/index")),
            ("GET /raw/a/other", Some("GET /raw/{rest:path}")),
            ("GET /", Some("GET /")),
            ("GET /learned/17", None),
            ("GET", None),
            ("", None),
        ] {
            assert_eq!(told_of(&words, line).as_deref(), route, "{line}");
        }
    }
}
