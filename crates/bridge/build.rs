//! Tells the linker which functions of the module to put side by side: those that run while a worker serves.
//!
//! Without that they lie all over five megabytes, as libraries for TLS and for stacks stand between them, and the kernel
//! maps sixteen pages around each that is touched. A linker script says where functions go, by patterns of their names. GNU ld
//! and lld understand it; whether this linker does is tried first, and where it does not (gold, macOS) nothing is asked of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Functions that were seen to run, hottest first; `tools/hot_functions.py` writes it.
const SEEN: &str = "hot_functions.txt";

/// Modules and functions that stand before those. The list does not have them: replies wait for one another only where calls
/// are quick, and nothing is under callgrind; and a supervisor, which is not looked at, needs little more than the numbers that it
/// shows, what they are called through, and what gives memory back, which is touched by that.
const UNSEEN: [&[&str]; 9] = [
    &["server", "batch"],
    &["server", "reply"],
    &["server", "turn", "Loop", "send_replies"],
    &["alloc", "raw_vec"],
    &["reactor", "sys", "memory"],
    &["_core", "_core", "__pyfunction_give_back_memory"],
    &["_core", "statistics"],
    &["pyo3", "impl_", "trampoline"],
    &["pyo3", "conversions"],
];

/// Modules whose functions follow those that were seen: what runs for some requests, and what has another name by now.
const MODULES: [&[&str]; 16] = [
    &["server", "turn"],
    &["server", "baton"],
    &["server", "poller"],
    &["server", "connections"],
    &["server", "connection"],
    &["server", "reading"],
    &["server", "requests"],
    &["server", "exchange"],
    &["server", "pool"],
    &["server", "statistics"],
    &["reactor"],
    &["wire", "http1"],
    &["wire", "head"],
    &["wire", "response"],
    &["_core", "wsgi"],
    &["_core", "ffi"],
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SEEN}");
    // Without optimisation there are ten times as many functions, to be compared with each of the names: that would take longer
    // than all else that a linker does, and nobody looks how quick such a module is.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("OPT_LEVEL") == "0" {
        return;
    }
    let folder = PathBuf::from(variable("OUT_DIR"));
    let path = folder.join("order.ld");
    let seen = fs::read_to_string(SEEN).unwrap_or_default();
    if fs::write(&path, script(&seen)).is_err() {
        return;
    }
    let argument = format!("-Wl,-T,{}", path.display());
    if is_understood(&folder, &argument) {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// All of the code is named, in one section `.text` as ever: valgrind knows no other, and GNU ld would make a second one of what
/// is left. It comes behind `.plt`, through which the hot functions call others.
fn script(seen: &str) -> String {
    let mut rows = String::new();
    for module in UNSEEN {
        rows += &format!("    *({} {})\n", patterns(".text", module), patterns(".text.unlikely", module));
    }
    for name in seen.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        rows += &format!("    *(.text.{name} .text.*.{name})\n");
    }
    for module in MODULES {
        rows += &format!("    *({})\n", patterns(".text", module));
    }
    format!("SECTIONS\n{{\n  .text :\n  {{\n{rows}    *(.text .text.*)\n  }}\n}}\nINSERT AFTER .plt;\n")
}

/// Sections of a module's functions, as either way of mangling names has them: `_ZN6server4turn…` and `_RNv…6server4turn…`,
/// and `…$LT$server..turn..…` for what others define for its types.
fn patterns(section: &str, module: &[&str]) -> String {
    // In the newer way an underscore stands before what begins with one.
    let more = |part: &str| if part.starts_with('_') { "_" } else { "" };
    let old: String = module.iter().map(|part| format!("{}{part}", part.len())).collect();
    let new: String = module.iter().map(|part| format!("{}{}{part}", part.len(), more(part))).collect();
    format!("{section}._ZN{old}* {section}._ZN*${}..* {section}._R*{new}*", module.join(".."))
}

/// Whether the compiler links a library with this argument, as it will link the module: by the same linker, with the same flags.
fn is_understood(folder: &Path, argument: &str) -> bool {
    let source = folder.join("tried.rs");
    if fs::write(
        &source,
        "#[unsafe(no_mangle)]\npub extern \"C\" fn tried() -> usize {\n    vec![1; 9].len()\n}\n",
    )
    .is_err()
    {
        return false;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args([
        "--edition=2024",
        "--crate-type=cdylib",
        "--crate-name=tried",
        "--target",
        &variable("TARGET"),
    ]);
    compiler.arg("--out-dir").arg(folder).arg(format!("-Clink-arg={argument}")).arg(&source);
    if let Some(linker) = std::env::var_os("RUSTC_LINKER") {
        compiler.arg("-C").arg(format!("linker={}", PathBuf::from(linker).display()));
    }
    compiler.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').filter(|flag| !flag.is_empty()));
    compiler.stdout(Stdio::null()).stderr(Stdio::null());
    compiler.status().is_ok_and(|status| status.success())
}
