use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};

use crate::{Answer, File, Refusal, Stat, answer, ename};

/// The open half of a directory: read(5)'s whole entries, from a snapshot.
///
/// The snapshot is taken at offset 0, so one reading of a directory is of one piece, whatever happens meanwhile, and
/// reading from the start again shows what is there then.
pub struct Listing<F> {
    entries: F,
    reading: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    rest: Bytes,
    offset: u64,
}

impl<F: Fn() -> Vec<Stat> + Send + Sync + 'static> Listing<F> {
    /// A listing of what `entries` returns when asked.
    pub fn new(entries: F) -> Self {
        Listing {
            entries,
            reading: Mutex::default(),
        }
    }

    fn next(&self, offset: u64, count: u32) -> Result<Bytes, Refusal> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            let mut snapshot = BytesMut::new();
            for stat in (self.entries)() {
                stat.encode(&mut snapshot)
                    .map_err(|_| Refusal::new(ename::INTERNAL))?;
            }
            *reading = Reading {
                rest: snapshot.freeze(),
                offset: 0,
            };
        } else if offset != reading.offset {
            return Err(Refusal::new(ename::DIRECTORY_OFFSET));
        }
        let fitting = whole_entries(&reading.rest, count as usize);
        if fitting == 0 && !reading.rest.is_empty() {
            return Err(Refusal::new(ename::DIRECTORY_COUNT));
        }
        reading.offset += fitting as u64;
        Ok(reading.rest.split_to(fitting))
    }
}

/// The length of as many entries as fit into `count` bytes.
fn whole_entries(mut rest: &[u8], count: usize) -> usize {
    let mut fitting = 0;
    while rest.len() >= 2 {
        let entry = 2 + usize::from(rest.get_u16_le());
        if fitting + entry > count {
            break;
        }
        fitting += entry;
        rest.advance(entry - 2);
    }
    fitting
}

impl<F: Fn() -> Vec<Stat> + Send + Sync + 'static> File for Listing<F> {
    fn read(self: Arc<Self>, offset: u64, count: u32) -> Answer<Bytes> {
        answer(self.next(offset, count))
    }
}

impl<F> std::fmt::Debug for Listing<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listing")
    }
}
