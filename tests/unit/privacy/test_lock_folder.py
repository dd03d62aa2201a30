"""One process at a time works in a folder."""

import pytest

from topdown.privacy.ledger import Disk


def test_a_folder_is_held_once(tmp_path):
    """Two runs in one folder would replace each other's files, each after a charge."""
    held = Disk().lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        Disk().lock_folder(tmp_path)
    held.close()
    Disk().lock_folder(tmp_path).close()


def test_a_link_or_a_file_is_no_folder_to_hold(tmp_path):
    """A link could lead the run elsewhere between the lock and the first file."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / "file").touch()
    for name in ("link", "file", "nothing"):
        with pytest.raises(OSError, match=name):
            Disk().lock_folder(tmp_path / name)
