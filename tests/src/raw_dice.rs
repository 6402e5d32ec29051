/// Numbers that are random enough for a test and always the same (xorshift,
/// Marsaglia 2003).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Those of this seed, which is not 0.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// From 0 up to, not including, `limit`.
    #[must_use]
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }

    /// A byte.
    #[must_use]
    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap_or(0)
    }

    /// Changes some bytes: flips, small numbers, cuts, doublings.
    pub fn mutate(&mut self, data: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(data.len());
            match self.below(6) {
                0 if !data.is_empty() => data[at] ^= 1 << self.below(8),
                1 if !data.is_empty() => data[at] = self.byte(),
                2 if !data.is_empty() => data[at] = [0, 1, 0x7F, 0x80, 0xFF][self.below(5)],
                3 => data.insert(at, self.byte()),
                4 => {
                    let end = (at + self.below(9)).min(data.len());
                    data.drain(at..end);
                }
                _ => {
                    let end = (at + self.below(40)).min(data.len());
                    let copy = data[at..end].to_vec();
                    let to = self.below(data.len() + 1);
                    data.splice(to..to, copy);
                }
            }
        }
    }
}
