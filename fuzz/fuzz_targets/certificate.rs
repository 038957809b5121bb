//! `fuzz::certificate` under libFuzzer; what it asks is written there.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::certificate(input));
