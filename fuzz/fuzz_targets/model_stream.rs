#![no_main]

#[path = "../entry.rs"]
#[expect(dead_code, reason = "each target uses one of them")]
mod entry;

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::model_stream(data));
