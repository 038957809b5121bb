//! What a server sends on streams: heads and content in frames, within what the peer lets come (RFC 9113 §5.2, §6.1,
//! §6.2).
//!
//! Knows: the peer's windows and largest frame. Does not know: what is received, whose turn it is, the transport. It is
//! told what the receiving half has heard ([`Send::hear`]), so that the two need not be under one lock.

use super::event::Event;
use super::fault::Code;
use super::frame::{self, END_HEADERS, END_STREAM, Frame, Kind};
use super::settings::{FIRST_TABLE, FIRST_WINDOW, LARGEST_WINDOW, Settings};
use crate::hpack;

/// The smallest largest frame (§6.5.2). More is never sent in one, so that streams take turns.
const FRAME: usize = 0x4000;

/// A window would be larger than 2³¹−1: what ends with that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    Stream(u32),
    Connection,
}

/// The sending half of one connection.
#[derive(Debug)]
pub struct Send {
    /// The connection's window. A stream's may be below zero (§6.9.2).
    window: i64,
    initial: i64,
    /// By number.
    streams: Vec<(u32, i64)>,
    /// Our table is to be said to be empty, before the next block.
    table_shrunk: bool,
    /// Frames of content since somebody has asked.
    frames: u32,
}

impl Default for Send {
    fn default() -> Self {
        Self {
            window: i64::from(FIRST_WINDOW),
            initial: i64::from(FIRST_WINDOW),
            streams: Vec::new(),
            table_shrunk: false,
            frames: 0,
        }
    }
}

impl Send {
    /// A stream begins: before its request is given to anybody.
    pub fn open(&mut self, stream: u32) {
        let place = self.streams.partition_point(|(known, _)| *known < stream);
        self.streams.insert(place, (stream, self.initial));
    }

    /// Follows what the receiving half has heard; most events are nothing to it.
    ///
    /// # Errors
    /// The receiving half is to be told ([`super::Receive::overflow`]).
    pub fn hear(&mut self, event: &Event<'_>) -> Result<(), Overflow> {
        match event {
            Event::Settings(settings) => self.settings(settings),
            Event::Window { stream: 0, increment } => {
                self.window += i64::from(*increment);
                if self.window > i64::from(LARGEST_WINDOW) { Err(Overflow::Connection) } else { Ok(()) }
            }
            Event::Window { stream, increment } => match self.get(*stream) {
                Some(window) => {
                    *window += i64::from(*increment);
                    if *window > i64::from(LARGEST_WINDOW) { Err(Overflow::Stream(*stream)) } else { Ok(()) }
                }
                None => Ok(()),
            },
            Event::Reset { stream, .. } | Event::StreamError { stream, .. } => {
                self.close(*stream);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn settings(&mut self, settings: &Settings) -> Result<(), Overflow> {
        if settings.table_size.is_some_and(|size| u64::from(size) < FIRST_TABLE) {
            self.table_shrunk = true;
        }
        if let Some(initial) = settings.window {
            // §6.9.2: all windows change by as much as the first one, also below zero.
            let more = i64::from(initial) - self.initial;
            self.initial = i64::from(initial);
            for (_, window) in &mut self.streams {
                *window += more;
                if *window > i64::from(LARGEST_WINDOW) {
                    return Err(Overflow::Connection);
                }
            }
        }
        Ok(())
    }

    fn get(&mut self, stream: u32) -> Option<&mut i64> {
        let place = self.streams.binary_search_by_key(&stream, |(known, _)| *known).ok()?;
        Some(&mut self.streams[place].1)
    }

    fn close(&mut self, stream: u32) {
        self.streams.retain(|(known, _)| *known != stream);
        if self.streams.is_empty() {
            self.streams.shrink_to(4);
        }
    }

    /// True while something can be sent on a stream.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.binary_search_by_key(&stream, |(known, _)| *known).is_ok()
    }

    /// How much content can be sent on a stream now.
    pub fn room(&self, stream: u32) -> usize {
        let place = self.streams.binary_search_by_key(&stream, |(known, _)| *known);
        let own = place.map_or(0, |place| self.streams[place].1);
        usize::try_from(own.min(self.window)).unwrap_or(0)
    }

    /// Frames a block of fields: a reply's head, an interim one, or trailers. `end`: nothing follows.
    pub fn head(&mut self, stream: u32, block: &[u8], end: bool, out: &mut Vec<u8>) {
        if !self.is_open(stream) {
            return;
        }
        let mut shrunk = Vec::new();
        if std::mem::take(&mut self.table_shrunk) {
            hpack::table_emptied(&mut shrunk);
        }
        let first = block.len().min(FRAME - shrunk.len());
        let (mut part, mut rest) = block.split_at(first);
        let (mut kind, mut flags) = (Kind::Headers, if end { END_STREAM } else { 0 });
        loop {
            if rest.is_empty() {
                flags |= END_HEADERS;
            }
            Frame { length: (shrunk.len() + part.len()) as u32, kind, flags, stream }.write(out);
            out.append(&mut shrunk);
            out.extend_from_slice(part);
            if rest.is_empty() {
                break;
            }
            (part, rest) = rest.split_at(rest.len().min(FRAME));
            (kind, flags) = (Kind::Continuation, 0);
        }
        if end {
            self.close(stream);
        }
    }

    /// Frames content, as much of it as one frame takes and the peer lets come; how much that was. `end`: nothing
    /// follows, so that the stream ends when all of it was taken.
    pub fn content(&mut self, stream: u32, content: &[u8], end: bool, out: &mut Vec<u8>) -> usize {
        let length = content.len().min(self.room(stream)).min(FRAME);
        let ends = end && length == content.len();
        if !self.is_open(stream) || length == 0 && !ends {
            return 0;
        }
        let flags = if ends { END_STREAM } else { 0 };
        frame::write(Kind::Data, flags, stream, &content[..length], out);
        self.window -= length as i64;
        if let Some(window) = self.get(stream) {
            *window -= length as i64;
        }
        self.frames += 1;
        if ends {
            self.close(stream);
        }
        length
    }

    /// Ends a stream in order, if it has not ended.
    pub fn end(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.content(stream, b"", true, out);
    }

    /// Cuts a stream that has not ended. The receiving half is told, too ([`super::Receive::was_cut`]).
    pub fn reset(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) {
        if self.is_open(stream) {
            frame::reset(stream, code, out);
            self.close(stream);
        }
    }

    /// Frames of content since the last time, for [`super::Receive::sent`].
    pub fn take_frames(&mut self) -> u32 {
        std::mem::take(&mut self.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(window: u32) -> Event<'static> {
        Event::Settings(Settings { window: Some(window), ..Settings::default() })
    }

    #[test]
    fn content_stays_within_both_windows_and_one_frame() {
        let mut send = Send::default();
        let mut out = Vec::new();
        send.hear(&settings(20_000)).expect("room");
        send.open(1);
        send.open(3);
        let content = [b'a'; 70_000];
        let taken: Vec<_> =
            [1, 1, 1, 3].into_iter().map(|id| send.content(id, &content, false, &mut out)).collect();
        assert_eq!(taken, [16_384, 3616, 0, 16_384]);
        send.hear(&Event::Window { stream: 1, increment: 100_000 }).expect("room");
        let taken: Vec<_> = (0..3).map(|_| send.content(1, &content, true, &mut out)).collect();
        assert_eq!(taken, [16_384, 12_767, 0], "the connection's window");
        assert_eq!((send.take_frames(), send.take_frames()), (5, 0));
        assert_eq!(out.len(), 65_535 + 5 * 9);
    }

    #[test]
    fn a_window_can_be_below_zero_and_comes_back() {
        let mut send = Send::default();
        send.open(1);
        assert_eq!(send.content(1, &[0; 1000], false, &mut Vec::new()), 1000);
        send.hear(&settings(0)).expect("room");
        assert_eq!((send.room(1), send.streams[0].1), (0, -1000));
        send.hear(&Event::Window { stream: 1, increment: 1000 }).expect("room");
        assert_eq!(send.room(1), 0);
        send.hear(&Event::Window { stream: 1, increment: 1 }).expect("room");
        assert_eq!(send.room(1), 1);
    }

    #[test]
    fn windows_have_an_end() {
        let most = LARGEST_WINDOW - FIRST_WINDOW;
        for (increment, stream, result) in [
            (most, 0, Ok(())),
            (most + 1, 0, Err(Overflow::Connection)),
            (most, 1, Ok(())),
            (most + 1, 1, Err(Overflow::Stream(1))),
            (most + 1, 5, Ok(())),
        ] {
            let mut send = Send::default();
            send.open(1);
            assert_eq!(send.hear(&Event::Window { stream, increment }), result);
        }
        let mut send = Send::default();
        send.open(1);
        send.hear(&Event::Window { stream: 1, increment: 1 }).expect("room");
        assert_eq!(send.hear(&settings(LARGEST_WINDOW)), Err(Overflow::Connection));
    }

    #[test]
    fn a_long_block_goes_on_in_further_frames() {
        let mut send = Send::default();
        let small = Event::Settings(Settings { table_size: Some(100), ..Settings::default() });
        send.hear(&small).expect("room");
        send.open(1);
        let mut out = Vec::new();
        send.head(1, &[0x88; 40_000], true, &mut out);
        let mut frames = Vec::new();
        let mut rest = &out[..];
        while let Some((head, after)) = rest.split_first_chunk::<9>() {
            let frame = Frame::read(head);
            frames.push((frame.kind, frame.flags, frame.length));
            rest = &after[frame.length as usize..];
        }
        let (first, last) = ((Kind::Headers, END_STREAM, 16_384), (Kind::Continuation, END_HEADERS, 7233));
        assert_eq!(frames, [first, (Kind::Continuation, 0, 16_384), last]);
        assert_eq!((out[9], out[10]), (0x20, 0x88), "the table is said to be empty, once");
        assert!(!send.is_open(1));
    }

    #[test]
    fn nothing_is_framed_on_a_stream_that_is_over() {
        let mut send = Send::default();
        let mut out = Vec::new();
        send.open(1);
        send.hear(&Event::Reset { stream: 1, code: 8 }).expect("room");
        send.head(1, b"\x88", false, &mut out);
        assert_eq!(send.content(1, b"a", true, &mut out), 0);
        send.end(1, &mut out);
        send.reset(1, Code::Cancel, &mut out);
        assert_eq!(out, []);
    }
}
