//! Unwinds copied stacks from the running function to the start of the thread.

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::UnwindRegsAarch64;
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::UnwindRegsX86_64;
use framehop::{CacheNative, ExplicitModuleSectionInfo, UnwindRegsNative, Unwinder as _, UnwinderNative};

use crate::{modules::Modules, sys::Sample};

/// Frames unwound per stack.
const FRAMES_MAX: usize = 256;

/// Unwind tables of all modules.
pub(crate) struct Unwind {
    unwinder: UnwinderNative<Vec<u8>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
}

impl Unwind {
    pub(crate) fn new(modules: &Modules) -> Self {
        let mut unwinder = UnwinderNative::new();
        for module in modules.iter() {
            let sections = ExplicitModuleSectionInfo {
                text_svma: module.text.clone(),
                eh_frame_svma: module.eh_frame.as_ref().map(|table| table.at.clone()),
                eh_frame: module.eh_frame.as_ref().map(|table| table.bytes.clone()),
                eh_frame_hdr_svma: module.eh_frame_hdr.as_ref().map(|table| table.at.clone()),
                eh_frame_hdr: module.eh_frame_hdr.as_ref().map(|table| table.bytes.clone()),
                ..ExplicitModuleSectionInfo::default()
            };
            unwinder.add_module(framehop::Module::new(
                module.name.clone(),
                module.range.clone(),
                module.bias,
                sections,
            ));
        }
        Self {
            unwinder,
            cache: CacheNative::default(),
        }
    }

    /// Addresses within functions, innermost first. Ends where the copied bytes end or where no unwind table covers the address.
    pub(crate) fn addresses(&mut self, sample: &Sample) -> Vec<u64> {
        let mut word = |address| sample.word(address).ok_or(());
        let mut frames = self.unwinder.iter_frames(
            sample.registers.instruction,
            registers(sample),
            &mut self.cache,
            &mut word,
        );
        let mut addresses = Vec::new();
        while addresses.len() < FRAMES_MAX
            && let Ok(Some(frame)) = frames.next()
        {
            // The return address follows the call and may already belong to the next function, so the lookup address is used.
            addresses.push(frame.address_for_lookup());
        }
        addresses
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(sample: &Sample) -> UnwindRegsNative {
    let registers = sample.registers;
    UnwindRegsX86_64::new(registers.instruction, registers.stack, registers.frame)
}

#[cfg(target_arch = "aarch64")]
fn registers(sample: &Sample) -> UnwindRegsNative {
    let registers = sample.registers;
    UnwindRegsAarch64::new(registers.link, registers.stack, registers.frame)
}
