//! A reply whose application has named a file in place of a body (`--sendfile`).
//!
//! Knows: what the application has said, and that nothing of its body is sent. Does not know: files (`named_files.rs`, which
//! answers when the application is done). Runs on the thread that owns the exchange.

use wire::ResponseHead;
use wire::named_file::NamedBy;

use super::{Exchange, Gone, Reply};
use crate::engine::Engine;
use crate::reply_builder::ReplyBuilder;

/// A file that an application has named, and the head that it has given.
pub struct NamedFile {
    pub by: NamedBy,
    pub value: Vec<u8>,
    pub head: ResponseHead,
}

impl Exchange {
    /// Looks whether the head names a file, where that is heeded: the headers are taken out of it in any case. True: the
    /// file is the reply, and is sent when the application is done.
    #[cold]
    pub(super) fn is_named(&mut self, builder: &mut ReplyBuilder, engine: &Engine) -> bool {
        if engine.config.sendfile.is_none() {
            return false;
        }
        let Some((by, value)) = builder.head.take_named_file() else { return false };
        if matches!(builder.head.code(), 204 | 205 | 304) {
            return false;
        }
        self.named = Some(Box::new(NamedFile { by, value, head: std::mem::take(&mut builder.head) }));
        self.reply = Reply::Named;
        true
    }

    /// The application has named a file, with which nobody has answered yet.
    #[inline]
    pub fn names_file(&self) -> bool {
        self.reply == Reply::Named
    }

    /// What was named, for whoever answers now: the reply begins anew.
    pub(crate) fn take_named(&mut self) -> Option<Box<NamedFile>> {
        let named = self.named.take()?;
        self.reply = Reply::Nothing;
        Some(named)
    }

    /// Somebody else answers with what was named.
    pub(crate) fn name_again(&mut self, named: Box<NamedFile>) {
        self.named = Some(named);
        self.reply = Reply::Named;
    }

    /// What becomes of a part of a body that is not sent: nothing, in the place of a file; otherwise the peer has gone.
    #[cold]
    pub(super) fn unsendable(&self) -> Result<(), Gone> {
        if self.names_file() { Ok(()) } else { Err(Gone) }
    }
}
