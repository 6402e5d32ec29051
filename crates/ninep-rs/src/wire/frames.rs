use bytes::{Bytes, BytesMut};

use crate::Error;

/// `size[4] type[1] tag[2]`: no message is shorter.
pub(crate) const HEADER: usize = 7;

/// What a read asks for at least, so that a burst of small messages costs one system call.
const CHUNK: usize = 16 * 1024;

/// What an idle connection keeps.
const IDLE: usize = 512;

/// Cuts a byte stream into whole frames. Does no I/O: bytes go in through [`Frames::space`], frames come out.
///
/// A frame's length is checked before room for it is made, and the frame shares the memory it was read into.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
    busy: bool,
}

impl Frames {
    /// An empty stream. It holds no memory until [`Frames::space`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next whole frame, `size[4]` included, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`Error::FrameTooShort`] below 7 bytes, [`Error::FrameTooLong`] above `limit`. The stream cannot be read on.
    pub fn next(&mut self, limit: u32) -> Result<Option<Bytes>, Error> {
        let Some(size) = self.size() else {
            return Ok(None);
        };
        if (size as usize) < HEADER {
            return Err(Error::FrameTooShort(size));
        }
        if size > limit {
            return Err(Error::FrameTooLong { size, limit });
        }
        if self.buffer.len() < size as usize {
            return Ok(None);
        }
        Ok(Some(self.buffer.split_to(size as usize).freeze()))
    }

    /// Where to append what was read: it has room for the rest of the frame that was begun.
    ///
    /// Call it after [`Frames::next`] said `None`, so that the begun frame's length has been checked.
    pub fn space(&mut self) -> &mut BytesMut {
        let begun = self.size().map_or(0, |size| size as usize);
        let missing = begun.saturating_sub(self.buffer.len());
        let least = if self.busy { CHUNK } else { IDLE };
        self.busy |= !self.buffer.is_empty();
        let free = self.buffer.capacity() - self.buffer.len();
        if free < missing || free < IDLE / 4 {
            self.buffer.reserve(missing.max(least));
        }
        &mut self.buffer
    }

    /// Whether the stream stands between two frames.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The tag of a frame that [`Frames::next`] refused, when so much of it is here.
    pub(crate) fn refused_tag(&self) -> Option<super::ids::Tag> {
        let tag = self.buffer.get(5..HEADER)?;
        Some(super::ids::Tag(u16::from_le_bytes([tag[0], tag[1]])))
    }

    fn size(&self) -> Option<u32> {
        let size = self.buffer.first_chunk::<4>()?;
        Some(u32::from_le_bytes(*size))
    }
}
