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
/// BPF_JMP | BPF_JA, whose offset has 32 bits
pub(crate) const JUMP: u16 = 0x05;
/// BPF_RET | BPF_K
pub(crate) const RETURN: u16 = 0x06;

/// What the filter answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allow,
    Errno(u16),
    /// The listener of the filter decides; ENOSYS where there is none.
    Ask,
    KillProcess,
}

impl Answer {
    /// SECCOMP_RET_* of linux/seccomp.h.
    pub(crate) fn value(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Errno(errno) => 0x0005_0000 | u32::from(errno),
            Self::Ask => 0x7fc0_0000,
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

    /// Goes to `equal` when the loaded word equals `k`, else on. `equal` must
    /// answer in every case.
    pub(crate) fn block_if_equal(&mut self, k: u32, equal: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        equal(&mut inner);
        let length = inner.checked_len();
        match u8::try_from(length) {
            Ok(jf) => self.code.push(Instruction {
                code: JUMP_EQUAL,
                jt: 0,
                jf,
                k,
            }),
            Err(_) => {
                self.code.push(Instruction {
                    code: JUMP_EQUAL,
                    jt: 1,
                    jf: 0,
                    k,
                });
                self.push(JUMP, length);
            }
        }
        self.code.append(&mut inner.code);
    }

    /// Goes to `high` when the loaded word is at least `k`, to `low` else.
    /// Both must answer in every case.
    pub(crate) fn fork(
        &mut self,
        k: u32,
        low: impl FnOnce(&mut Self),
        high: impl FnOnce(&mut Self),
    ) {
        let mut lower = Self::default();
        low(&mut lower);
        let length = lower.checked_len();
        match u8::try_from(length) {
            Ok(jt) => self.code.push(Instruction {
                code: JUMP_AT_LEAST,
                jt,
                jf: 0,
                k,
            }),
            Err(_) => {
                self.code.push(Instruction {
                    code: JUMP_AT_LEAST,
                    jt: 0,
                    jf: 1,
                    k,
                });
                self.push(JUMP, length);
            }
        }
        self.code.append(&mut lower.code);
        high(self);
    }

    /// How long the code is; it must end with an answer, or what follows would
    /// run as a part of it.
    fn checked_len(&self) -> u32 {
        debug_assert!(matches!(self.code.last(), Some(last) if last.code == RETURN));
        u32::try_from(self.code.len()).unwrap_or(u32::MAX)
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
