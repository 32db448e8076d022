//! The files that the process has loaded: where their code is, how stacks are followed through it, and what its functions are called.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Range,
};

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SegmentFlags, elf,
};

/// Segments of a file begin at a page of this size or a smaller one.
const PAGE_MASK: u64 = 0xffff;
/// Symbols of a file that are read.
const SYMBOLS_MAX: usize = 1_000_000;

/// All of them, by where they begin.
#[derive(Debug)]
pub(crate) struct Modules(Vec<Module>);

/// A file that is loaded.
#[derive(Debug)]
pub(crate) struct Module {
    /// The last part of its path.
    pub(crate) name: String,
    /// Its addresses in this process.
    pub(crate) range: Range<u64>,
    /// What is added to an address in the file.
    pub(crate) bias: u64,
    pub(crate) text: Option<Range<u64>>,
    pub(crate) eh_frame: Option<Table>,
    pub(crate) eh_frame_hdr: Option<Table>,
    /// By address in the file: the end, and the name as the linker has it.
    symbols: BTreeMap<u64, (u64, String)>,
}

/// A table of the file, with its address there.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) at: Range<u64>,
    pub(crate) bytes: Vec<u8>,
}

impl Modules {
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let mut files: BTreeMap<&str, Vec<Mapping>> = BTreeMap::new();
        for (path, mapping) in maps.lines().filter_map(mapping) {
            files.entry(path).or_default().push(mapping);
        }
        let loaded = files.into_iter().filter(|(_, mappings)| {
            // Data that is mapped holds no code.
            mappings.iter().any(|mapping| mapping.is_code)
        });
        let mut modules: Vec<Module> = loaded
            .filter_map(|(path, mappings)| Module::read(path, &mappings))
            .collect();
        modules.sort_by_key(|module| module.range.start);
        Ok(Self(modules))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Module> {
        self.0.iter()
    }

    /// The function at an address.
    pub(crate) fn name(&self, address: u64) -> String {
        let Some(module) = self.0.iter().find(|module| module.range.contains(&address)) else {
            return "[no file]".to_owned();
        };
        let at = address.wrapping_sub(module.bias);
        let before = module.symbols.range(..=at).next_back();
        match before.filter(|(_, (end, _))| at < *end) {
            Some((_, (_, name))) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("[{}]", module.name),
        }
    }
}

struct Mapping {
    range: Range<u64>,
    offset: u64,
    is_code: bool,
}

/// A line of `/proc/self/maps` (`proc_pid_maps(5)`) that is about a file.
fn mapping(line: &str) -> Option<(&str, Mapping)> {
    let mut words = line.splitn(6, ' ');
    let (range, permissions, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim();
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        range: number(start)?..number(end)?,
        offset: number(offset)?,
        is_code: permissions.contains('x'),
    };
    path.starts_with('/').then_some((path, mapping))
}

impl Module {
    /// `None`: it is gone, or no program.
    fn read(path: &str, mappings: &[Mapping]) -> Option<Self> {
        // The program itself may have been replaced on the disk since it was started.
        let path = path.strip_suffix(" (deleted)").map_or(path, |_| "/proc/self/exe");
        let cache = ReadCache::new(File::open(path).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let code = mappings.iter().find(|mapping| mapping.is_code)?;
        let bias = file.segments().find_map(|segment| {
            let (from, length) = segment.file_range();
            // Pages at which two segments meet are loaded for both.
            let is_code =
                matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & elf::PF_X.0 != 0);
            let holds = is_code && (from & !PAGE_MASK..from + length).contains(&code.offset);
            holds.then(|| {
                let loaded = segment.address().wrapping_sub(from).wrapping_add(code.offset);
                code.range.start.wrapping_sub(loaded)
            })
        })?;
        let place = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address() + section.size())
        };
        let table = |name: &str| {
            let bytes = file.section_by_name(name)?.uncompressed_data().ok()?.into_owned();
            Some(Table {
                at: place(name)?,
                bytes,
            })
        };
        let symbols = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
            .take(SYMBOLS_MAX)
            .filter_map(|symbol| {
                let end = symbol.address() + symbol.size();
                Some((symbol.address(), (end, symbol.name().ok()?.to_owned())))
            });
        Some(Self {
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            range: mappings.iter().map(|mapping| mapping.range.start).min()?
                ..mappings.iter().map(|mapping| mapping.range.end).max()?,
            bias,
            text: place(".text"),
            eh_frame: table(".eh_frame"),
            eh_frame_hdr: table(".eh_frame_hdr"),
            symbols: symbols.collect(),
        })
    }
}
