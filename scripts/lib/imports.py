"""The import graph of a Rust crate, from its sources, the circles in it, and its arrows that run up. scripts/check-imports is the command.

Reads the sources without compiling them: removes comments, strings and tests, and resolves paths that begin with `crate`, `super`,
`self` or the name of a child through the tree of files. Does not see what a macro makes of its tokens.
"""

import re
from collections import defaultdict

# The folders of a crate, each on a floor of its own, the highest first: a folder uses only folders below it. main.rs is above them all.
FLOORS = {"cli": ("commands", "explore", "run", "inspect", "forms", "judge", "folder", "stacks", "machine", "words")}

# What takes no part in the graph: comments, strings and characters.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
TEST = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?(?:mod|fn|impl|use|static|const)\b")
TEST_FILE = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[path = \"([^\"]+)\"\]\s*)?(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
USE = re.compile(r"(?:^|(?<=[;{}\]]))\s*((?:pub(?:\([^)]*\))?\s+)?)use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\s*[A-Za-z_]\w*)+")


def end_of_item(text, begin):
    """Where the item that begins here ends: behind its block, or at its semicolon."""
    depth = 0
    for at in range(begin, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        elif text[at] == ";" and depth == 0:
            return at + 1
    return len(text)


def without_noise(text):
    text = NOISE.sub(lambda match: " " if match[0].startswith("/") else '""', text)
    while found := TEST.search(text):
        text = text[: found.start()] + text[end_of_item(text, found.end()):]
    return text


def expanded(tree):
    """The paths of a use tree, each with the name that it gives."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace >= 0 and tree.endswith("}"):
        head, depth, part = tree[:brace].strip(), 0, ""
        for character in tree[brace + 1: -1] + ",":
            if character == "," and depth == 0:
                if part.strip():
                    for path, name in expanded(part):
                        yield (head + path if path != "self" else head.removesuffix("::")), name if path != "self" else head.split("::")[-2]
                part = ""
                continue
            depth += {"{": 1, "}": -1}.get(character, 0)
            part += character
        return
    path, _, alias = tree.partition(" as ")
    path = path.replace(" ", "")
    yield path, alias.strip() or path.split("::")[-1]


class Module:
    def __init__(self, path, text):
        self.path, text = path, without_noise(text)
        self.names, self.private_uses = {}, []
        for match in USE.finditer(text):
            for target, name in expanded(" ".join(match[2].split())):
                self.names.setdefault(name, target)
                if not match[1]:
                    self.private_uses.append(target)
        self.text = USE.sub(";", text)
        self.inline = [match[0].replace(" ", "") for match in PATH.finditer(self.text)]


def module_path(file, source):
    parts = list(file.relative_to(source).with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def modules(crate):
    source = crate / "src"
    texts = {file: file.read_text() for file in sorted(source.rglob("*.rs"))}
    tests = set()
    for file, text in texts.items():
        folder = file.parent if file.stem in ("mod", "lib", "main") else file.with_suffix("")
        for path, name in TEST_FILE.findall(text):
            tests |= {file.parent / path} if path else {folder / f"{name}.rs", folder / name / "mod.rs"}
    found = {}
    for file in sorted(texts.keys() - tests):
        path = module_path(file, source)
        found[path] = Module(path, texts[file])
    for path, module in found.items():
        children = [other[-1] for other in found if other and other[:-1] == path]
        if children:
            of_child = re.compile(rf"(?<![:\w.])(?:{'|'.join(children)})::\s*[A-Za-z_]\w*")
            module.inline += [match[0].replace(" ", "") for match in of_child.finditer(module.text)]
    return found


def resolve(tree, module, path, depth=0):
    """The module in which the thing that a path names is defined, or None where that is another crate."""
    parts = path.split("::")
    here = list(module.path)
    if parts[0] == "crate":
        here, parts = [], parts[1:]
    elif parts[0] in ("super", "self"):
        while parts and parts[0] in ("super", "self"):
            if parts[0] == "super":
                if not here:
                    return None
                here.pop()
            parts = parts[1:]
    elif tuple(here + [parts[0]]) not in tree:
        return None
    while parts and tuple(here + [parts[0]]) in tree:
        here.append(parts[0])
        parts = parts[1:]
    target = tree.get(tuple(here))
    if target is None:
        return None
    if parts and depth < 8 and target is not module and parts[0] in target.names:
        origin = resolve(tree, target, target.names[parts[0]], depth + 1)
        if origin is not None:
            return origin
    return target.path


def graphs(tree):
    """Of each folder its nodes' arrows, each with an example."""
    found = defaultdict(lambda: defaultdict(dict))
    for module in tree.values():
        for path in module.private_uses + [t for n, t in module.names.items() if t not in module.private_uses] + module.inline:
            target = resolve(tree, module, path)
            if target is None or target == module.path:
                continue
            is_facade = path not in module.private_uses and path not in module.inline
            common = 0
            while common < min(len(target), len(module.path)) and target[common] == module.path[common]:
                common += 1
            level = module.path[:common]
            one = module.path[common] if len(module.path) > common else "mod.rs"
            other = target[common] if len(target) > common else "mod.rs"
            # A mod.rs that re-exports items of its files does not depend on them.
            if one == "mod.rs" and is_facade:
                continue
            found[level][one].setdefault(other, f"{'::'.join(module.path) or 'the root'} uses {path}")
    return found


def components(arrows):
    """The strongly connected parts of a graph with more than one node, by Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in arrows.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            part = []
            while True:
                part.append(stack.pop())
                if part[-1] == node:
                    break
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


def circles(crate):
    """The circles of a crate, a text each."""
    told = []
    for level, arrows in sorted(graphs(modules(crate)).items()):
        for part in components(arrows):
            where = "/".join((crate.name, "src") + level)
            lines = [f"{where}: a circle of {', '.join(part)}"]
            lines += [f"  {one} -> {other}: {arrows[one][other]}" for one in part for other in part if other in arrows.get(one, {})]
            told.append("\n".join(lines))
    return told


def climbs(crate, floors):
    """The arrows of a crate's folders to folders that are not below them, a text each."""
    order = ("mod.rs",) + tuple(floors)
    height = {folder: -at for at, folder in enumerate(order)}
    told = []
    for one, others in sorted(graphs(modules(crate))[()].items()):
        if one not in height:
            told.append(f"{crate.name}/src: {one} has no floor")
            continue
        for other, example in sorted(others.items()):
            if height.get(other, 0) >= height[one]:
                told.append(f"{crate.name}/src: {one} -> {other} runs up: {example}")
    return told
