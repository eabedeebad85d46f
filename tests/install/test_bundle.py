"""The bundle for a box without an index: what it packs besides the last commit."""

import importlib.util
import subprocess
import tarfile

import pytest

from tests.support.runs import HERE

NAMES = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """Load the tool, for a small checkout of its own."""
    path = HERE / "tools" / "bundle.py"
    spec = importlib.util.spec_from_file_location("bundle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    root = tmp_path / "checkout"
    for folder in ("expected/hosts", "expected/measured", "tests"):
        (root / folder).mkdir(parents=True)
    (root / ".gitignore").write_bytes((HERE / ".gitignore").read_bytes())
    (root / "expected" / "hosts" / "example-h100.toml").write_text("schema = 1\n")
    (root / "tests" / "test_x.py").write_text("")
    for name in NAMES:
        monkeypatch.setenv(name, "nobody")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    monkeypatch.setattr(module, "ROOT", root)
    return module


def packed(bundle, folder):
    """Make a bundle without wheels; gives its files by their names in it."""
    wheels = folder / "wheels"
    wheels.mkdir(exist_ok=True)
    target = folder / "made.tar.gz"
    bundle.pack(target, wheels, "note", "0" * 40, 1_700_000_000, bundle.own_files())
    with tarfile.open(target) as archive:
        return {
            entry.name.removeprefix("made/"): archive.extractfile(entry).read()
            for entry in archive
            if entry.isreg()
        }


def test_the_users_own_profiles_and_numbers_are_packed(bundle, tmp_path):
    assert bundle.own_files() == []
    assert set(packed(bundle, tmp_path)) == {
        ".gitignore",
        "expected/hosts/example-h100.toml",
        ".commit",
        "BUNDLE",
    }
    (bundle.ROOT / "expected" / "hosts" / "h100-1.toml").write_text("schema = 1\n# mine\n")
    (bundle.ROOT / "expected" / "measured" / "h100-1.toml").write_text("schema = 1\n# too\n")
    (bundle.ROOT / "expected" / "hosts" / "h100-1.toml~").write_text("an editor's copy")
    (bundle.ROOT / "expected" / "hosts" / "broken.toml").symlink_to("nowhere.toml")
    assert bundle.own_files() == ["expected/hosts/h100-1.toml", "expected/measured/h100-1.toml"]
    files = packed(bundle, tmp_path)
    assert files["expected/hosts/h100-1.toml"] == b"schema = 1\n# mine\n"
    assert files["expected/measured/h100-1.toml"] == b"schema = 1\n# too\n"
    assert not [name for name in files if name.startswith("tests/") or name.endswith("~")]
