//! Where in the tree of paths an application is mounted: `SCRIPT_NAME` of PEP 3333, `root_path` of ASGI.
//!
//! Knows: that proxies strip prefixes, or do not. Does not know: requests. Pure.

/// What of a path is below a mount point; none: it is not below.
pub fn stripped<'a>(path: &'a [u8], mount: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(mount).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The same as `PATH_INFO`. A proxy that strips the prefix by itself is common, so that a path without it is left as it is.
pub fn path_info<'a>(path: &'a [u8], mount: &[u8]) -> &'a [u8] {
    stripped(path, mount).unwrap_or(path)
}

/// The whole path: a proxy may have stripped the mount point or not, and `path` of ASGI has it.
pub fn with_root(path: &str, root: &str) -> String {
    match is_below(path, root) {
        true => path.to_string(),
        false => format!("{root}{path}"),
    }
}

/// The same where a proxy adds its prefix to the mount point: it may have stripped both of them, its own prefix only, or
/// nothing.
pub fn with_roots(path: &str, prefix: &str, root: &str) -> String {
    match is_below(path, &format!("{prefix}{root}")) {
        true => path.to_string(),
        false => format!("{prefix}{}", with_root(path, root)),
    }
}

fn is_below(path: &str, root: &str) -> bool {
    stripped(path.as_bytes(), root.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_is_cut_off_only_where_a_segment_ends() {
        assert_eq!(path_info(b"/shop/cart", b"/shop"), b"/cart");
        assert_eq!(path_info(b"/shop", b"/shop"), b"");
        assert_eq!(path_info(b"/shopping", b"/shop"), b"/shopping");
        assert_eq!(path_info(b"/a", b""), b"/a");
    }

    #[test]
    fn a_path_has_its_root_once() {
        assert_eq!(with_root("/shop/cart", "/shop"), "/shop/cart");
        assert_eq!(with_root("/cart", "/shop"), "/shop/cart");
        assert_eq!(with_root("/shopping", "/shop"), "/shop/shopping");
        assert_eq!(with_root("/a", ""), "/a");
    }

    #[test]
    fn a_path_has_both_of_its_roots_once() {
        for stripped in ["/x", "/api/x", "/pre/api/x"] {
            assert_eq!(with_roots(stripped, "/pre", "/api"), "/pre/api/x");
        }
        assert_eq!(with_roots("/apis/x", "/pre", "/api"), "/pre/api/apis/x");
        assert_eq!(with_roots("/api", "/pre", "/api"), "/pre/api");
        assert_eq!(with_roots("/x", "/pre", ""), "/pre/x");
    }
}
