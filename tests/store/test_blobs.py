"""Blobs: content-addressed, private files, owned by lanes and sessions, seen by their tenant only."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.store import Owner, SqliteStore, VersionConflictError, open_store
from holdfast.store import operations as op
from holdfast.store.blobs import BlobFiles

from .samples import NOON, lane

LANE, OTHER, SESSION = Owner("lane", "l1"), Owner("lane", "l2"), Owner("session", "s1")


def files(store: SqliteStore) -> list[Path]:
    return sorted(path for path in store.path.with_name("holdfast.db.blobs").rglob("*") if path.is_file())


def test_a_blob_is_named_by_its_content_and_private(store: SqliteStore) -> None:
    blob = store.write(op.PutBlob("t1", LANE, b"secret", at=NOON)).result()
    assert blob.digest == hashlib.sha256(b"secret").hexdigest()
    assert blob.size == 6
    assert store.read_blob("t1", blob.digest) == b"secret"
    [file] = files(store)
    assert file.name == blob.digest
    assert file.stat().st_mode & 0o777 == 0o600
    root = store.path.with_name("holdfast.db.blobs")
    for directory in (root, *(one for one in root.rglob("*") if one.is_dir())):
        assert directory.stat().st_mode & 0o777 == 0o700


def test_a_tenant_sees_only_its_own(store: SqliteStore) -> None:
    digest = store.write(op.PutBlob("t1", LANE, b"secret", at=NOON)).result().digest
    with pytest.raises(HoldfastError, match="has no blob"):
        store.read_blob("t2", digest)
    store.write(op.PutBlob("t2", LANE, b"secret", at=NOON)).result()
    assert len(files(store)) == 2, "identical bytes of two tenants share nothing"


@pytest.mark.parametrize("tenant", ["../../x", "a/b", "", "\n", "é"])
def test_a_tenants_name_never_becomes_a_path(store: SqliteStore, tenant: str) -> None:
    digest = store.write(op.PutBlob(tenant, LANE, b"x", at=NOON)).result().digest
    assert store.read_blob(tenant, digest) == b"x"
    [file] = files(store)
    assert file.parent.parent.parent == store.path.with_name("holdfast.db.blobs")


def test_a_digest_never_becomes_a_path(store: SqliteStore) -> None:
    with pytest.raises(HoldfastError, match="has no blob"):
        store.read_blob("t1", "../../holdfast.db")


def test_it_lives_as_long_as_its_last_owner(store: SqliteStore) -> None:
    store.write(op.PutLane(lane()))
    for owner in (LANE, OTHER, SESSION):
        digest = store.write(op.PutBlob("t1", owner, b"shared", at=NOON)).result().digest
    store.write(op.EndLane("t1", "l1", NOON + 1)).result()
    assert store.lane("t1", "l1").ended_at == NOON + 1
    store.write(op.EndLane("t1", "l2", NOON)).result()
    assert store.read_blob("t1", digest) == b"shared"
    store.write(op.DeleteSession("t1", "s1")).result()
    with pytest.raises(HoldfastError, match="has no blob"):
        store.read_blob("t1", digest)
    store.close()
    assert files(store) == []


def test_ending_a_lane_drops_its_ledger_and_edits(store: SqliteStore) -> None:
    store.write(op.PutLedger("t1", "l1", b"x", expected=0))
    store.write(op.PutEdit("t1", "l1", "block", b"bytes", at=NOON))
    store.write(op.EndLane("t1", "l1", NOON)).result()
    assert store.ledger("t1", "l1") is None
    assert store.edits("t1", "l1") == []


def test_a_blob_put_again_while_its_owner_goes_is_kept(store: SqliteStore) -> None:
    with store.batch() as batch:
        batch.write(op.PutBlob("t1", LANE, b"bytes", at=NOON))
        batch.write(op.EndLane("t1", "l1", NOON))
        kept = batch.write(op.PutBlob("t1", OTHER, b"bytes", at=NOON))
    digest = kept.result().digest
    store.write(op.PutLane(lane())).result()
    assert store.read_blob("t1", digest) == b"bytes"


def test_a_lane_whose_ending_is_undone_keeps_its_blobs(store: SqliteStore) -> None:
    edit = store.write(op.PutEdit("t1", "l1", "block", b"bytes", at=NOON)).result()
    with store.batch() as batch:
        batch.write(op.EndLane("t1", "l1", NOON))
        stale = batch.write(op.PutLedger("t1", "l1", b"x", expected=5))
    assert isinstance(stale.exception(), VersionConflictError)
    store.write(op.PutLane(lane())).result()
    assert store.edits("t1", "l1") == [edit]
    assert store.read_blob("t1", edit.blob) == b"bytes"


def test_damage_is_told_and_mended_by_putting_it_again(store: SqliteStore) -> None:
    digest = store.write(op.PutBlob("t1", LANE, b"whole", at=NOON)).result().digest
    [file] = files(store)
    file.write_bytes(b"half")
    with pytest.raises(HoldfastError, match="is damaged"):
        store.read_blob("t1", digest)
    store.write(op.PutBlob("t1", LANE, b"whole", at=NOON)).result()
    assert store.read_blob("t1", digest) == b"whole"
    file.unlink()
    with pytest.raises(HoldfastError, match="is gone; its lane may have ended, record it again"):
        store.read_blob("t1", digest)


def test_what_a_crash_left_is_swept_and_nothing_else(store: SqliteStore) -> None:
    kept = store.write(op.PutBlob("t1", LANE, b"kept", at=NOON)).result()
    orphan = BlobFiles(store.path.with_name("holdfast.db.blobs"))
    orphan.write("t1", b"no row names this")
    half = orphan.path("t1", kept.digest).with_name(".unfinished")
    half.write_bytes(b"")
    assert len(files(store)) == 3
    assert store.prune(NOON).blobs == 2
    assert store.read_blob("t1", kept.digest) == b"kept"


def test_a_blob_directory_that_cannot_be_written_is_told_and_the_store_goes_on(path: Path) -> None:
    with open_store(path) as store:
        store.path.with_name("holdfast.db.blobs").write_text("a file where the directory should be")
        with pytest.raises(HoldfastError, match=r"blobs.* cannot be used"):
            store.write(op.PutBlob("t1", LANE, b"x", at=NOON)).result()
        store.write(op.PutLane(lane())).result()
        assert store.lane("t1", "l1")


def test_a_blob_that_cannot_be_removed_is_told_in_the_log(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    digest = store.write(op.PutBlob("t1", LANE, b"x", at=NOON)).result().digest
    [file] = files(store)
    file.unlink()
    file.mkdir()
    store.write(op.EndLane("t1", "l1", NOON)).result()
    store.write(op.PutLane(lane())).result()
    assert digest in caplog.text
    assert store.writer.failed == 1
    file.rmdir()


def test_a_stray_directory_among_the_blobs_does_not_stop_retention(store: SqliteStore) -> None:
    kept = store.write(op.PutBlob("t1", LANE, b"kept", at=NOON)).result()
    [file] = files(store)
    (file.parent / "stray").mkdir()
    assert store.prune(NOON).blobs == 0
    assert store.read_blob("t1", kept.digest) == b"kept"
