//! Header compression of HTTP/2 (RFC 7541): blocks into fields with a budget, fields into blocks.
//!
//! Knows: the format, and one direction's dynamic table. Does not know: what a field means, frames, streams. Pure.
//!
//! What a peer can make us hold is bounded while a block is decoded and not behind it: a field that goes over the
//! list's budget is neither copied nor kept, while the table goes on as the peer's does (§4.4).

mod decode;
mod encode;
mod huffman;
mod integer;
mod list;
mod static_table;
mod table;

pub use decode::Decoder;
pub use encode::{field, indexed_status, table_emptied};
pub use list::List;

/// What is wrong with a block: nothing that follows can be decoded (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It ends inside of an instruction.
    Short,
    /// A number is longer than any that means something here (§5.1).
    Number,
    /// There is no field at this place of the tables (§2.3.3).
    Index,
    /// Not a Huffman code, or its end is padded with something else than ones (§5.2).
    Huffman,
    /// A change of the table's size where none may be, or to more than was allowed (§4.2, §6.3).
    TableSize,
}
