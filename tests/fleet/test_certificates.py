"""Keys and certificates of a fleet: private, made once, none valid for longer than the authority behind it."""

import datetime
import stat
import threading

import pytest

pytest.importorskip("cryptography")

from edgetrain.errors import EdgetrainError
from edgetrain.fleet.certificates import days_left, tls_files

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def after(days):
    return lambda: NOW + datetime.timedelta(days=days)


def test_keys_are_readable_by_their_owner_only_and_one_that_is_not_is_refused(tmp_path):
    files = tls_files(tmp_path / "tls", "a", "10.0.0.2", after(0))
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").glob("*.key")} == {0o600}
    files.key.chmod(0o640)
    with pytest.raises(EdgetrainError, match=r"a.key has the permissions 0640: other users can use it; make new keys"):
        tls_files(tmp_path / "tls", "a", "10.0.0.2", after(1))


def test_a_board_that_is_added_later_has_no_certificate_that_outlives_the_authority(tmp_path):
    tls_files(tmp_path, "a", "10.0.0.2", after(0))
    late = tls_files(tmp_path, "b", "10.0.0.3", after(300))
    assert days_left(late.cert.read_bytes(), after(300)) == pytest.approx(65, abs=0.01)
    with pytest.raises(EdgetrainError, match=r"ca.pem has expired; edgetrain fleet down, remove"):
        tls_files(tmp_path, "c", "10.0.0.4", after(366))
    assert not (tmp_path / "c.pem").exists()


def test_two_that_start_together_share_one_authority(tmp_path):
    names = [f"board-{at}" for at in range(4)]
    threads = [threading.Thread(target=tls_files, args=(tmp_path, name, "10.0.0.2", after(0))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    from cryptography import x509

    authority = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    for name in names:
        x509.load_pem_x509_certificate((tmp_path / f"{name}.pem").read_bytes()).verify_directly_issued_by(authority)
