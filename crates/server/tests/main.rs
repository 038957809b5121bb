//! What this crate does for those who use it, as one program: each file by itself would link all of TLS once more.
//! What the model checker runs is another (`loom/`).

#![cfg(not(loom))]

mod baton;
mod counting;
mod driven;
mod ending;
mod fairness;
mod files;
mod growth;
mod lanes;
mod late_looks;
mod overloaded;
mod panics;
mod pipelines;
mod preface;
mod room;
mod simulated;
mod streams;
