use serde::{Deserialize, Serialize};

/// `struct sock_filter` of linux/filter.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

/// BPF_LD | BPF_W | BPF_ABS
pub(crate) const LOAD: u16 = 0x20;
/// BPF_ALU | BPF_AND | BPF_K
pub(crate) const AND: u16 = 0x54;
/// BPF_JMP | BPF_JEQ | BPF_K
pub(crate) const JUMP_EQUAL: u16 = 0x15;
/// BPF_JMP | BPF_JGE | BPF_K
pub(crate) const JUMP_AT_LEAST: u16 = 0x35;
/// BPF_JMP | BPF_JSET | BPF_K
pub(crate) const JUMP_ANY_BIT: u16 = 0x45;
/// BPF_RET | BPF_K
pub(crate) const RETURN: u16 = 0x06;

/// What the filter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allow,
    Errno(u16),
    KillProcess,
}

impl Answer {
    /// SECCOMP_RET_* of linux/seccomp.h.
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Errno(errno) => 0x0005_0000 | u32::from(errno),
            Self::KillProcess => 0x8000_0000,
        }
    }
}

/// A word of `struct seccomp_data`, by its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Number,
    Architecture,
    /// The low half of an argument. The kernel looks at no more of an `int`,
    /// so comparing all 64 bits would let a caller set one above and pass.
    Low(u32),
}

impl Word {
    fn offset(self) -> u32 {
        match self {
            Self::Number => 0,
            Self::Architecture => 4,
            // Both supported processors are little-endian.
            Self::Low(argument) => 16 + 8 * argument,
        }
    }
}

/// Emits instructions. Every jump is forward and short by construction: a test
/// jumps over the answer that follows it, or over one block.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
}

impl Assembler {
    pub(crate) fn load(&mut self, word: Word) {
        self.push(LOAD, word.offset());
    }

    pub(crate) fn and(&mut self, mask: u32) {
        self.push(AND, mask);
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.push(RETURN, answer.value());
    }

    /// Answers when the test holds; goes on when it does not.
    pub(crate) fn answer_if(&mut self, test: u16, k: u32, answer: Answer) {
        self.code.push(Instruction {
            code: test,
            jt: 0,
            jf: 1,
            k,
        });
        self.answer(answer);
    }

    /// Answers when the test does not hold.
    pub(crate) fn answer_unless(&mut self, test: u16, k: u32, answer: Answer) {
        self.code.push(Instruction {
            code: test,
            jt: 1,
            jf: 0,
            k,
        });
        self.answer(answer);
    }

    /// Runs `block`, which must answer in every case, when the loaded word
    /// equals `k`; skips it else.
    pub(crate) fn block_if_equal(&mut self, k: u32, block: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        block(&mut inner);
        debug_assert!(matches!(inner.code.last(), Some(last) if last.code == RETURN));
        match u8::try_from(inner.code.len()) {
            Ok(length) => self.code.push(Instruction {
                code: JUMP_EQUAL,
                jt: 0,
                jf: length,
                k,
            }),
            // BPF_JA has a 32-bit offset.
            Err(_) => {
                let length = u32::try_from(inner.code.len()).unwrap_or(u32::MAX);
                self.code.push(Instruction {
                    code: JUMP_EQUAL,
                    jt: 1,
                    jf: 0,
                    k,
                });
                self.push(0x05, length);
            }
        }
        self.code.append(&mut inner.code);
    }

    pub(crate) fn finish(self) -> Vec<Instruction> {
        self.code
    }

    fn push(&mut self, code: u16, k: u32) {
        self.code.push(Instruction {
            code,
            jt: 0,
            jf: 0,
            k,
        });
    }
}
