//! What threads do to one another, under every interleaving that loom finds (up to its bound on
//! preemptions): `make loom`. The code is the server's own; what stands around it is a model.

#![cfg(loom)]

mod baton;
mod claims;
mod event;
mod handover;
mod inbox;
mod rows;
mod send_half;
