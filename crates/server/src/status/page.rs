//! The page for people: one file that asks for `/status.json` and draws it.
//!
//! Knows: its pieces, and what a browser may do with them. Does not know: what they show. Nothing but these pieces runs or
//! styles in a browser: what clients have sent, a path for one, is only ever text there.

use aws_lc_rs::digest::{SHA256, digest};
use wire::pem::base64;

macro_rules! style {
    () => {
        include_str!("page/page.css")
    };
}

macro_rules! script {
    () => {
        concat!(
            "'use strict';\n",
            include_str!("page/numbers.js"),
            include_str!("page/findings.js"),
            include_str!("page/charts.js"),
            include_str!("page/views.js"),
            include_str!("page/live.js"),
        )
    };
}

/// The whole, in one.
pub const TEXT: &str = concat!(
    include_str!("page/head.html"),
    "<style>",
    style!(),
    "</style>\n",
    include_str!("page/body.html"),
    "<script>",
    script!(),
    "</script>\n</html>\n",
);

/// For `Content-Security-Policy`: these pieces, asking here, and nothing else. Text cannot become markup.
pub fn policy() -> String {
    let hash = |text: &str| base64(digest(&SHA256, text.as_bytes()).as_ref());
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        hash(script!()),
        hash(style!()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_names_no_other_host() {
        assert!(TEXT.len() <= 150 << 10, "{} bytes", TEXT.len());
        // The name of a language of markup is no address that is asked.
        let named = TEXT.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "//cdn", "@import", "url(", "innerHTML", "eval("] {
            assert!(!named.contains(word), "{word}");
        }
        assert_eq!((TEXT.matches("<script").count(), TEXT.matches("<style").count()), (1, 1));
        assert!(!TEXT.contains(" style=\"") && !TEXT.contains(" onclick"), "the policy would forbid it");
    }
}
