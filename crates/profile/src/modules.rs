//! The files mapped into this process: where their code is, the tables for unwinding through it, and their symbols.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::Range,
    path::Path,
};

use object::{
    Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache, SegmentFlags, elf,
};

/// Segments are aligned to this page size or a smaller one.
const PAGE_MASK: u64 = 0xffff;
/// Most symbols read from a file.
const SYMBOLS_MAX: usize = 1_000_000;
/// The running program, even if its file was replaced or removed.
const PROGRAM: &str = "/proc/self/exe";
/// The suffix the kernel adds to the path of a file that was deleted.
const DELETED: &str = " (deleted)";

/// All loaded files, sorted by start address.
#[derive(Debug)]
pub(crate) struct Modules(Vec<Module>);

/// A loaded file.
#[derive(Debug)]
pub(crate) struct Module {
    /// The last component of its path.
    pub(crate) name: String,
    /// Its address range in this process.
    pub(crate) range: Range<u64>,
    /// The load bias: address in this process minus address in the file.
    pub(crate) bias: u64,
    pub(crate) text: Option<Range<u64>>,
    pub(crate) eh_frame: Option<Table>,
    pub(crate) eh_frame_hdr: Option<Table>,
    /// By start address in the file: the end address and the linker's name.
    symbols: BTreeMap<u64, (u64, String)>,
}

/// A section of the file with its address there.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) at: Range<u64>,
    pub(crate) bytes: Vec<u8>,
}

impl Modules {
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let program = fs::read_link(PROGRAM)?;
        let mut files: BTreeMap<&str, Vec<Mapping>> = BTreeMap::new();
        for (path, mapping) in maps.lines().filter_map(mapping) {
            files.entry(path).or_default().push(mapping);
        }
        let loaded = files.into_iter().filter(|(_, mappings)| {
            // A file mapped only as data has no code.
            mappings.iter().any(|mapping| mapping.is_code)
        });
        let mut modules: Vec<Module> = loaded
            .filter_map(|(path, mappings)| match readable(path, &program) {
                Some(file) => Module::read(path, file, &mappings),
                None => Module::unknown(path, &mappings),
            })
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

/// Parses a line of `/proc/self/maps` (`proc_pid_maps(5)`) that describes a mapped file.
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

/// The path from which a mapped file can be read. `None` for a file that was replaced on disk, unless it is the running program, which
/// stays readable.
fn readable<'p>(path: &'p str, program: &Path) -> Option<&'p str> {
    match path.ends_with(DELETED) {
        false => Some(path),
        true if program == Path::new(path) => Some(PROGRAM),
        true => None,
    }
}

impl Module {
    /// A file of which only the name and the address range are known.
    fn unknown(path: &str, mappings: &[Mapping]) -> Option<Self> {
        Some(Self {
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            range: mappings.iter().map(|mapping| mapping.range.start).min()?
                ..mappings.iter().map(|mapping| mapping.range.end).max()?,
            bias: 0,
            text: None,
            eh_frame: None,
            eh_frame_hdr: None,
            symbols: BTreeMap::new(),
        })
    }

    /// `None` if the file is gone or is not an executable.
    fn read(path: &str, file: &str, mappings: &[Mapping]) -> Option<Self> {
        let cache = ReadCache::new(File::open(file).ok()?);
        let file = object::File::parse(&cache).ok()?;
        let code = mappings.iter().find(|mapping| mapping.is_code)?;
        let bias = file.segments().find_map(|segment| {
            let (from, length) = segment.file_range();
            // A page in which two segments meet is mapped for both.
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
            bias,
            text: place(".text"),
            eh_frame: table(".eh_frame"),
            eh_frame_hdr: table(".eh_frame_hdr"),
            symbols: symbols.collect(),
            ..Self::unknown(path, mappings)?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_files_that_were_replaced_only_the_program_is_read() {
        let program = Path::new("/usr/bin/forebay (deleted)");
        let libc = "/usr/lib/libc.so.6";
        assert_eq!(readable(libc, program), Some(libc));
        assert_eq!(readable("/usr/bin/forebay (deleted)", program), Some(PROGRAM));
        assert_eq!(readable("/usr/lib/libc.so.6 (deleted)", program), None);
    }

    #[test]
    fn a_file_that_cannot_be_read_gives_its_addresses_its_own_name() {
        let mapping = Mapping {
            range: 0x1000..0x2000,
            offset: 0,
            is_code: true,
        };
        let module = Module::unknown("/usr/lib/libc.so.6 (deleted)", &[mapping]).unwrap();
        let modules = Modules(vec![module]);
        assert_eq!(modules.name(0x1800), "[libc.so.6 (deleted)]");
        assert_eq!(modules.name(0x2000), "[no file]");
    }
}
