"""A server that lacks something is refused before the run, by name."""

import pytest

from full_runs.engine.capability import NEEDED, check_paths


def test_a_server_with_all_of_it_is_taken():
    check_paths([*NEEDED, "/health"], "here")


@pytest.mark.parametrize("lacking", sorted(NEEDED))
def test_what_is_missing_is_named_with_the_versions_that_have_it(lacking):
    with pytest.raises(ValueError, match=r"0\.32") as refused:
        check_paths([path for path in NEEDED if path != lacking], "http://host:1")
    said = str(refused.value)
    assert f"{lacking} (" in said
    assert "http://host:1" in said
    assert not any(f"{path} (" in said for path in NEEDED if path != lacking)


def test_an_older_generation_of_the_api_lacks_what_came_later():
    # Own worker extensions only, before weights had versions: https://github.com/pytorch/rl/issues/3574.
    with pytest.raises(ValueError, match="/update_weight_version"):
        check_paths(["/collective_rpc", "/reset_prefix_cache"], "here")
