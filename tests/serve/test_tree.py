"""The trees that the reference draws are the trees that run."""

from pathlib import Path

from router.config import Settings, load
from router.process.supervision import draw
from router.serve.fleet import Fleet
from router.serve.service import RouterService

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"


def test_the_tree_in_the_reference_is_the_tree_that_runs(tmp_path: Path) -> None:
    drawing = draw(
        RouterService(load(None, {"acks.enabled": True}, {}).settings, policies_dir=tmp_path).tree()
    )
    assert drawing in PAGE.read_text()


def test_the_parent_of_two_workers_is_drawn_as_it_is(tmp_path: Path) -> None:
    drawing = draw(Fleet(Settings).tree(Settings(processes=2)))
    assert drawing in PAGE.read_text()


def test_a_worker_has_no_port_of_its_own(tmp_path: Path) -> None:
    names = [
        child.name
        for child in RouterService(Settings(), policies_dir=tmp_path, http=False).tree().children
    ]
    assert names == [
        child.name
        for child in RouterService(Settings(), policies_dir=tmp_path).tree().children
        if child.name != "http"
    ]


def test_without_acks_the_tree_has_no_branch_for_them(tmp_path: Path) -> None:
    assert "acks" not in draw(RouterService(Settings(), policies_dir=tmp_path).tree())
