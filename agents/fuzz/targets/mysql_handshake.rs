#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| arbiter::parsers::mysql_handshake(bytes));
