//! What `ps` and `top` show of this process.

use std::fs;
use std::io;

/// Shows a text instead of the command line, cut to the room that the command line had. Linux: the kernel shows the
/// bytes between two addresses that it tells in `/proc/self/stat` (proc(5), `arg_start`, `arg_end`).
///
/// # Errors
/// The kernel's, where it does not tell the place.
pub fn set_title(text: &str) -> io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let unknown = || io::Error::new(io::ErrorKind::Unsupported, "the place of the command line is not told");
    // The second field is a name in brackets that may hold anything; the third follows the last bracket.
    let (_, rest) = stat.rsplit_once(')').ok_or_else(unknown)?;
    let mut fields = rest.split_ascii_whitespace().skip(45).map(str::parse::<usize>);
    let (Some(Ok(start)), Some(Ok(end))) = (fields.next(), fields.next()) else { return Err(unknown()) };
    if start == 0 || end <= start {
        return Err(unknown());
    }
    let room = end - start;
    let shown = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the kernel has laid the command line between these addresses of our own stack, writable, for the
    // process's whole life; the interpreter keeps a copy of its arguments and does not read these bytes again.
    let line = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, room) };
    line.fill(0);
    line[..shown.len()].copy_from_slice(shown);
    Ok(())
}
