//! What a wait for many descriptors says of one, whichever call of the system has waited.

/// What happened to one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollEvent {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The peer has ended its side, or the connection broke.
    pub hung_up: bool,
}
