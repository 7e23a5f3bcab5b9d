"""Nothing that a full run reads from disk or wire is unpickled."""

import ast
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[3] / "full_runs").rglob("*.py"))
# The object collectives of torch.distributed pickle what they send.
FORBIDDEN = {
    "pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "multiprocessing",
    "broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list",
    "send_object_list", "recv_object_list", "FileSystemReader", "FileSystemWriter", "allow_pickle",
}  # fmt: skip


def _names(node: ast.AST) -> set[str]:
    match node:
        case ast.Import(names=names) | ast.ImportFrom(module=None, names=names):
            return {part for alias in names for part in alias.name.split(".")}
        case ast.ImportFrom(module=str(module), names=names):
            return {*module.split("."), *(alias.name for alias in names)}
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return {name}
        case ast.keyword(arg=str(name)):
            return {name}
    return set()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_way_to_unpickle_is_named(file):
    tree = ast.parse(file.read_text())
    named = set().union(*map(_names, ast.walk(tree)))
    assert not named & FORBIDDEN
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
            options = {option.arg: ast.unparse(option.value) for option in node.keywords}
            assert options.get("weights_only") == "True"


def test_the_checkpoints_reader_does_not_unpickle():
    """It inherits from one that does, so what it inherits matters."""
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    # `FileSystemReader.read_metadata` is the one that loads a pickled index, `read_data` the one for tensors.
    for name in ("read_metadata", "read_data"):
        assert getattr(HuggingFaceStorageReader, name) is not getattr(FileSystemReader, name)
