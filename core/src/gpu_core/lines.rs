//! The line tables of device code: DWARF's, of version 2 as `ptxas` writes them, with two extended operations of NVIDIA's (elfutils has them as
//! `DW_LNE_NVIDIA_inlined_call` and `DW_LNE_NVIDIA_set_function_name`). The first says that the rows that follow were inlined: its operands
//! are the row, counted from 1 in the same sequence, at which the call was, or 0 where nothing is inlined any more; and the offset in
//! `.debug_str` of the inlined function's name.
//!
//! Must not: keep more than one sequence in memory. A table is gone through once for all addresses that are asked for.

use super::names::name_at;
use gimli::{
    AttributeValue, DebugLine, DebugLineOffset, EndianSlice, IncompleteLineProgram, LineInstruction, LineProgramHeader,
    LineRow,
};
use gimli::{LittleEndian, Reader as _};
use std::collections::BTreeMap;

const MOST_INLINED: usize = 64;
const MOST_ROWS: usize = 1 << 22;
const MOST_INSTRUCTIONS: u64 = 1 << 27;

const INLINED_CALL: u8 = 0x90;
const SET_FUNCTION_NAME: u8 = 0x91;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The inlined function, mangled; `None` for the function that the instruction is in.
    pub inlined: Option<String>,
    pub file: String,
    pub line: u32,
}

/// The lines of an instruction, the innermost first.
pub(super) type Lines = Vec<Line>;

struct Row {
    address: u64,
    file: u64,
    line: u32,
    /// The row of the call, counted from 1; 0 where the code is not inlined.
    from: u64,
    name: u64,
}

/// The lines of each address that has any; `addresses` are sorted. Unreadable parts are left out.
pub(super) fn find(table: &[u8], names: &[u8], addresses: &[u64]) -> BTreeMap<u64, Lines> {
    let mut found = BTreeMap::new();
    let (mut at, mut instructions) = (0_usize, 0);
    while at < table.len() && found.len() < addresses.len() {
        // Each program begins with its length; none is read where the one before cannot be measured.
        let Some(length) = unit_length(table.get(at..).unwrap_or_default()) else { break };
        let unit = table.get(at..at.saturating_add(length)).unwrap_or(&table[at..]);
        let program = DebugLine::new(unit, LittleEndian).program(DebugLineOffset(0), 8, None, None);
        if let Ok(program) = program {
            find_in(program, names, addresses, &mut instructions, &mut found);
        }
        at = at.saturating_add(length);
    }
    found
}

/// `ptxas` writes no DWARF of 64 bits, whose length has another form.
fn unit_length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok()?.checked_add(4)
}

fn find_in(
    mut program: IncompleteLineProgram<Bytes<'_>>,
    names: &[u8],
    addresses: &[u64],
    instructions: &mut u64,
    found: &mut BTreeMap<u64, Lines>,
) {
    let header = program.header().clone();
    let mut operations = header.instructions();
    let mut state = LineRow::new(&header);
    let mut rows: Vec<Row> = Vec::new();
    let (mut from, mut name) = (0, 0);
    while let Ok(Some(instruction)) = operations.next_instruction(&header) {
        *instructions += 1;
        if *instructions > MOST_INSTRUCTIONS {
            return;
        }
        if let LineInstruction::UnknownExtended(operation, mut operands) = instruction {
            match operation.0 {
                INLINED_CALL => {
                    from = operands.read_uleb128().unwrap_or(0);
                    name = operands.read_uleb128().unwrap_or(0);
                }
                SET_FUNCTION_NAME => name = operands.read_uleb128().unwrap_or(0),
                _ => {}
            }
            continue;
        }
        match state.execute(instruction, &mut program) {
            Err(_) => return,
            Ok(false) => continue,
            Ok(true) => {}
        }
        if state.end_sequence() {
            let within = match rows.first() {
                Some(first) => {
                    let from = addresses.partition_point(|address| *address < first.address);
                    let behind = addresses.partition_point(|address| *address < state.address());
                    addresses.get(from..behind).unwrap_or_default()
                }
                None => &[],
            };
            *instructions += within.len() as u64;
            resolve(&header, &rows, names, within, found);
            rows.clear();
            (from, name) = (0, 0);
        } else if rows.len() < MOST_ROWS {
            let line = state.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(u32::MAX));
            rows.push(Row { address: state.address(), file: state.file_index(), line, from, name });
        }
        state.reset(&header);
    }
}

fn resolve(
    header: &LineProgramHeader<Bytes<'_>>,
    rows: &[Row],
    names: &[u8],
    addresses: &[u64],
    found: &mut BTreeMap<u64, Lines>,
) {
    for &address in addresses {
        // Addresses do not fall within a sequence. The last of several rows at one address is the instruction's.
        let mut next = rows.partition_point(|row| row.address <= address).checked_sub(1);
        let mut lines = Lines::new();
        while let Some((at, row)) = next.and_then(|at| rows.get(at).map(|row| (at, row))) {
            lines.push(Line {
                inlined: (row.from != 0).then(|| name_at(names, row.name)).flatten(),
                file: file(header, row.file).unwrap_or_default(),
                line: row.line,
            });
            // A call is in a row before those of what was inlined; anything else is a damaged table, and would go around in it.
            next = usize::try_from(row.from).ok().and_then(|from| from.checked_sub(1)).filter(|from| *from < at);
            if lines.len() == MOST_INLINED {
                break;
            }
        }
        if !lines.is_empty() {
            found.entry(address).or_insert(lines);
        }
    }
}

fn file(header: &LineProgramHeader<Bytes<'_>>, index: u64) -> Option<String> {
    let text = |value: &AttributeValue<Bytes<'_>>| match value {
        AttributeValue::String(bytes) => Some(bytes.to_string_lossy().into_owned()),
        _ => None,
    };
    let file = header.file(index)?;
    let name = text(&file.path_name())?;
    let folder = (!name.starts_with('/')).then(|| file.directory(header)).flatten().and_then(|folder| text(&folder));
    Some(match folder {
        Some(folder) if !folder.is_empty() => format!("{folder}/{name}"),
        _ => name,
    })
}
