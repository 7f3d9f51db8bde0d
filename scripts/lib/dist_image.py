"""The container image, which holds the command, the library and the licences, and nothing else.

It is written in two forms: as an OCI image layout, which container engines and registries' tools read (`docker load` of new engines,
`podman load`, `skopeo copy oci-archive:`), and as a folder with a Containerfile for those who build their images themselves.
"""

import hashlib
import json
from datetime import datetime, timezone

import dist_archive as archive
from dist_content import SUMMARY, fresh

CONTAINERFILE = "FROM scratch\nCOPY lazyguard liblazyguard.so /\nCOPY licenses /licenses\nENTRYPOINT [\"/lazyguard\"]\n"
KIND = "application/vnd.oci.image."


def entries(content):
    return [
        archive.file("lazyguard", content.command, 0o755),
        archive.file("liblazyguard.so", content.library, 0o755),
        *(archive.file(f"licenses/{name}", source) for name, source in content.licences.items()),
    ]


def write(content, folder):
    path = folder / f"lazyguard-{content.version}-oci-{content.architecture.name}.tar"
    plain = archive.tar(entries(content), content.epoch)
    packed = archive.compressed(plain, content.level)
    time = datetime.fromtimestamp(content.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {"org.opencontainers.image.title": "lazyguard", "org.opencontainers.image.version": content.version,
                   "org.opencontainers.image.description": SUMMARY, "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                   "org.opencontainers.image.created": time}
    if content.commit:
        annotations["org.opencontainers.image.revision"] = content.commit
    config = encoded({
        "created": time, "architecture": content.architecture.oci, "os": "linux",
        "config": {"Entrypoint": ["/lazyguard"], "Labels": annotations},
        "rootfs": {"type": "layers", "diff_ids": [named(plain)]},
        "history": [{"created": time, "created_by": "scripts/dist"}],
    })
    manifest = encoded({
        "schemaVersion": 2, "mediaType": f"{KIND}manifest.v1+json",
        "config": described(f"{KIND}config.v1+json", config),
        "layers": [described(f"{KIND}layer.v1.tar+gzip", packed)],
        "annotations": annotations,
    })
    platform = {"architecture": content.architecture.oci, "os": "linux"}
    names = {"org.opencontainers.image.ref.name": content.version, "io.containerd.image.name": f"docker.io/library/lazyguard:{content.version}"}
    index = encoded({
        "schemaVersion": 2, "mediaType": f"{KIND}index.v1+json",
        "manifests": [{**described(f"{KIND}manifest.v1+json", manifest), "platform": platform, "annotations": names}],
    })
    blobs = [archive.Entry(f"blobs/sha256/{named(data)[7:]}", data) for data in (config, manifest, packed)]
    layout = archive.text("oci-layout", '{"imageLayoutVersion":"1.0.0"}')
    path.write_bytes(archive.tar([layout, archive.Entry("index.json", index), *blobs], content.epoch))
    return path


def write_recipe(content, folder):
    """The folder that a Containerfile needs."""
    recipe = fresh(folder / "image")
    for entry in entries(content):
        path = recipe / entry.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(entry.data)
        path.chmod(entry.mode)
    (recipe / "Containerfile").write_text(CONTAINERFILE)
    return recipe


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def named(data):
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def described(kind, data):
    return {"mediaType": kind, "digest": named(data), "size": len(data)}
