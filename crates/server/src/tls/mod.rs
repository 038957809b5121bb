//! TLS for listeners of the kind `https`: certificates, handshakes, encrypted transports.
//!
//! Knows: rustls. Does not know: requests. Nothing of it exists in an engine without such a listener, and nothing else in
//! this project knows rustls.

mod encrypted;
mod facts;
mod material;
mod porch;
mod resolver;
mod sealing;
mod self_signed;
mod session;
mod tickets;

pub use encrypted::Encrypted;
pub use facts::{ClientCertificate, Facts};
pub use material::{BadMaterial, Material};
pub use porch::{Arrival, Guest, Outcome, Porch};
pub use resolver::Shown;
pub use self_signed::{SelfSigned, self_signed};
