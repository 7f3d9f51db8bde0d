#!/usr/bin/env python3
"""Makes symbols.inc and not-played.inc from the CUDA headers and the sources beside this file.

symbols.inc     every function of cuda.h: base name, the CUDA version its form came with, the form, the exported symbol
not-played.inc  the functions that no source here defines, with their prototypes

Usage: make-symbols.py INCLUDE_DIR    (needed again only when the headers or the set of played functions change)
"""
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent


def read_headers(include):
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include <cudaTypedefs.h>\n"
    text = subprocess.run(["g++", "-E", "-P", "-x", "c++", "-I", include, "-"], input=source, capture_output=True,
                          text=True, check=True).stdout
    text = re.sub(r"\s+", " ", text)
    prototypes = {}
    for match in re.finditer(r"CUresult (cu\w+)\(([^;{}]*?)\);", text):
        prototypes.setdefault(match.group(1), match.group(2).strip())
    typedefs = set(re.findall(r"typedef CUresult ?\( ?\* ?PFN_(cu\w+)\)", text))
    return prototypes, typedefs


def symbol_rows(prototypes, typedefs):
    """Pairs the n-th exported form of a function with the n-th version its pointer type has."""
    symbols, versions = {}, {}
    for symbol in prototypes:
        base, number, form = re.match(r"^(cu\w+?)(?:_v(\d))?(?:_(ptsz|ptds))?$", symbol).groups()
        symbols.setdefault((base, form or ""), []).append((int(number or 1), symbol))
    for typedef in typedefs:
        base, version, form = re.match(r"^(cu\w+?)_v(\d+)(?:_(ptsz|ptds))?$", typedef).groups()
        versions.setdefault((base, form or ""), []).append(int(version))
    rows = []
    for key in sorted(symbols):
        forms, since = sorted(symbols[key]), sorted(versions.get(key, []))
        if len(forms) != len(since):
            sys.exit(f"{key}: {len(forms)} symbols, {len(since)} versions")
        rows += [(key[0], version, key[1], symbol) for (_, symbol), version in zip(forms, since)]
    return rows


def played(sources, prototypes, include):
    """The functions defined here, found by compiling nothing: the preprocessed sources define what they define."""
    defined = set()
    for source in sources:
        text = subprocess.run(["g++", "-E", "-P", "-std=c++17", "-I", include, "-I", str(here.parent.parent / "kernels"),
                               str(source)], capture_output=True, text=True, check=True).stdout
        defined |= set(re.findall(r"CUresult (cu\w+) ?\([^;{}]*\) ?\{", re.sub(r"\s+", " ", text)))
    return defined & set(prototypes)


def main():
    include = sys.argv[1]
    prototypes, typedefs = read_headers(include)
    rows = symbol_rows(prototypes, typedefs)
    head = "// Made by make-symbols.py from cuda.h and cudaTypedefs.h.\n"
    with open(here / "symbols.inc", "w") as out:
        out.write(head + "// SYMBOL(base name, CUDA version, form, pointer type's suffix, exported symbol)\n")
        for base, version, form, symbol in rows:
            kind = "per_thread" if form else "plain"
            out.write(f"SYMBOL({base}, {version}, {kind}, {'_' + form if form else ''}, {symbol})\n")
    sources = [s for s in sorted(here.glob("*.cpp")) if s.name != "not_played.cpp"]
    defined = played(sources, prototypes, include)
    with open(here / "not-played.inc", "w") as out:
        out.write(head + "// Functions that only answer CUDA_ERROR_NOT_SUPPORTED.\n")
        for symbol in sorted(set(prototypes) - defined):
            out.write(f"NOT_PLAYED({symbol}, ({prototypes[symbol]}))\n")
    print(f"{len(rows)} functions, {len(defined)} of them played")


main()
