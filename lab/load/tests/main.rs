//! What the load engine does before servers that tests arrange, as one program: each file by itself would link TLS and
//! HTTP/2 once more.

mod forms;
mod limits;
mod pace;
mod planted;
mod reply;
mod secure;
mod serving;
mod streams;
mod sums;
mod timers;
mod truth;
mod verdict;
