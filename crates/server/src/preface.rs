//! What a connection says before its protocol begins, such as whom it speaks for.
//!
//! Knows: the bytes that have come so far, how many there may be and until when. Does not know: what they
//! mean (a [`Preface`] does), the connection, the loop. Pure.
//!
//! ```text
//!   WAITING ──(bytes)──► WAITING        the bound or the time is passed, or it is refused ──► close
//!      └──(complete: what follows belongs to the protocol)──► over
//! ```

use reactor::Address;
use wire::proxy::Proxied;
use wire::{Fault, Limits, Millis, PROXY_TOO_LONG};

/// What has been said so far means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is not complete.
    More,
    /// It was the first `length` bytes. `peer`: for whom the connection speaks from now on, where that is
    /// not who has made it.
    Over {
        length: usize,
        peer: Option<Address>,
        /// What else was said of the peer, if anything was.
        proxied: Option<Box<Proxied>>,
    },
    /// It is not what has to be said here, and why.
    Refused(Fault),
}

/// Judges what a connection begins with.
pub trait Preface: Send {
    /// How many bytes it may have.
    fn most(&self) -> usize;

    /// What it is, as a log line names it.
    fn expects(&self) -> &'static str;

    /// What `bytes`, all that have come so far and no more than [`Preface::most`], mean.
    fn judge(&mut self, bytes: &[u8]) -> Verdict;
}

/// Makes the preface of a new connection.
pub type NewPreface = fn(&Limits) -> Box<dyn Preface>;

/// A preface that is under way.
pub struct Awaited {
    preface: Box<dyn Preface>,
    held: Vec<u8>,
    since: Millis,
}

impl Awaited {
    /// Of a connection that begins now.
    pub fn new(new: NewPreface, limits: &Limits, now: Millis) -> Self {
        Self { preface: new(limits), held: Vec::new(), since: now }
    }

    /// Bytes have come, which are consumed as far as they belong to it.
    pub fn advance(&mut self, input: &mut &[u8]) -> Verdict {
        let before = self.held.len();
        let room = self.preface.most().saturating_sub(before);
        self.held.extend_from_slice(&input[..input.len().min(room)]);
        let verdict = self.preface.judge(&self.held);
        match verdict {
            Verdict::More if self.held.len() >= self.preface.most() => Verdict::Refused(PROXY_TOO_LONG),
            // What was judged before did not end it: the end is in this input.
            Verdict::Over { length, .. } => {
                *input = input.get(length.saturating_sub(before)..).unwrap_or_default();
                verdict
            }
            Verdict::More => {
                *input = &[];
                verdict
            }
            Verdict::Refused(_) => verdict,
        }
    }

    /// What was expected and, of a peer that has said something else, what that looks like: for a log line.
    pub fn expected_and_seen(&self) -> (&'static str, &'static str) {
        (self.preface.expects(), wire::looks_like(&self.held))
    }

    /// What has been said, if that was all of it and so many bytes.
    pub fn take_said(&mut self, length: usize) -> Box<[u8]> {
        let mut said = std::mem::take(&mut self.held);
        said.truncate(length);
        said.into()
    }

    /// Nothing has been said.
    pub fn is_silent(&self) -> bool {
        self.held.is_empty()
    }

    /// When its patience ends: it has the time of a head, all in all.
    pub fn deadline(&self, limits: &Limits) -> Millis {
        self.since.saturating_add(limits.header_timeout)
    }
}

#[cfg(test)]
mod tests {
    use wire::PROXY_EXPECTED;

    use super::*;

    /// A line of at most eight bytes that begins with an A.
    struct Line;

    impl Preface for Line {
        fn most(&self) -> usize {
            8
        }

        fn expects(&self) -> &'static str {
            "a line"
        }

        fn judge(&mut self, bytes: &[u8]) -> Verdict {
            match bytes.iter().position(|&byte| byte == b'\n') {
                _ if !bytes.is_empty() && bytes[0] != b'A' => Verdict::Refused(PROXY_EXPECTED),
                Some(at) => Verdict::Over { length: at + 1, peer: None, proxied: None },
                None => Verdict::More,
            }
        }
    }

    /// What comes of bytes that arrive in two parts, and what is left of the second.
    fn judged(whole: &[u8], at: usize) -> (Verdict, Vec<u8>) {
        let mut awaited = Awaited::new(|_| Box::new(Line), &Limits::default(), 0);
        let (mut first, mut second) = whole.split_at(at);
        let mut verdict = awaited.advance(&mut first);
        if verdict == Verdict::More {
            verdict = awaited.advance(&mut second);
        }
        (verdict, [first, second].concat())
    }

    #[test]
    fn what_follows_belongs_to_the_protocol_wherever_it_is_split() {
        for at in 0..=9 {
            let over = Verdict::Over { length: 4, peer: None, proxied: None };
            assert_eq!(judged(b"Abc\nGET /", at), (over, b"GET /".to_vec()), "{at}");
        }
    }

    #[test]
    fn it_may_be_as_long_as_its_bound_and_no_longer() {
        for at in 0..7 {
            assert_eq!(judged(b"Abcde\n", at).0, Verdict::Over { length: 6, peer: None, proxied: None });
            assert_eq!(
                judged(b"Abcdefg\nx", at).0,
                Verdict::Over { length: 8, peer: None, proxied: None },
                "the bound"
            );
            assert!(matches!(judged(b"Abcdefgh\n", at).0, Verdict::Refused(_)), "one byte more");
            assert_eq!(judged(b"Abcdefg", at).0, Verdict::More, "one byte less, and not complete");
        }
        assert_eq!(judged(b"B", 0).0, Verdict::Refused(PROXY_EXPECTED));
    }

    #[test]
    fn its_time_does_not_begin_again_with_each_byte() {
        let limits = Limits { header_timeout: 500, ..Limits::default() };
        let mut awaited = Awaited::new(|_| Box::new(Line), &Limits::default(), 1000);
        assert!(awaited.is_silent());
        assert_eq!(awaited.advance(&mut &b"A"[..]), Verdict::More);
        assert_eq!((awaited.deadline(&limits), awaited.is_silent()), (1500, false));
    }
}
