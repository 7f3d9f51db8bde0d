"""The bill of materials, CycloneDX 1.5: what is compiled into the library and the command.

By cargo's own resolution for the targets that are built: tests' dependencies and those of other systems are left out. What runs only while it is
compiled (build scripts, procedural macros) is no part of a file that ships, and is marked `excluded`, as the format has it.

Must not: ask the network. Cargo.lock and the downloaded sources say everything.
"""

import json
import subprocess
import uuid
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

import rust_build
from tools import ROOT, Failure

# How the files begin in which a package has its licence.
NOTICES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
# The package, its artefact, and the target that it is built for.
BUILT = (("lazyguard-shim", "liblazyguard.so", rust_build.TRIPLE), ("lazyguard-cli", "lazyguard", rust_build.STATIC))


def write(content, folder):
    path = folder / f"lazyguard-{content.version}-{content.architecture.name}.cdx.json"
    path.write_text(json.dumps(of(content), indent=1, sort_keys=True) + "\n")
    return path


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", target]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout)


class Graph:
    """What a package needs: to run (`linked`), and only to be compiled."""

    def __init__(self, answer, root):
        self.packages = {package["id"]: package for package in answer["packages"]}
        nodes = {node["id"]: node for node in answer["resolve"]["nodes"]}
        start = next(id for id, package in self.packages.items() if package["name"] == root)
        self.linked, self.needs = set(), {}
        self.follow(nodes, start, self.linked, {None})
        compiled = set()
        for id in list(self.linked) or [start]:
            self.follow(nodes, id, compiled, {None, "build"}, into_macros=True)
        self.only_compiled = compiled - self.linked

    def follow(self, nodes, start, found, kinds, into_macros=False):
        waiting = [start]
        while waiting:
            id = waiting.pop()
            if id in found:
                continue
            found.add(id)
            needs = [need["pkg"] for need in nodes[id]["deps"] if kinds & {kind["kind"] for kind in need["dep_kinds"]}]
            needs = [need for need in needs if into_macros or not is_macro(self.packages[need])]
            self.needs[id] = sorted(set(self.needs.get(id, [])) | set(needs))
            waiting += needs


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


@cache
def graphs():
    return [Graph(metadata(target), package) for package, _, target in BUILT]


def notices():
    """The licences of all packages that are linked, as their sources have them; texts that are alike, once."""
    packages = {id: package for graph in graphs() for id, package in graph.packages.items() if id in graph.linked and package["source"]}
    texts = {}
    for package in sorted(packages.values(), key=lambda package: (package["name"], package["version"])):
        folder = Path(package["manifest_path"]).parent
        files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(NOTICES))
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in [path.read_text(errors="replace").strip() for path in files] or ["Its source has no file with the text of its licence."]:
            texts.setdefault(text, []).append(name)
    head = ("What is linked into LazyGuard, beside the packages below: the standard library of Rust (MIT OR Apache-2.0) and, in a static command, musl (MIT).")
    parts = ["\n".join([*dict.fromkeys(names), "", text]) for text, names in texts.items()]
    return f"\n\n{'-' * 80}\n\n".join([head, *parts]) + "\n"


def of(content):
    packages = {id: package for graph in graphs() for id, package in graph.packages.items()}
    linked = set().union(*(graph.linked for graph in graphs()))
    compiled = set().union(*(graph.only_compiled for graph in graphs())) - linked
    needs = {}
    for graph in graphs():
        for id, those in graph.needs.items():
            needs[id] = sorted(set(needs.get(id, [])) | set(those))
    own = {"type": "application", "bom-ref": "lazyguard", "name": "lazyguard", "version": content.version, "licenses": licence("MIT OR Apache-2.0"),
           "purl": f"pkg:generic/lazyguard@{content.version}"}
    if content.commit:
        own["properties"] = [{"name": "lazyguard:commit", "value": content.commit}]
    time = datetime.fromtimestamp(content.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    roots = sorted(reference(packages[id]) for id in linked if packages[id]["name"] in {package for package, _, _ in BUILT})
    components = [component(packages[id], id in linked) for id in linked | compiled]
    edges = {reference(packages[id]): sorted({reference(packages[need]) for need in needs.get(id, [])}) for id in linked | compiled}
    identity = json.dumps([own, sorted(edges.items())], sort_keys=True)
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        # From the content, so that the same content has the same number.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "metadata": {"timestamp": time, "component": own, "tools": {"components": [{"type": "application", "name": "scripts/dist"}]}},
        "components": sorted(components, key=lambda one: one["bom-ref"]),
        "dependencies": [{"ref": "lazyguard", "dependsOn": roots}, *({"ref": ref, "dependsOn": on} for ref, on in sorted(edges.items()))],
    }


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, is_linked):
    found = {
        "type": "library", "bom-ref": reference(package), "purl": reference(package), "name": package["name"], "version": package["version"],
        "scope": "required" if is_linked else "excluded",
    }
    if package.get("license"):
        found["licenses"] = licence(package["license"])
    if package.get("description"):
        found["description"] = " ".join(package["description"].split())
    if package.get("repository"):
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    checksum = checksums().get((package["name"], package["version"]))
    if checksum and package.get("source"):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return found


def licence(expression):
    # An old way of writing "or" in Cargo.toml.
    return [{"expression": expression.replace("/", " OR ")}]


@cache
def checksums():
    """By name and version, from Cargo.lock."""
    known, name, version = {}, "", ""
    for line in (ROOT / "Cargo.lock").read_text().splitlines():
        key, _, value = line.partition(" = ")
        if key == "name":
            name = value.strip('"')
        elif key == "version":
            version = value.strip('"')
        elif key == "checksum":
            known[name, version] = value.strip('"')
    return known
