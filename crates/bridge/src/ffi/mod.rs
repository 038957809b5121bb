//! Raw calls into CPython, where the way of a request gains from them. The only unsafe code
//! of this crate; everything here is small, and says what it relies on.
//!
//! Knows: the C API. Does not know: HTTP. Runs with the interpreter attached, unless a
//! function says otherwise.

mod callable;
mod calls;
mod contextvars;
mod coroutine;
mod dict_version;
mod frames;
mod gil;
mod loan;
mod objects;
mod pairs;
mod protocol;
mod snapshot;
mod switch_interval;

pub use callable::{CallResult, Starts, Writes, start_function, write_function};
pub use contextvars::Context;
pub use coroutine::{
    ReceiveSend, Stepped, call_three, copy_list, get_item, is_coroutine, make_with, receive_send_functions,
    step,
};
pub use dict_version::DictVersion;
pub use frames::keep_frames;
pub use gil::{attached, outside, raise_in_thread, tell_who_has_the_interpreter, thread_ident};
pub use loan::{GilCell, Loan};
pub use objects::{
    Iteration, KEEP_BYTES, KeptBytes, ascii, bytes_filled, bytes_of, call_none, call_two, copy_dict,
    first_bytes, iterate, latin1, references, restore_exception, set_item, text_bytes,
};
pub use pairs::{Pair, is_list_of, is_plain, pairs_mark, says_the_same};
pub use protocol::{Awaited, Step, quicken, quicken_done};
pub use snapshot::Snapshot;
pub use switch_interval::{Serving, back_at, outside_for_work, set_switch_interval, strain};
