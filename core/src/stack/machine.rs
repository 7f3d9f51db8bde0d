//! Stacks by processor: the tables' numbers of registers, and how a function is entered, by the System V ABI's AMD64 supplement and "DWARF for
//! the Arm 64-bit Architecture".

use gimli::{AArch64, Register, Vendor, X86_64};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64: a call pushes the return address.
    X86_64,
    /// AArch64: a call leaves the return address in a register.
    Aarch64,
}

impl Machine {
    pub const OWN: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    pub(super) const fn frame(self) -> Register {
        match self {
            Self::X86_64 => X86_64::RBP,
            Self::Aarch64 => AArch64::X29,
        }
    }

    pub(super) const fn stack(self) -> Register {
        match self {
            Self::X86_64 => X86_64::RSP,
            Self::Aarch64 => AArch64::SP,
        }
    }

    pub(super) const fn returns(self) -> Register {
        match self {
            Self::X86_64 => X86_64::RA,
            Self::Aarch64 => AArch64::X30,
        }
    }

    pub(super) fn keeps(self, register: Register) -> bool {
        match self {
            Self::X86_64 => {
                matches!(register, X86_64::RBX | X86_64::RBP | X86_64::R12 | X86_64::R13 | X86_64::R14 | X86_64::R15)
            }
            Self::Aarch64 => (AArch64::X19.0..=AArch64::X29.0).contains(&register.0),
        }
    }

    /// AArch64 may have signed a return address in bits that no program's address has.
    pub(super) const fn unsigned(self, address: u64) -> u64 {
        match self {
            Self::X86_64 => address,
            Self::Aarch64 => address & ((1 << 48) - 1),
        }
    }

    pub(super) const fn vendor(self) -> Vendor {
        match self {
            Self::X86_64 => Vendor::Default,
            Self::Aarch64 => Vendor::AArch64,
        }
    }
}
