//! The command `forehand-load`: reads an order, runs it, writes the result. Exit statuses are FORMAT.md's.

#![forbid(unsafe_code)]

use forehand_load::certificate;
use forehand_load::flags::{self, HELP, Order};
use forehand_load::job::Job;
use forehand_load::plan::Stop;
use forehand_load::run::{Live, run};
use forehand_load::summary::summary;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match command() {
        Ok(status) => status,
        Err(stop) => {
            let (status, words) = match stop {
                Stop::Plan(words) => (2, words),
                Stop::Machine(words) => (1, words),
            };
            tell(&words);
            ExitCode::from(status)
        }
    }
}

/// One line on standard error; where that is closed, the exit status has to do.
fn tell(words: &str) {
    let _ = writeln!(std::io::stderr(), "forehand-load: {words}");
}

fn command() -> Result<ExitCode, Stop> {
    let (plan, output, live) = match flags::read(std::env::args_os().skip(1))? {
        Order::Help => return say(HELP),
        Order::Version => return say(concat!("forehand-load ", env!("CARGO_PKG_VERSION"), "\n")),
        Order::Certificate { folder, hosts } => {
            certificate::write(&folder, hosts)?;
            return Ok(ExitCode::SUCCESS);
        }
        Order::Run { plan, output, live } => (plan, output, live),
    };
    let job = Job::prepare(*plan)?;
    let live = match live {
        Live::Nothing if std::io::stderr().is_terminal() => Live::Lines,
        given => given,
    };
    let stop = interruption()?;
    let result = run(&job, &stop, live)?;
    // A person at a terminal wants some lines, and everything else the whole.
    if output.is_none() && std::io::stdout().is_terminal() {
        write(&summary(&result), None)?;
    } else {
        for reason in result["generator"]["reasons"].as_array().into_iter().flatten() {
            tell(reason.as_str().unwrap_or_default());
        }
        write(&format!("{result:#}\n"), output.as_deref())?;
    }
    Ok(if stop.load(Ordering::Relaxed) { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// True after the first SIGINT or SIGTERM; the second one ends the process as it would have without us.
fn interruption() -> Result<Arc<AtomicBool>, Stop> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Stop::Machine(format!("cannot listen to signals: {error}")))?;
    }
    Ok(stop)
}

fn say(text: &str) -> Result<ExitCode, Stop> {
    write(text, None)?;
    Ok(ExitCode::SUCCESS)
}

fn write(text: &str, output: Option<&Path>) -> Result<(), Stop> {
    match output {
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Stop::Machine(format!("cannot write the result to {path:?}: {error}"))),
        None => std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Stop::Machine(format!("cannot write to standard output: {error}"))),
    }
}
