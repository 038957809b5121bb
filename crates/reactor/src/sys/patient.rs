//! Writing where somebody may have stopped to read, for so long and no longer.

use std::io;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use super::{check, check_size};
use crate::holding::{Wait, will_wait};

/// Writes all of it, in pieces that a pipe with room for anything takes whole. What stands there is not ours alone, so that
/// it cannot be told never to wait.
///
/// # Errors
/// `TimedOut`: nobody has read for so long. The system's otherwise.
pub fn write_within(fd: RawFd, bytes: &[u8], patience: Duration) -> io::Result<()> {
    will_wait(Wait::For("who reads the log"));
    let until = Instant::now() + patience;
    for piece in bytes.chunks(libc::PIPE_BUF) {
        let mut left = piece;
        while !left.is_empty() {
            wait_for_room(fd, until)?;
            // SAFETY: pointer and length are those of a slice.
            let written = check_size(unsafe { libc::write(fd, left.as_ptr().cast(), left.len()) });
            match written {
                Ok(written) => left = &left[written.unwrap_or(0)..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn wait_for_room(fd: RawFd, until: Instant) -> io::Result<()> {
    loop {
        let wait = until.saturating_duration_since(Instant::now()).as_millis();
        let wait = libc::c_int::try_from(wait).unwrap_or(libc::c_int::MAX);
        let mut one = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
        // SAFETY: one valid pollfd, and the count says one.
        match check(unsafe { libc::poll(&raw mut one, 1, wait) }) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read, pipe};
    use std::os::fd::AsRawFd;

    use super::*;

    fn within(writer: &PipeWriter, bytes: &[u8], milliseconds: u64) -> io::Result<()> {
        write_within(writer.as_raw_fd(), bytes, Duration::from_millis(milliseconds))
    }

    #[test]
    fn what_nobody_reads_is_given_up_and_what_is_read_arrives_whole() -> io::Result<()> {
        let (mut reader, writer) = pipe()?;
        let line = [b'x'; 1000];
        let mut taken = 0;
        let error = loop {
            match within(&writer, &line, 1) {
                Ok(()) => taken += line.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all.len())
        });
        let large = vec![b'y'; 300_000];
        within(&writer, &large, 20_000)?;
        drop(writer);
        assert_eq!(reading.join().expect("it does not panic")?, taken + large.len());
        Ok(())
    }

    #[test]
    fn who_has_left_is_told_at_once() -> io::Result<()> {
        let (reader, writer) = pipe()?;
        drop(reader);
        let told = loop {
            // A process that another test forks has a copy of the reader for a moment.
            if let Err(error) = within(&writer, b"line", 20_000) {
                break error.kind();
            }
        };
        assert_eq!(told, io::ErrorKind::BrokenPipe);
        Ok(())
    }
}
