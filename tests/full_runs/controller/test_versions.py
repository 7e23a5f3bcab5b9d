"""Folders sort as their versions do, and only the named ones stay."""

from full_runs.controller.versions import keep_only, of_version, versions


def test_folders_of_versions(tmp_path):
    assert versions(tmp_path / "not-there-yet") == []
    folders = [of_version(tmp_path, number) for number in (9, 10, 999_999, 1_000_000)]
    for folder in reversed(folders):
        (folder / "inside").mkdir(parents=True)
    (tmp_path / "of-another-kind").mkdir()
    assert versions(tmp_path) == folders
    keep_only(tmp_path, folders[1:3])
    assert versions(tmp_path) == folders[1:3]
    assert (tmp_path / "of-another-kind").exists()
    keep_only(tmp_path, ())
    assert versions(tmp_path) == []
