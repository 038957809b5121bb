//! What must hold for any bytes at all: the targets, for libFuzzer and for the driver.
//!
//! Knows: the machine's contract. Does not know: where inputs come from (`mutate.rs` makes
//! them for the driver, libFuzzer its own). One thread.
//!
//! An input's first byte chooses rules and limits, its second the places of cuts; the rest is
//! what the peer sends.

mod certificate;
mod files;
mod gateway;
mod h2;
mod httparse_beside;
mod machine;
pub mod mutate;
mod proxy;
pub mod seeds;
mod splits;
pub mod transcript;
mod websocket;

pub use certificate::certificate;
pub use files::files;
pub use gateway::gateway;
pub use h2::{h2, tell_blocks, tell_frames};
pub use httparse_beside::against_httparse;
pub use machine::machine;
pub use proxy::proxy;
pub use splits::every_split_agrees;
pub use websocket::websocket;

use wire::{Limits, Policy, REFUSABLE, RELAXABLE, Shared};

/// A target: it panics where something does not hold.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("machine", machine),
    ("every_split_agrees", every_split_agrees),
    ("against_httparse", against_httparse),
    ("websocket", websocket),
    ("proxy", proxy),
    ("gateway", gateway),
    ("h2", h2),
    ("files", files),
    ("certificate", certificate),
];

/// An input taken apart.
pub struct Input<'a> {
    pub rules: u8,
    pub cuts: u8,
    pub sent: &'a [u8],
}

impl<'a> Input<'a> {
    /// None for what is too short to have rules.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let [rules, cuts, sent @ ..] = bytes else { return None };
        Some(Self { rules: *rules, cuts: *cuts, sent })
    }
}

/// The rules of an input: strict ones for every other value, so that they get half the time.
pub fn shared(rules: u8) -> Shared {
    let mut limits = Limits::default();
    if rules & 2 != 0 {
        small(&mut limits);
    }
    let mut policy = Policy::default();
    if rules & 1 != 0 {
        for (index, (name, _)) in RELAXABLE.iter().enumerate() {
            // The higher bits switch off some, so that rules also meet without each other.
            if rules >> 3 == 0 || (usize::from(rules >> 3) + index) % 3 != 0 {
                policy.relax(name).expect("a name of the table");
            }
        }
    }
    if rules & 4 != 0 {
        for (name, _) in REFUSABLE.iter().filter(|(name, _)| *name != "underscore-names" || rules & 1 == 0) {
            policy.refuse(name).expect("a name of the table");
        }
    }
    Shared::new(limits, policy)
}

/// Limits that short inputs meet.
fn small(limits: &mut Limits) {
    limits.request_line_bytes = 40;
    limits.header_bytes = 120;
    limits.header_lines = 6;
    limits.body_bytes = 50;
    limits.chunk_extension_bytes = 8;
    limits.trailer_bytes = 24;
    limits.trailer_lines = 2;
    limits.cached_heads = 2;
    limits.cached_head_bytes = 100;
}
