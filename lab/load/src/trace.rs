//! Every request with its moments, as CSV, written as the seconds pass. The main thread's.

use crate::record::Trace;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// The first line of the file. Moments are microseconds from second 0; an empty field: it did not come so far.
pub const COLUMNS: &str = "request,planned_us,connect_us,connected_us,sent_us,first_byte_us,ended_us,outcome";

pub struct Tracer {
    file: BufWriter<File>,
    names: Vec<String>,
}

impl Tracer {
    pub fn create(path: &str, names: Vec<String>) -> io::Result<Tracer> {
        let mut file = BufWriter::new(File::create(path)?);
        writeln!(file, "{COLUMNS}")?;
        Ok(Tracer { file, names })
    }

    pub fn write(&mut self, traces: &[Trace]) -> io::Result<()> {
        for trace in traces {
            // A name is quoted as RFC 4180 has it: it may hold a comma.
            write!(self.file, "\"{}\"", self.names[trace.template as usize].replace('"', "\"\""))?;
            write!(self.file, ",{}", trace.planned / 1000)?;
            for moment in [trace.connect, trace.connected, trace.sent, trace.first_byte, trace.ended] {
                if moment > 0 {
                    write!(self.file, ",{}", moment / 1000)?;
                } else {
                    write!(self.file, ",")?;
                }
            }
            match trace.outcome {
                Ok(status) => writeln!(self.file, ",{status}")?,
                Err(wrong) => writeln!(self.file, ",{}", wrong.name())?,
            }
        }
        Ok(())
    }

    pub fn finish(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
